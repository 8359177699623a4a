"""One story for each role in a real browser: on the embedded database, and on PostgreSQL with two nodes, where what one
person does on one node appears on the page that another person has open on the other node.

Each page that a story visits is checked by axe when the story leaves it; errors in the browser's console fail it.
"""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.console.browser import TIMEOUT_MS, check_accessibility
from tests.console.installation import FIRST, SECOND, Installation, PageOn
from tests.events import inbox_fixture
from tests.identity.people_and_devices import PASSWORD
from tests.server.edge_resources import APPROVED_TYPE

pytestmark = pytest.mark.slow

expect.set_options(timeout=TIMEOUT_MS)


def test_fleet_operator_finds_a_late_device_sends_a_config_and_revokes_it(
    installation: Installation, page_on: PageOn
) -> None:
    server = installation.server
    server.add_full_device("story-till")
    page = page_on("fleet", FIRST)
    page.goto("/console")
    page.get_by_role("link", name="Devices", exact=True).click()
    page.get_by_label("Name begins with").fill("story-")
    page.get_by_role("button", name="Filter").click()
    page.get_by_role("link", name="story-till").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("story-till")
    watching = page_on("fleet", SECOND)
    watching.goto(path_of(page))
    page.get_by_role("link", name="New config").click()
    page.get_by_label("Items").fill('[{"id": "site", "type": "copy", "from": ["a"], "to": ["/b"]}]')
    page.get_by_label("Note").fill("third path")
    page.get_by_role("button", name="Store version 3").click()
    expect(page.get_by_role("status")).to_contain_text("The new version of the install config is stored")
    expect(page.locator("#device-truth")).to_contain_text("version 3")
    # The page on the other node shows it without being loaded again.
    expect(watching.locator("#device-truth")).to_contain_text("version 3")
    check_accessibility(watching)
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


def test_site_operator_sends_a_command_and_another_person_approves_it(
    installation: Installation, page_on: PageOn
) -> None:
    edge = installation.server.add_edge_resources()
    page = page_on("site", FIRST)
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
    check_accessibility(page)
    approver = page_on("approver", SECOND)
    approver.goto("/console/approvals")
    check_accessibility(approver)
    command_id = address.rpartition("/")[2]
    approver.get_by_role("button", name=f"Approve {command_id}").click()
    expect(approver.get_by_role("status")).to_contain_text("The command is approved")
    # The page of the operator shows it without being loaded again.
    expect(page.locator("#command-state")).to_contain_text("pending")
    expect(page.locator("#command-life")).to_contain_text("approver@example.com")
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator("#command-state")).to_contain_text("cancelled")


def test_bank_integrator_publishes_an_event_and_sees_its_verified_token(
    installation: Installation, page_on: PageOn
) -> None:
    event = installation.server.add_event_resources()
    page = page_on("bank", SECOND)
    page.goto(f"/console/clients/{event.client_id}")
    expect(page.locator("#client-why")).to_contain_text("Why?")
    page.get_by_role("link", name="Publish an event").click()
    page.get_by_label("Subject").fill("https://bank.example/accounts/1")
    page.get_by_role("button", name="Publish").click()
    expect(page.get_by_role("status")).to_contain_text("The event is published")
    # It is signed after the page was loaded.
    expect(page.locator("#event-check")).to_contain_text("The published key verifies the signature")
    expect(page.locator("#event-claims")).to_contain_text("https://bank.example/accounts/1")
    check_accessibility(page)
    page.goto(f"/console/events/{event.errored_jti}")
    page.get_by_role("button", name="Deliver again").click()
    expect(page.locator("#event-state")).to_contain_text("ready")


def test_bank_integrator_delivers_acknowledged_events_of_a_time_again(
    installation: Installation, page_on: PageOn
) -> None:
    server = installation.server
    event = server.add_event_resources()
    server.database.write_now(inbox_fixture.acknowledge, event.jti)
    page = page_on("bank", FIRST)
    page.goto(f"/console/clients/{event.client_id}")
    page.get_by_text("Deliver events of a time again").click()
    check_accessibility(page)
    page.get_by_role("button", name="Count the events that match").click()
    expect(page.get_by_role("heading", name="redeliver would act on 1 events")).to_be_visible()
    check_accessibility(page)
    page.get_by_role("button", name="Run on all 1").click()
    expect(page.locator("#job-state")).to_contain_text("done")
    page.goto(f"/console/events/{event.jti}")
    expect(page.locator("#event-state")).to_contain_text("ready")


