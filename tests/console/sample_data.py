"""Something of everything for pictures of the console and for pages that are measured: devices in every state, sites
with telemetry, commands with attempts and snapshots, clients with refused and acknowledged events."""

import json
import math
from typing import Any, NamedTuple

from restante.commands.acks.acks import accept_ack
from restante.commands.dispatch.claims import ClaimRequest, claim
from restante.commands.lifecycle import creation
from restante.commands.lifecycle.creation import CommandRequest
from restante.commands.sites import collectors, miners, sites
from restante.commands.sites.miners import MinerRequest
from restante.commands.telemetry import telemetry
from restante.commands.telemetry.telemetry_records import parse_batch
from restante.core.iso_time import iso_precise
from restante.database.connection import Connection
from restante.delivery.device_presence import write_presence
from restante.identity.callers import CollectorCaller
from restante.server.config.options import commands_options
from tests.commands.edge_fixture import ack_of
from tests.console.console_server import ConsoleServer, run_job, start_rollout
from tests.defaults import claim_options
from tests.events import inbox_fixture
from tests.server.edge_resources import APPROVED_TYPE

ACTOR = "ada@example.com"
HISTORY = 60


class Sample(NamedTuple):
    """The addresses of every page, each with something on it."""

    paths: dict[str, str]


def add_sample(server: ConsoleServer, device_count: int = 40) -> Sample:
    device_id = server.add_full_device("till-front")
    ids = [server.add_device(f"till-{place:02}", place=place) for place in range(device_count)]
    server.database.write_now(_seen, ids)
    row_id = server.add_failed_row(device_id)
    site_id, miner_id, command_id = server.database.write_now(_site, server, "North hall", 8)
    server.database.write_now(_site, server, "South hall", 3)
    edge, event = server.add_edge_resources(), server.add_event_resources()
    server.database.write_now(_client, "acme-pay")
    with server.client("fleet") as fleet:
        rollout, job = start_rollout(fleet, "till-0", "1, 100%"), run_job(fleet, **{"filter.device_id": str(device_id)})
    _save_filters(server)
    device = f"/console/devices/{device_id}"
    return Sample(
        {
            "overview": "/console",
            "search": "/console/search?q=nothing-has-this-id",
            "devices": "/console/devices",
            "devices-none": "/console/devices?name=nobody",
            "device": device,
            "config": f"{device}/config/2",
            "config-new": f"{device}/config/new",
            "certificates": "/console/certificates",
            "certificates-failed": "/console/certificates?renewal=failed",
            "certificate": f"/console/certificates/{server.owner_id}/{server.fail_renewal()}",
            "outbox": "/console/outbox",
            "outbox-filtered": "/console/outbox?status=FAILED",
            "outbox-row": f"/console/outbox/{row_id}",
            "sites": "/console/sites",
            "site": f"/console/sites/{site_id}",
            "miner": f"/console/miners/{miner_id}",
            "commands": "/console/commands",
            "commands-saved-filter": "/console/commands?status=succeeded",
            "command": f"/console/commands/{command_id}",
            "command-waiting": f"/console/commands/{edge.approval_id}",
            "command-new": "/console/commands/new?command_type=POOL_SET",
            "approvals": "/console/approvals",
            "audit": "/console/audit",
            "audit-filtered": "/console/audit/commands?event=command.created",
            "clients": "/console/clients",
            "client": "/console/clients/acme-pay",
            "events": "/console/events",
            "events-filtered": "/console/events?status=errored",
            "event": f"/console/events/{event.errored_jti}",
            "event-new": "/console/events/new",
            "event-keys": "/console/event-keys",
            "jobs": "/console/jobs",
            "job-new": "/console/jobs/new?target=devices&action=put_config&filter.name=till",
            "job": job,
            "rollouts": "/console/rollouts",
            "rollout": rollout,
            "people": "/console/people",
            "person-new": "/console/people/new",
            "person": f"/console/people/{server.user_ids['fleet']}",
            "keys": "/console/keys",
            "key-new": "/console/keys/new",
            "key": f"/console/keys/{server.add_key()}",
            "settings": "/console/settings",
            "doctor": "/console/settings/doctor",
            "missing": "/console/no-such-page",
            "portal": "/developer",
            "portal-client": "/developer/client",
        }
    )


