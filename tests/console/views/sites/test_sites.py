"""Sites, commands and clients in the console, without a browser: what is retired or removed, and counts by state."""

import re
from datetime import UTC, datetime

import httpx

from restante.commands.sites import inventory, sites
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


def add_collector(server: ConsoleServer, site_id: int) -> httpx.Client:
    """A client with the token of a new collector of the site."""
    with server.client("admin") as admin:
        body = {"site_id": site_id, "device_name": "reports"}
        made = admin.http.post("/api/edge/v1/admin/devices", json=body, headers={"origin": admin.origin})
    headers = {"authorization": f"Bearer {made.json()['token']}"}
    return httpx.Client(base_url=f"{server.base_url}/api/edge/v1", headers=headers)


def test_times_in_the_timeline_of_a_command_are_readable(server: ConsoleServer) -> None:
    edge = server.add_edge_resources()
    body = {"site_id": edge.site_id, "miner_id": edge.free_miner_id, "command_type": "SET_FAN", "params": {"speed": 70}}
    with server.client("site") as client, add_collector(server, edge.site_id) as collector:
        made = client.http.post("/api/edge/v1/admin/commands", json=body, headers={"origin": client.origin}).json()
        polled = {each["command_id"]: each for each in collector.get("/commands/poll?limit=20").json()["commands"]}
        ack = {"status": "failed", "result_code": "MINER_UNREACHABLE", "nonce": polled[made["command_id"]]["nonce"]}
        assert collector.post(f"/commands/{made['command_id']}/ack", json=ack).status_code == 200
        page = client.get(f"/console/commands/{made['command_id']}").text
    timeline = page[page.index('id="command-life"') :]
    assert not re.search(r"\b1[0-9]{12}\b", timeline)


def test_measurements_of_a_collector_are_shown_with_their_units(server: ConsoleServer) -> None:
    edge = server.add_edge_resources()
    # The names that `restante-agent collector` sends.
    record = {"miner_id": edge.miner_id, "ts": datetime.now(UTC).isoformat(), "hashrate": 98.5, "temp_max": 71.5}
    record |= {"fan_rpm_min": 3500, "fan_rpm_max": 3600, "power": 3250}
    with add_collector(server, edge.site_id) as collector:
        sent = collector.post("/telemetry/batch", json=[record])
    with server.client("site") as client:
        page = client.get(f"/console/sites/{edge.site_id}").text
    assert sent.status_code == 200
    row = page[page.index(f'<th scope="row"><a href="/console/miners/{edge.miner_id}"') :].partition("</tr>")[0]
    shown = re.findall(r'class="num[^"]*">([^<]*)<', row)
    assert [value.replace("\u202f", "") for value in shown] == [str(edge.miner_id), "98.5", "71.5", "3600", "3250"]


def test_commands_show_the_names_of_their_site_and_miner(server: ConsoleServer) -> None:
    edge = server.add_edge_resources()
    site_name = server.database.read_now(sites.get, edge.site_id).name
    site = f'<a href="/console/sites/{edge.site_id}">{site_name}</a> <span class="none">{edge.site_id}</span>'
    miner = f'<a href="/console/miners/{edge.miner_id}">miner</a> <span class="none">{edge.miner_id}</span>'
    body = {"site_id": edge.site_id, "all_miners": True, "command_type": "SET_FAN", "params": {"speed": 70}}
    with server.client("site") as client:
        made = client.http.post("/api/edge/v1/admin/commands", json=body, headers={"origin": client.origin})
        assert made.status_code == 201, made.text
        of_site = client.get(f"/console/sites/{edge.site_id}").text
        listed = client.get(f"/console/commands?site={edge.site_id}").text
        approvals = client.get("/console/approvals").text
        shown = client.get(f"/console/commands/{edge.pending_id}").text
        for_all = client.get(f"/console/commands/{made.json()['command_id']}").text
    for page in (listed, approvals, shown):
        assert site in page
        assert miner in page
    assert miner in of_site
    assert ">all</td>" in listed
    assert "for miner miner" in shown
    assert f"for site {site_name}" in for_all
    assert "default (" in shown


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