def test_audit_trail_is_filtered_and_verified(installation: Installation, page_on: PageOn) -> None:
    edge = installation.server.add_edge_resources()
    page = page_on("admin", SECOND)
    page.goto("/console/audit")
    page.get_by_label("Command", exact=True).fill(edge.command_id)
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("#audit-rows")).to_contain_text(edge.command_id)
    page.get_by_role("button", name="Verify all chains").click()
    expect(page.get_by_role("status")).to_contain_text("The audit trail is unbroken")
    page.get_by_role("link", name="People, keys and devices").click()
    expect(page.locator("#change-rows")).to_contain_text("person.added")
    check_accessibility(page)


def test_site_operator_saves_a_filter_of_commands_and_opens_it_later(
    installation: Installation, page_on: PageOn
) -> None:
    edge = installation.server.add_edge_resources()
    page = page_on("site", FIRST)
    page.goto("/console/commands")
    # Without a filter there is nothing to save.
    expect(page.get_by_label("Save this filter as")).to_have_count(0)
    page.get_by_label("Site", exact=True).fill(str(edge.site_id))
    page.get_by_role("button", name="Filter").click()
    page.get_by_label("Save this filter as").fill("Our hall")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status")).to_contain_text("The filter is saved")
    check_accessibility(page)
    later = page_on("site", SECOND)
    later.goto("/console/commands")
    later.get_by_role("navigation", name="Saved filters").get_by_role("link", name="Our hall").click()
    expect(later).to_have_url(re.compile(rf"/console/commands\?site={edge.site_id}$"))
    expect(later.locator("#commands-rows")).to_contain_text(edge.command_id)
    other = page_on("approver", SECOND)
    other.goto("/console/commands")
    expect(other.get_by_role("link", name="Our hall")).to_have_count(0)
    later.get_by_role("button", name="Delete the saved filter Our hall").click()
    expect(later.get_by_role("status")).to_contain_text("The saved filter is deleted")
    expect(later.get_by_role("navigation", name="Saved filters")).to_have_count(0)


def test_viewer_without_rights_sees_an_empty_overview_and_no_sections(page_on: PageOn) -> None:
    page = page_on("viewer", SECOND)
    page.goto("/console")
    expect(page.get_by_text("Nothing needs attention")).to_be_visible()
    sections = page.get_by_role("navigation", name="Sections").get_by_role("link")
    assert not {"Devices", "Outbox", "People", "API keys", "Settings"} & set(sections.all_text_contents())
    page.get_by_text("viewer@example.com").first.click()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_text("You are signed out.")).to_be_visible()


def test_console_is_used_with_keys_only(installation: Installation, page_on: PageOn) -> None:
    server = installation.server
    row_id = server.add_failed_row(server.add_device("keyboard"))
    page = page_on("fleet", SECOND)
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


def test_administrator_adds_a_person_who_chooses_a_password(installation: Installation, page_on: PageOn) -> None:
    page = page_on("admin", FIRST)
    page.goto("/console/people")
    page.get_by_role("link", name="Add a person").click()
    name = f"new-{installation.engine}@example.com"
    page.get_by_label("E-mail").fill(name)
    page.get_by_label("Role of grant 1").select_option("operator")
    page.get_by_label("Scope of grant 1").fill("events")
    check_accessibility(page)
    page.get_by_role("button", name="Add person").click()
    link = page.locator("#secret").inner_text()
    check_accessibility(page)
    stranger = page_on(None, SECOND)
    stranger.goto("/console/invitation#" + link.partition("#")[2])
    expect(stranger.get_by_label("Code of the invitation")).to_have_value(link.partition("#")[2])
    assert "#" not in stranger.url
    check_accessibility(stranger)
    stranger.get_by_label("New password").fill("a password of my own")
    stranger.get_by_label("The same again").fill("a password of my own")
    stranger.get_by_role("button", name="Set password").click()
    expect(stranger.get_by_text("Your password is set.")).to_be_visible()
    stranger.get_by_label("E-mail").fill(name)
    stranger.get_by_label("Password").fill("a password of my own")
    stranger.get_by_role("button", name="Sign in").click()
    expect(stranger.get_by_role("heading", level=1)).to_have_text("Overview")
    sections = stranger.get_by_role("navigation", name="Sections").get_by_role("link").all_text_contents()
    assert "Events" in sections
    assert "Devices" not in sections


def test_charts_and_nodes_of_the_whole_cluster_are_shown(installation: Installation, page_on: PageOn) -> None:
    page = page_on("admin", SECOND)
    page.goto("/console")
    expect(page.locator("#node-list tbody tr")).to_have_count(len(set(installation.urls)))
    nodes = "All 2 nodes" if len(set(installation.urls)) > 1 else "The only node"
    expect(page.locator("main")).to_contain_text(nodes)
    check_accessibility(page)


def path_of(page: Page) -> str:
    return re.sub(r"^https?://[^/]+", "", page.url)


def cookie_of(page: Page) -> str:
    return next(str(cookie.get("value")) for cookie in page.context.cookies() if "session" in str(cookie.get("name")))
