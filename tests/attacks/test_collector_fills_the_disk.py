"""A hostile collector sends as much as it can: what is stored, and what operators read, stays bounded."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from starlette.requests import Request

from restante.commands.acks.ack_schema import SNAPSHOT_BYTES_MAX, ExtendBody
from restante.commands.acks.acks import AckResult
from restante.commands.audit import audit_export, audit_listing
from restante.commands.audit.audit_listing import AuditFilter
from restante.commands.audit.audit_verify import verify_export
from restante.commands.audit.heads_recorder import HeadsOptions, HeadsRecorder
from restante.commands.audit.routes import AdminAuditRoutes
from restante.commands.dispatch.extend_lease import LeaseExtension, extend_lease
from restante.commands.lifecycle import listing
from restante.commands.lifecycle.listing import CommandFilter
from restante.commands.telemetry import safety_events
from restante.commands.telemetry.safety_events import EVENT_BYTES_MAX, SafetyFilter
from restante.core.errors import RestanteError
from restante.database.database import Database
from restante.database.paging import PAGE_BYTES_MAX, PageRequest
from restante.database.queries import Query
from restante.web.request import ApiRequest
from tests.commands.edge_fixture import CommandsHarness
from tests.conftest import ENGINES, ManualClock
from tests.server.fast_lane_collector import CollectorServer
from tests.server.live_server import RawResponse

TIMES = 40
# The 1st, 2nd, 4th, 8th, 16th and 32nd time.
RECORDED = [1, 2, 4, 8, 16, 32]
SNAPSHOT = {"text": "x" * (SNAPSHOT_BYTES_MAX - 20)}
AUDITED = Query("audited", "SELECT detail FROM command_audit WHERE event = :event ORDER BY n")
STORED_BYTES = Query("stored", "SELECT SUM(LENGTH(detail)) AS bytes FROM command_audit")


class HostileSite:
    """A site with a collector that holds the lease of a command."""

    def __init__(self, database: Database) -> None:
        self.harness = CommandsHarness(database)
        self.database = database
        self.id = self.harness.add_site()
        self.collector = self.harness.add_collector(self.id)
        self.command_id = self.harness.add_command(self.id, self.harness.add_miner(self.id)).command_id
        self.harness.claim(self.collector.caller)

    def ack(self, status: str, command_id: str | None = None, **fields: Any) -> AckResult | RestanteError:
        return self.harness.ack(self.collector.caller, command_id or self.command_id, status, **fields)

    def times(self, event: str) -> list[int]:
        """How often a repeated report had come when the audit trail recorded it."""
        rows = self.database.read_now(lambda conn: conn.all(AUDITED, event=event))
        return [msgspec.json.decode(row["detail"]).get("times", 1) for row in rows]

    def row_count(self) -> int:
        query = Query("rows", "SELECT COUNT(*) AS rows FROM command_audit")
        return int(self.database.read_now(lambda conn: conn.values(query))[0][0])

    def stored_bytes(self) -> int:
        return int(self.database.read_now(lambda conn: conn.values(STORED_BYTES))[0][0])


@pytest.fixture(params=ENGINES)
def engine_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def site(database: Database, clock: ManualClock) -> HostileSite:
    return HostileSite(database)


def test_repeated_running_acks_do_not_grow_the_audit_trail(site: HostileSite) -> None:
    assert isinstance(site.ack("running"), AckResult)
    for number in range(TIMES):
        result = site.ack("running", message=str(number), before_snapshot=SNAPSHOT, after_snapshot=SNAPSHOT)
        assert isinstance(result, AckResult)
    assert site.times("command.started") == [1, *RECORDED]
    assert site.stored_bytes() < (len(RECORDED) + 1) * 2 * SNAPSHOT_BYTES_MAX
    # The command itself shows the newest report.
    assert site.harness.command(site.command_id)["result_message"] == str(TIMES - 1)


def test_repeated_refusals_are_counted_in_one_row(site: HostileSite) -> None:
    site.ack("succeeded")
    for _ in range(TIMES):
        assert isinstance(site.ack("failed"), RestanteError)
    assert site.times("ack.refused") == RECORDED
    (report,) = site.database.read_now(listing.show, site.command_id).repeated_reports
    assert (report.device_id, report.kind, report.count) == (site.collector.caller.device_id, "COMMAND_FINISHED", TIMES)


def test_refusals_of_invented_commands_are_counted_in_one_row(site: HostileSite) -> None:
    for number in range(TIMES):
        assert isinstance(site.ack("succeeded", f"cmd_{number}"), RestanteError)
    assert site.times("ack.refused") == RECORDED


def test_repeated_lease_extensions_are_counted_in_one_row(site: HostileSite, clock: ManualClock) -> None:
    options, trail = site.harness.ack_options(), site.harness.trail
    for _ in range(TIMES):
        clock.advance(1)
        arguments = (trail, options, site.collector.caller, site.command_id, ExtendBody(3600))
        assert isinstance(site.database.write_now(extend_lease, *arguments), LeaseExtension)
    assert site.times("command.lease_extended") == RECORDED


def add_large_rows(site: HostileSite, count: int) -> None:
    """Add audit rows of the command, as large as one ACK can make them."""
    for number in range(count):
        site.harness.ack(site.collector.caller, site.command_id, "running", message=f"{number}")
        site.harness.ack(
            site.collector.caller,
            site.command_id,
            "deferred",
            retry_after_sec=0,
            before_snapshot=SNAPSHOT,
            message=f"{number}",
        )
        site.harness.claim(site.collector.caller)


def test_page_of_one_command_is_bounded_and_names_the_rest(site: HostileSite) -> None:
    add_large_rows(site, 40)
    shown = site.database.read_now(listing.show, site.command_id)
    assert len(msgspec.json.encode(shown)) < PAGE_BYTES_MAX + 4 * SNAPSHOT_BYTES_MAX
    assert [row.n for row in shown.history] == sorted(row.n for row in shown.history)
    seen = [row.n for row in shown.history]
    after = shown.history_next
    while after is not None:
        filters = AuditFilter(command_id=site.command_id)
        page = site.database.read_now(audit_listing.list_page, filters, PageRequest(500, after))
        assert len(msgspec.json.encode(page)) < PAGE_BYTES_MAX + 4 * SNAPSHOT_BYTES_MAX
        seen += [row.n for row in page.items]
        after = page.next
    assert sorted(seen) == [row.n for row in all_rows(site)]


def all_rows(site: HostileSite) -> list[audit_listing.AuditView]:
    query = Query("all", "SELECT * FROM command_audit WHERE command_id = :command_id ORDER BY n")
    rows = site.database.read_now(lambda conn: conn.all(query, command_id=site.command_id))
    return [audit_listing.view(row) for row in rows]


async def test_audit_export_is_sent_in_bounded_parts(site: HostileSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_export, "BATCH_ROWS", 4)
    await asyncio.to_thread(add_large_rows, site, 20)
    options = HeadsOptions(interval_seconds=30, folder=Path("absent"), anchor=None, anchor_seconds=60)
    recorder = HeadsRecorder(site.database, site.harness.trail, options)
    routes = AdminAuditRoutes(site.database, site.harness.trail, recorder)
    response = await routes.export(ApiRequest(Request({"type": "http", "query_string": b"", "headers": []}), None))
    assert response.stream is not None
    parts = [part async for part in response.stream]
    assert max(map(len, parts)) < 4 * 2 * SNAPSHOT_BYTES_MAX
    verdict = verify_export(b"".join(parts).splitlines(), site.harness.trail.mac)
    assert (verdict.intact, verdict.rows) == (True, site.row_count())


def test_lists_of_commands_and_safety_events_are_bounded_by_bytes(site: HostileSite) -> None:
    for _ in range(15):
        command_id = site.harness.add_command(site.id, site.harness.add_miner(site.id)).command_id
        site.harness.claim(site.collector.caller)
        site.ack("succeeded", command_id, before_snapshot=SNAPSHOT, after_snapshot=SNAPSHOT)
    miner_id = site.harness.add_miner(site.id)
    snapshot = {"text": "x" * (EVENT_BYTES_MAX - 200)}
    events = [
        {"miner_id": miner_id, "action": "FAN_FAILURE", "ts": f"2026-01-18T10:{n:02}:00Z", "snapshot_json": snapshot}
        for n in range(60)
    ]
    raw = [msgspec.Raw(msgspec.json.encode(event)) for event in events]
    site.database.write_now(safety_events.store, site.collector.caller, raw, 0)
    for list_page, filters, count in (
        (listing.list_page, CommandFilter(), 16),
        (listing.list_page, CommandFilter(site_id=site.id), 16),
        (safety_events.list_page, SafetyFilter(), 60),
    ):
        sizes, found = pages(site.database, list_page, filters)
        assert (found, max(sizes) < PAGE_BYTES_MAX + 3 * SNAPSHOT_BYTES_MAX) == (count, True)
        assert len(sizes) > 1 or sum(sizes) < PAGE_BYTES_MAX


def pages(database: Database, list_page: Any, filters: Any) -> tuple[list[int], int]:
    """The bytes of each page, and the number of items of all."""
    sizes, items, after = [], set(), 0
    while True:
        page = database.read_now(list_page, filters, PageRequest(500, after))
        sizes.append(len(msgspec.json.encode(page)))
        items |= {msgspec.json.encode(item) for item in page.items}
        if page.next is None:
            return sizes, len(items)
        after = page.next


@pytest.fixture
def served(tmp_path: Path) -> Iterator[CollectorServer]:
    budgets = {
        "collector_bytes_per_hour": 1000,
        "collector_telemetry_bytes_per_minute": 1000,
        "collector_repeats_per_minute": 3,
    }
    server = CollectorServer(tmp_path, **budgets)
    yield server
    server.live_server.close()


def report(server: CollectorServer, path: bytes, body: bytes) -> RawResponse:
    head = b"POST /api/edge/v1%b HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %b\r\n" % (path, server.token)
    head += b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    with server.live_server.connect() as wire:
        return wire.request(head + body)


def assert_over_budget(server: CollectorServer, response: RawResponse, budget: str) -> None:
    body = msgspec.json.decode(response.body)
    assert (response.status, body["error"]) == (429, "RATE_LIMITED")
    assert body["message"].startswith("this collector has used its budget of ")
    assert int(dict(response.headers)[b"retry-after"]) > 0
    assert server.node.commands.counters.over_budget.counts[budget,] > 0


def test_collector_over_its_budget_of_repeated_acks_gets_429(served: CollectorServer) -> None:
    command_id = served.lease()
    with served.live_server.connect() as wire:
        for number in range(4):
            body = b'{"status":"running","message":"%d"}' % number
            assert served.request_fast(wire, served.ack(command_id, body)).status == 200
        refused = served.request_fast(wire, served.ack(command_id, b'{"status":"running","message":"x"}'))
        assert_over_budget(served, refused, "repeats")
        plain = wire.request(served.ack(command_id, b'{"status":"succeeded"}', b"X-Not-Plain: 1"))
        assert_over_budget(served, plain, "repeats")
    extended = report(served, b"/commands/%b/extend" % command_id, b'{"lease_seconds":60}')
    assert_over_budget(served, extended, "repeats")
    assert served.state(command_id) == "running"


def test_collector_over_its_budget_of_refused_acks_gets_429(served: CollectorServer) -> None:
    with served.live_server.connect() as wire:
        statuses = [wire.request(served.ack(b"cmd_%d" % number)).status for number in range(5)]
    assert statuses == [404, 404, 404, 429, 429]


def test_collector_over_its_budget_of_bytes_still_acknowledges_without_snapshots(served: CollectorServer) -> None:
    first, second = served.lease(), served.lease()
    snapshot = b'{"status":"succeeded","before":{"text":"%b"}}' % (b"x" * 2000)
    with served.live_server.connect() as wire:
        assert wire.request(served.ack(first, snapshot)).status == 200
        assert_over_budget(served, wire.request(served.ack(second, snapshot)), "bytes")
        event = b'{"events":[{"miner_id":%d,"action":"FAN_FAILURE","ts":"2026-01-18T10:00:00Z"}]}' % served.miner_id
        assert_over_budget(served, report(served, b"/events/safety/batch", event), "bytes")
        assert wire.request(served.ack(second)).status == 200
    assert (served.state(first), served.state(second)) == ("succeeded", "succeeded")


def test_collector_over_its_budget_of_telemetry_gets_429(served: CollectorServer) -> None:
    records = b'[{"miner_id":%d,"ts":"2026-01-18T10:00:00Z","text":"%b"}]' % (served.miner_id, b"x" * 2000)
    assert report(served, b"/telemetry/batch", records).status == 200
    for path in (b"/telemetry/batch", b"/telemetry/ingest"):
        assert_over_budget(served, report(served, path, records), "telemetry")
