"""Sites, commands and clients in the console, without a browser: what is retired or removed, and counts by state."""

import re

from restante.commands.sites import inventory
from restante.events.clients import removal
from tests.console.console_server import ConsoleServer


def test_retired_miner_is_shown_and_is_no_target(server: ConsoleServer) -> None:
    edge = server.add_edge_resources()
    trail = server.node.commands.trail
    server.database.write_now(inventory.retire_miner, trail, edge.free_miner_id, "tests")
    server.database.write_now(inventory.retire_site, trail, edge.empty_site_id, "tests")
    with server.client("site") as client:
        form = client.get("/console/commands/new").text
        site = client.get(f"/console/sites/{edge.site_id}").text
    with server.client("admin") as admin:
        refused = admin.post(f"/console/sites/{edge.empty_site_id}/collectors", name="late")
    assert f'value="{edge.site_id}:{edge.miner_id}"' in form
    assert f'value="{edge.site_id}:{edge.free_miner_id}"' not in form
    assert f'value="{edge.empty_site_id}:"' not in form
    assert re.search(rf'miners/{edge.free_miner_id}">[^<]*</a> <span class="none">retired', site)
    assert refused.status_code == 409


def test_states_of_commands_have_counts(server: ConsoleServer) -> None:
    edge = server.add_edge_resources()
    with server.client("site") as client:
        page = client.get(f"/console/commands?site={edge.site_id}&status=pending_approval").text
    waiting = re.search(r">Pending approval <span class=\"count\">(\d+)</span>", page)
    assert waiting is not None
    assert int(waiting[1]) == page.count('<th scope="row"><a href="/console/commands/')
    assert int(waiting[1]) >= 1


def test_removed_client_is_shown_as_removed_and_is_no_recipient(server: ConsoleServer) -> None:
    client_id = server.add_event_resources().client_id
    server.database.write_now(removal.remove, client_id, "tests")
    with server.client("bank") as client:
        shown = client.get(f"/console/clients/{client_id}").text
        form = client.get("/console/events/new").text
    assert "removed" in shown
    assert f"/console/clients/{client_id}/suspend" not in shown
    assert f'value="{client_id}"' not in form
