"""The console in a real browser: live parts, keys, themes, and no violation of accessibility rules on any page."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.console.browser import TIMEOUT_MS, check_accessibility
from tests.console.console_server import ConsoleServer

pytestmark = pytest.mark.slow

expect.set_options(timeout=TIMEOUT_MS)

PageAs = Callable[[str], Page]


def test_pages_have_no_violation_in_light_and_dark(server: ConsoleServer, page_as: PageAs) -> None:
    row_id = server.add_failed_row(server.add_device("shown"))
    page = page_as("admin")
    paths = ["/console", "/console/outbox", f"/console/outbox/{row_id}", "/console/search?q=nothing-has-this-id"]
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        for path in paths:
            page.goto(path)
            check_accessibility(page)
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto("/console/outbox")
    check_accessibility(page)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_row_appears_without_loading_the_page_again(server: ConsoleServer, page_as: PageAs) -> None:
    device_id = server.add_device("live")
    page = page_as("fleet")
    page.goto(f"/console/outbox?device={device_id}")
    expect(page.get_by_text("No rows here")).to_be_visible()
    page.evaluate("window.isSamePage = true")
    row_id = server.add_failed_row(device_id)
    expect(page.locator(f'a[href="/console/outbox/{row_id}"]')).to_be_visible()
    assert page.evaluate("window.isSamePage")


def test_console_is_used_with_keys_only(server: ConsoleServer, page_as: PageAs) -> None:
    row_id = server.add_failed_row(server.add_device("keyboard"))
    page = page_as("fleet")
    page.goto("/console")
    page.keyboard.press("/")
    page.keyboard.type(str(row_id))
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/console/outbox/{row_id}")
    page.get_by_role("button", name="Retry").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_have_text("The row is pending again.")


def test_theme_is_kept_for_the_next_page(page_as: PageAs) -> None:
    page = page_as("admin")
    page.emulate_media(color_scheme="light")
    page.goto("/console")
    page.get_by_role("button", name="Switch between light and dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.goto("/console/outbox")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
