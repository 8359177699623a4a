"""The console in a real browser: one story for each role, live parts, keys, themes, and accessibility of every page."""

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.console.browser import TIMEOUT_MS, check_accessibility
from tests.console.console_server import ConsoleServer, run_job, start_rollout
from tests.identity.people_and_devices import PASSWORD
from tests.server.edge_resources import APPROVED_TYPE

pytestmark = pytest.mark.slow

expect.set_options(timeout=TIMEOUT_MS)

PageAs = Callable[[str], Page]
PHONE, TABLET, DESKTOP = 390, 820, 1440
DARK_EVERY = 4


@pytest.fixture(scope="module")
def paths(server: ConsoleServer) -> list[str]:
    """Every page, with something on it."""
    device_id = server.add_full_device("shown")
    row_id = server.add_failed_row(device_id)
    edge, event = server.add_edge_resources(), server.add_event_resources()
    with server.client("fleet") as fleet:
        rollout, job = start_rollout(fleet, "shown", "100%"), run_job(fleet, **{"filter.device_id": str(device_id)})
    device, person, key = f"/console/devices/{device_id}", server.user_ids["fleet"], server.add_key()
    return [
        "/console",
        "/console/search?q=nothing-has-this-id",
        "/console/devices",
        "/console/devices?name=shown&tag=nobody",
        device,
        f"{device}/config/2",
        f"{device}/config/new",
        "/console/certificates",
        "/console/certificates?renewal=failed",
        f"/console/certificates/{server.owner_id}/{server.fail_renewal()}",
        "/console/outbox",
        f"/console/outbox/{row_id}",
        "/console/sites",
        f"/console/sites/{edge.site_id}",
        f"/console/miners/{edge.miner_id}",
        "/console/commands",
        f"/console/commands/{edge.command_id}",
        "/console/commands/new?command_type=POOL_SET",
        "/console/approvals",
        "/console/audit",
        "/console/clients",
        f"/console/clients/{event.client_id}",
        "/console/events",
        f"/console/events/{event.errored_jti}",
        "/console/events/new",
        "/console/event-keys",
        "/console/jobs",
        "/console/jobs/new?target=devices&action=put_config&filter.name=shown",
        job,
        "/console/rollouts",
        rollout,
        "/console/people",
        f"/console/people/{person}",
        "/console/keys",
        "/console/keys/new",
        f"/console/keys/{key}",
        "/console/settings",
        "/console/settings/doctor",
        "/console/no-such-page",
    ]


def open_page(page: Page, path: str) -> None:
    """Open the page. The browser reports the 404 of a missing page as an error of its console: it is not opened so."""
    if path.endswith("no-such-page"):
        page.route("**/no-such-page", lambda route: route.fulfill(response=route.fetch(), status=200))
    page.goto(path)


def test_every_page_has_no_violation_and_fits_its_window(paths: list[str], page_as: PageAs) -> None:
    page = page_as("admin")
    for place, path in enumerate(paths):
        page.emulate_media(color_scheme="light")
        page.set_viewport_size({"width": DESKTOP, "height": 900})
        open_page(page, path)
        check_accessibility(page)
        for width in (TABLET, PHONE):
            page.set_viewport_size({"width": width, "height": 900})
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{path} at {width}"
        # The colours are the same on every page: some are enough.
        if place % DARK_EVERY == 0:
            page.emulate_media(color_scheme="dark")
            check_accessibility(page)


def test_fleet_operator_finds_a_late_device_sends_a_config_and_revokes_it(
    server: ConsoleServer, page_as: PageAs
) -> None:
    server.add_full_device("story-till")
    page = page_as("fleet")
    page.goto("/console")
    page.get_by_role("link", name="Devices", exact=True).click()
    page.get_by_label("Name begins with").fill("story-")
    page.get_by_role("button", name="Filter").click()
    page.get_by_role("link", name="story-till").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("story-till")
    page.get_by_role("link", name="New config").click()
    page.get_by_label("Items").fill('[{"id": "site", "type": "copy", "from": ["a"], "to": ["/b"]}]')
    page.get_by_label("Note").fill("third path")
    page.get_by_role("button", name="Store version 3").click()
    expect(page.get_by_role("status")).to_contain_text("The new version of the install config is stored")
    expect(page.locator("#device-truth")).to_contain_text("version 3")
    page.locator("#device-config").get_by_role("link", name="3").click()
    expect(page.locator(".diff-added").last).to_contain_text("/b")
    page.go_back()
    page.get_by_text("Send a signal").click()
    page.get_by_label("Type").fill("app.refresh")
    page.get_by_role("button", name="Send").click()
    expect(page.locator("#device-signals")).to_contain_text("app.refresh")
    server.outdate_password(cookie_of(page))
    page.get_by_role("button", name="Revoke").click()
    page.get_by_label("Password of fleet@example.com").fill(PASSWORD)
    page.get_by_role("button", name="Revoke the device").click()
    expect(page.get_by_role("status")).to_contain_text("The device is revoked")
    expect(page.get_by_role("button", name="Revoke")).to_have_count(0)