def _save_filters(server: ConsoleServer) -> None:
    with server.client("admin") as admin:
        for name, status in (("Done", "succeeded"), ("Waiting for a second person", "pending_approval")):
            saved = admin.post("/console/saved-filters", list="commands", status=status, filter_name=name)
            assert saved.status_code == 303
        errors = admin.post("/console/saved-filters", list="events", err="jwtIss", filter_name="Wrong issuer")
        assert errors.status_code == 303


def _seen(conn: Connection, ids: list[int]) -> None:
    """Most devices have polled lately, some are overdue."""
    now = conn.now_ms
    rows = []
    for place, device_id in enumerate(ids):
        ago = 7_200_000 if place % 9 == 0 else place * 1000
        rows.append((device_id, now - ago, now - ago + 600_000, 0, 0))
    write_presence(conn, rows)


def _site(conn: Connection, server: ConsoleServer, name: str, count: int) -> tuple[int, int, str]:
    trail, box = server.node.commands.trail, server.node.commands.box
    site = sites.add(conn, trail, name, ACTOR)
    ids = [
        miners.add(conn, trail, MinerRequest(site.id, f"rack {n // 4 + 1} unit {n % 4 + 1}"), ACTOR).id
        for n in range(count)
    ]
    new = collectors.create(conn, trail, box, site.id, None, f"collector of {name}", ACTOR)
    caller = CollectorCaller(new.id, site.id, None)
    _telemetry(conn, site.id, ids)
    options = commands_options(server.node.settings).for_creation(box)
    acks = commands_options(server.node.settings).for_acks(box)

    def create(miner_id: int, command_type: str, **fields: Any) -> str:
        request = CommandRequest(site_id=site.id, miner_id=miner_id, command_type=command_type, **fields)
        return creation.create(conn, trail, request, ACTOR, options).command_id

    command_id = create(ids[0], "POWER_MODE", params=b'{"mode":"LOW"}')
    failing = create(ids[1], "MINER_RESTART")
    claim(conn, trail, claim_options(), ClaimRequest(caller, None, 10))
    before = {
        "power_mode": "HIGH",
        "power_w": 3400,
        "hashrate_ths": 104.2,
        "pools": ["pool-a.example", "pool-b.example"],
    }
    after = {**before, "power_mode": "LOW", "power_w": 2510, "hashrate_ths": 81.7}
    for wanted, status, fields in (
        (command_id, "running", {}),
        (command_id, "succeeded", {"result_code": "OK", "before_snapshot": before, "after_snapshot": after}),
        (failing, "failed", {"result_code": "TIMEOUT", "message": "the miner did not come back"}),
    ):  # fmt: skip
        accept_ack(conn, trail, acks, caller, wanted, ack_of(status, **fields))
    create(ids[2], APPROVED_TYPE, params=b'{"reason":"the new firmware of the control board needs a restart"}')
    create(ids[2], "HASHING_ENABLE")
    return site.id, ids[0], command_id


def _telemetry(conn: Connection, site_id: int, ids: list[int]) -> None:
    records = [
        {
            "miner_id": miner_id,
            "ts": iso_precise(conn.now_ms - (HISTORY - step) * 10_000),
            "hashrate_ths": round(100 + 6 * math.sin(step / 5 + place), 1),
            "temp_max": round(68 + place * 2 + 4 * math.sin(step / 9 + place), 1),
            "fan_rpm": 4800 + 40 * place + step,
            "power_w": 3300 + 10 * place - step,
        }
        for place, miner_id in enumerate(ids)
        for step in range(HISTORY)
    ]
    telemetry.store(conn, site_id, parse_batch(json.dumps(records).encode(), site_id).samples, HISTORY, 0)


def _client(conn: Connection, name: str) -> None:
    client = inbox_fixture.add_client(conn, name)
    jtis = [f"{name}-{place:03}" for place in range(12)]
    inbox_fixture.put_ready(conn, client.id, *jtis)
    for jti in jtis[:5]:
        inbox_fixture.acknowledge(conn, jti)
    inbox_fixture.report_errors(conn, client.id, {jtis[5]: ("jwtIss", "not ours"), jtis[6]: ("jws", "wrong key")})
