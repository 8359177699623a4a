"""The console in a real browser: signing in, live parts that do not move, pausing, themes."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from tests.console.browser import TIMEOUT_MS, check_accessibility
from tests.console.console_server import ConsoleServer
from tests.identity.people_and_devices import PASSWORD

pytestmark = pytest.mark.slow

expect.set_options(timeout=TIMEOUT_MS)

PageAs = Callable[[str], Page]


def test_stranger_signs_in_and_returns_to_the_page(server: ConsoleServer, page_as: PageAs) -> None:
    page = page_as("fleet")
    page.context.clear_cookies()
    page.goto("/console/outbox?status=FAILED")
    check_accessibility(page)
    page.get_by_label("E-mail").fill("fleet@example.com")
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_url("**/console/outbox?status=FAILED")
    expect(page.get_by_role("heading", level=1)).to_have_text("Outbox")


def test_row_appears_without_loading_the_page_again(server: ConsoleServer, page_as: PageAs) -> None:
    device_id = server.add_device("live")
    page = page_as("fleet")
    page.goto(f"/console/outbox?device={device_id}")
    expect(page.get_by_text("No rows here")).to_be_visible()
    page.evaluate("window.isSamePage = true")
    row_id = server.add_failed_row(device_id)
    expect(page.locator(f'a[href="/console/outbox/{row_id}"]')).to_be_visible()
    assert page.evaluate("window.isSamePage")


def test_paused_page_changes_when_it_is_resumed(server: ConsoleServer, page_as: PageAs) -> None:
    device_id = server.add_device("paused")
    other = page_as("fleet")
    other.goto(f"/console/outbox?device={device_id}")
    page = page_as("fleet")
    page.goto(f"/console/outbox?device={device_id}")
    page.get_by_role("button", name="Pause live updates").click()
    expect(page.get_by_role("button", name="Live updates are paused: resume")).to_be_visible()
    row = f'a[href="/console/outbox/{server.add_failed_row(device_id)}"]'
    expect(other.locator(row)).to_be_visible()
    expect(page.locator(row)).to_have_count(0)
    page.get_by_role("button", name="Live updates are paused: resume").click()
    expect(page.locator(row)).to_be_visible()


def test_theme_is_kept_for_the_next_page(page_as: PageAs) -> None:
    page = page_as("admin")
    page.emulate_media(color_scheme="light")
    page.goto("/console")
    page.get_by_role("button", name="Switch between light and dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.goto("/console/outbox")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


LAYOUT_SHIFTS = """
window.shifts = [];
new PerformanceObserver((list) => window.shifts.push(...list.getEntries())).observe({ type: "layout-shift" });
"""
# When the page was drawn as it was loaded. A slow browser draws parts of it before, and moves them.
DRAWN = """() => new Promise((resolve) =>
  requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now()))))"""
SHIFTED = """(drawn) => window.shifts.filter((entry) => entry.startTime > drawn)
  .reduce((sum, entry) => sum + entry.value, 0)"""
# A page feels still below 0.1.
SHIFT_MAX = 0.01
PLACES = """(selector) => [...document.querySelectorAll(selector)].map((row) =>
  [row.querySelector("th a").textContent, Math.round(row.getBoundingClientRect().top)])"""


def shifts_since_drawn(page: Page, path: str) -> Callable[[], float]:
    """Open the page. The returned function measures how much has moved on it since it was drawn."""
    page.add_init_script(LAYOUT_SHIFTS)
    page.goto(path)
    drawn = page.evaluate(DRAWN)
    return lambda: float(page.evaluate(SHIFTED, drawn))


def test_rows_stay_in_their_places_when_others_are_added(server: ConsoleServer, page_as: PageAs) -> None:
    device_id = server.add_device("still")
    first = server.add_failed_row(device_id)
    page = page_as("fleet")
    shifts = shifts_since_drawn(page, f"/console/outbox?device={device_id}")
    rows = "#outbox-rows tbody tr"
    before = page.evaluate(PLACES, rows)
    second = server.add_failed_row(device_id)
    show = page.get_by_role("button", name="1 new row: show")
    expect(show).to_be_visible()
    assert page.evaluate(PLACES, rows) == before
    assert shifts() < SHIFT_MAX
    page.keyboard.press("n")
    expect(show).to_be_hidden()
    expect(page.locator(rows)).to_have_count(2)
    assert [name for name, _ in page.evaluate(PLACES, rows)] == [str(second), str(first)]


def test_known_row_changes_in_its_place_and_a_missing_one_is_struck_out(server: ConsoleServer, page_as: PageAs) -> None:
    device_id = server.add_device("leaving")
    kept, retried = server.add_failed_row(device_id), server.add_failed_row(device_id)
    page = page_as("fleet")
    shifts = shifts_since_drawn(page, f"/console/outbox?device={device_id}&status=FAILED")
    rows = "#outbox-rows tbody tr"
    before = page.evaluate(PLACES, rows)
    with server.client("fleet") as client:
        assert client.post(f"/console/outbox/{retried}/retry").status_code == 303
    expect(page.locator("tr.gone")).to_contain_text(str(retried))
    assert page.evaluate(PLACES, rows) == before
    assert shifts() < SHIFT_MAX
    page.get_by_role("button", name="The list has changed: show").click()
    expect(page.locator(rows)).to_have_count(1)
    expect(page.locator(rows)).to_contain_text(str(kept))


def test_overview_does_not_shift_when_something_needs_attention(server: ConsoleServer, page_as: PageAs) -> None:
    page = page_as("bank")
    shifts = shifts_since_drawn(page, "/console")
    server.add_event_resources()
    expect(page.get_by_role("link", name="Events were refused by their clients")).to_be_visible()
    assert shifts() < SHIFT_MAX


def test_bar_stays_when_scripts_arrive_late(page_as: PageAs) -> None:
    page = page_as("admin")
    held: list[Route] = []
    is_holding = True
    page.route("**/*.js*", lambda route: held.append(route) if is_holding else route.continue_())
    page.goto("/console", wait_until="commit")
    tools = page.locator(".tools")
    expect(tools.locator("summary")).to_be_visible()
    # The style sheet has arrived.
    expect(tools).to_have_css("display", "flex")
    before = tools.bounding_box()
    is_holding = False
    for route in held:
        route.continue_()
    expect(page.get_by_role("button", name="Pause live updates")).to_be_visible()
    expect(page.get_by_role("button", name="Switch between light and dark")).to_be_visible()
    assert tools.bounding_box() == before