def test_site_operator_sends_a_command_and_another_person_approves_it(server: ConsoleServer, page_as: PageAs) -> None:
    edge = server.add_edge_resources()
    page = page_as("site")
    page.goto(f"/console/sites/{edge.site_id}")
    page.get_by_role("link", name="New command").click()
    page.get_by_label("Type", exact=True).select_option(APPROVED_TYPE)
    page.get_by_role("button", name="Choose").click()
    page.get_by_label("Target").select_option(f"{edge.site_id}:{edge.miner_id}")
    page.get_by_label("Reason").fill("the fan is loud")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("status")).to_contain_text("The command is created")
    expect(page.locator("#command-why")).to_contain_text("approval")
    expect(page.get_by_role("button", name="Approve")).to_have_count(0)
    address = page.url.partition("?")[0]
    approver = page_as("approver")
    approver.goto("/console/approvals")
    command_id = address.rpartition("/")[2]
    approver.get_by_role("button", name=f"Approve {command_id}").click()
    expect(approver.get_by_role("status")).to_contain_text("The command is approved")
    # The page of the operator shows it without being loaded again.
    expect(page.locator("#command-state")).to_contain_text("pending")
    expect(page.locator("#command-life")).to_contain_text("approver@example.com")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#command-state")).to_contain_text("cancelled")


def test_bank_integrator_publishes_an_event_and_sees_its_verified_token(server: ConsoleServer, page_as: PageAs) -> None:
    event = server.add_event_resources()
    page = page_as("bank")
    page.goto(f"/console/clients/{event.client_id}")
    expect(page.locator("#client-why")).to_contain_text("Why?")
    page.get_by_role("link", name="Publish an event").click()
    page.get_by_label("Subject").fill("https://bank.example/accounts/1")
    page.get_by_role("button", name="Publish").click()
    expect(page.get_by_role("status")).to_contain_text("The event is published")
    # It is signed after the page was loaded.
    expect(page.locator("#event-check")).to_contain_text("The published key verifies the signature")
    expect(page.locator("#event-claims")).to_contain_text("https://bank.example/accounts/1")
    page.goto(f"/console/events/{event.errored_jti}")
    page.get_by_role("button", name="Deliver again").click()
    expect(page.locator("#event-state")).to_contain_text("ready")


def test_audit_trail_is_filtered_and_verified(server: ConsoleServer, page_as: PageAs) -> None:
    edge = server.add_edge_resources()
    page = page_as("admin")
    page.goto("/console/audit")
    page.get_by_label("Command", exact=True).fill(edge.command_id)
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#audit-rows")).to_contain_text(edge.command_id)
    page.get_by_role("button", name="Verify all chains").click()
    expect(page.get_by_role("status")).to_contain_text("The audit trail is unbroken")


def test_viewer_without_rights_sees_an_empty_overview_and_no_sections(page_as: PageAs) -> None:
    page = page_as("viewer")
    page.goto("/console")
    expect(page.get_by_text("Nothing needs attention")).to_be_visible()
    sections = page.get_by_role("navigation", name="Sections").get_by_role("link")
    assert not {"Devices", "Outbox", "People", "API keys", "Settings"} & set(sections.all_text_contents())
    page.get_by_text("viewer@example.com").first.click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_text("You are signed out.")).to_be_visible()


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


def test_console_is_used_with_keys_only(server: ConsoleServer, page_as: PageAs) -> None:
    row_id = server.add_failed_row(server.add_device("keyboard"))
    page = page_as("fleet")
    page.goto("/console")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("/")
    page.keyboard.type("no such thing")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Nothing found")).to_be_visible()
    page.goto("/console/outbox")
    row = page.locator(f'a[href="/console/outbox/{row_id}"]')
    row.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    expect(row).to_be_focused()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/console/outbox/{row_id}")
    page.get_by_role("button", name="Retry").press("Enter")
    expect(page.get_by_role("status")).to_have_text("The row is pending again.")


def test_theme_is_kept_for_the_next_page(page_as: PageAs) -> None:
    page = page_as("admin")
    page.emulate_media(color_scheme="light")
    page.goto("/console")
    page.get_by_role("button", name="Switch between light and dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.goto("/console/outbox")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def cookie_of(page: Page) -> str:
    return next(str(cookie.get("value")) for cookie in page.context.cookies() if "session" in str(cookie.get("name")))
