"""Invariants of two nodes on one PostgreSQL database, each with several writers, under concurrent writes.

The tests use the database's own clock and do not arrange the order of the writes.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from restante.commands.audit.audit_verify import LiveVerification
from restante.commands.dispatch.claims import ClaimRequest, claim
from restante.commands.dispatch.rate_limits import RateLimit, RateRules
from restante.commands.errors import DuplicateActive
from restante.commands.lifecycle import creation
from restante.commands.lifecycle.creation import CommandRequest
from restante.core.backoff import Backoff
from restante.core.cursor import START
from restante.core.errors import RestanteError
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from restante.delivery.log import log
from restante.delivery.log.log import SignalsPublished
from restante.delivery.outbox import outbox
from restante.delivery.outbox.dispatcher import Dispatcher, DispatcherOptions
from restante.identity.devices import refresh_tokens
from restante.identity.devices.refresh_key import RefreshKey
from restante.identity.devices.refresh_tokens import RefreshExchange
from restante.identity.master_key import MasterKey
from tests.commands.default_options import commands_options
from tests.commands.edge_fixture import ACTOR, CommandsHarness
from tests.defaults import append_all_signals, append_signals, new_postgres_engine
from tests.delivery.rows import add_device, signal
from tests.faults.nodes.lock_waits import wait_until_blocked_or_done
from tests.identity.people_and_devices import MONTH_SECONDS

PENDING_ROWS = 30_000
TIMEOUT_SECONDS = 60.0
# No lease expires during a test, even on a slow machine.
DAY_SECONDS = 86_400
RATES = RateRules({}, RateLimit(20, DAY_SECONDS))
OPTIONS = commands_options(rates=RATES, lease_seconds=DAY_SECONDS)
CLAIMS = OPTIONS.for_claims()


@pytest.fixture
def nodes(postgres_url: str) -> Iterator[list[Database]]:
    nodes = [Database(new_postgres_engine(postgres_url, writers=4)) for _ in range(2)]
    yield nodes
    for node in nodes:
        node.close()


@pytest.fixture
def harnesses(nodes: list[Database]) -> list[CommandsHarness]:
    return [CommandsHarness(node, OPTIONS) for node in nodes]


async def gather_all(*writes: Any) -> list[Any]:
    return await asyncio.gather(*writes, return_exceptions=True)


async def test_concurrent_polls_get_exactly_the_rate_limit(harnesses: list[CommandsHarness]) -> None:
    """20 commands of a type per window, 40 pending, 200 polls: at two sites, so that batches contain several sites."""
    first = harnesses[0]
    sites = [first.add_site(), first.add_site()]
    collectors = {site: first.add_collector(site).caller for site in sites}
    for site in sites:
        miner = first.add_miner(site)
        for _ in range(40):
            first.add_command(site, miner)

    async def poll(number: int) -> tuple[int, int]:
        site = sites[number % 2]
        claimed = await asyncio.to_thread(harnesses[number // 2 % 2].claim, collectors[site], 3)
        return site, len(claimed.commands)

    outcomes = await asyncio.gather(*(poll(number) for number in range(200)))
    dispatched = Counter[int]()
    for site, count in outcomes:
        dispatched[site] += count
    assert dispatched == dict.fromkeys(sites, 20)


def test_rate_window_is_counted_by_one_transaction_at_a_time(nodes: list[Database], postgres_url: str) -> None:
    """Collectors of two zones share only the rate windows of their site, so only these can block."""
    harness = CommandsHarness(nodes[0], OPTIONS)
    site = harness.add_site()
    zones = [harness.add_zone(site) for _ in range(2)]
    for zone in zones:
        miner = harness.add_miner(site, zone)
        for _ in range(25):
            harness.add_command(site, miner)
    callers = [harness.add_collector(site, zone).caller for zone in zones]
    engine = new_postgres_engine(postgres_url)
    first, second = engine.connect(writable=True), engine.connect(writable=True)
    found: list[int] = []

    def claim_second() -> None:
        second.begin()
        found.append(len(claim(second, harness.trail, CLAIMS, ClaimRequest(callers[1], None, 50)).commands))
        second.commit()

    first.begin()
    assert len(claim(first, harness.trail, CLAIMS, ClaimRequest(callers[0], None, 50)).commands) == 20
    claiming = threading.Thread(target=claim_second)
    claiming.start()
    wait_until_blocked_or_done(first, claiming)
    first.commit()
    claiming.join(TIMEOUT_SECONDS)
    assert found == [0]
    first.close()
    second.close()


async def test_concurrent_commands_with_one_dedupe_key_create_one(harnesses: list[CommandsHarness]) -> None:
    """At two sites: dedupe keys are global."""
    miners = [(site, harnesses[0].add_miner(site)) for site in (harnesses[0].add_site(), harnesses[0].add_site())]

    def create(number: int) -> Any:
        harness, (site_id, miner_id) = harnesses[number % 2], miners[number // 2 % 2]
        request = CommandRequest(
            site_id=site_id, miner_id=miner_id, command_type="POWER_MODE", params=b'{"mode":"LOW"}', dedupe_key="one"
        )
        return harness.database.write(creation.create, harness.trail, request, ACTOR, harness.creation_options)

    outcomes = await gather_all(*(create(number) for number in range(50)))
    kinds = Counter(type(outcome) for outcome in outcomes)
    assert kinds == {creation.Created: 1, DuplicateActive: 49}


async def test_audit_chains_stay_intact_under_concurrent_writes(harnesses: list[CommandsHarness]) -> None:
    sites = [harnesses[0].add_site() for _ in range(4)]
    miners = {site: harnesses[0].add_miner(site) for site in sites}

    def create(number: int) -> Any:
        harness, site_id = harnesses[number % 2], sites[number // 2 % 4]
        request = CommandRequest(
            site_id=site_id, miner_id=miners[site_id], command_type="POWER_MODE", params=b'{"mode":"LOW"}'
        )
        return harness.database.write(creation.create, harness.trail, request, ACTOR, harness.creation_options)

    outcomes = await gather_all(*(create(number) for number in range(120)))
    assert [outcome for outcome in outcomes if isinstance(outcome, BaseException)] == []
    for site in sites:
        assert len([event for event, *_ in harnesses[0].audit(site) if event == "command.created"]) == 30
    verification = LiveVerification(harnesses[1].trail.mac)
    while harnesses[1].database.read_now(verification.step):
        pass
    assert verification.verdict.intact, verification.verdict.sentence


async def test_log_positions_have_no_gaps_and_are_published_in_order(nodes: list[Database]) -> None:
    devices = [nodes[0].write_now(add_device) for _ in range(3)]
    published: list[list[SignalsPublished]] = [[], []]
    for events, node in zip(published, nodes, strict=True):
        node.on_commit(lambda new, events=events: events.extend(new))  # type: ignore[misc]

    def publish(number: int) -> Any:
        new = signal(number, ts_ms=number + 1)
        return nodes[number % 2].write(append_signals, devices[number % 3], [new])

    outcomes = await gather_all(*(publish(number) for number in range(150)))
    assert all(isinstance(outcome, SignalsPublished) for outcome in outcomes)
    for device_id in devices:
        entries = nodes[1].read_now(log.read, device_id, START, 100).entries
        assert [entry.position.n for entry in entries] == list(range(1, 51))
        assert all(earlier.position < later.position for earlier, later in pairwise(entries))
        for events in published:
            positions = [event.before for event in events if event.device_id == device_id]
            assert positions == sorted(positions)


async def test_two_dispatchers_deliver_each_row_once_and_in_order(nodes: list[Database]) -> None:
    devices = [nodes[0].write_now(add_device) for _ in range(5)]

    async def enqueue(number: int) -> None:
        await nodes[number % 2].write(outbox.enqueue, devices[number % 5], signal(number, ts_ms=number + 1))

    dispatchers = [
        Dispatcher(
            node,
            DispatcherOptions(batch=7, lease_seconds=DAY_SECONDS, backoff=Backoff(1.0, 300.0, 10)),
            append_all_signals,
        )
        for node in nodes
    ]
    is_written = asyncio.Event()

    async def dispatch(dispatcher: Dispatcher) -> None:
        while True:
            was_written = is_written.is_set()
            outcome = await dispatcher.run_once()
            left = nodes[0].read_now(outbox.counts)["pending"]
            if was_written and not outcome.delivered and not left:
                return

    dispatching = [asyncio.ensure_future(dispatch(dispatcher)) for dispatcher in dispatchers]
    await asyncio.gather(*(enqueue(number) for number in range(100)))
    is_written.set()
    async with asyncio.timeout(2 * TIMEOUT_SECONDS):
        await asyncio.gather(*dispatching)
    ids_by_device = Query("ids", "SELECT id, payload FROM device_update_outbox WHERE device_id = :device ORDER BY id")
    for device_id in devices:
        rows = nodes[0].read_now(lambda conn, device=device_id: conn.all(ids_by_device, device=device))  # type: ignore[misc]
        entries = nodes[0].read_now(log.read, device_id, START, 100).entries
        assert [entry.json.decode() for entry in entries] == [row["payload"] for row in rows]


async def test_refresh_token_used_concurrently_is_exchanged_once(nodes: list[Database]) -> None:
    device_id = nodes[0].write_now(add_device)
    key = RefreshKey(MasterKey(bytes(32)))
    owner = Query("owner", "SELECT user_id FROM user_devices WHERE id = :id")

    def start_family(conn: Connection) -> str:
        row = conn.one(owner, id=device_id)
        assert row is not None
        return refresh_tokens.start_family(conn, key, row["user_id"], device_id, MONTH_SECONDS)

    token = nodes[0].write_now(start_family)
    outcomes = await gather_all(
        *(nodes[n % 2].write(refresh_tokens.exchange, key, token, MONTH_SECONDS) for n in range(20))
    )
    assert len([outcome for outcome in outcomes if isinstance(outcome, RefreshExchange)]) == 1
    assert not [outcome for outcome in outcomes if isinstance(outcome, BaseException)]


async def test_concurrent_claims_and_acks_give_every_attempt_one_holder(
    harnesses: list[CommandsHarness],
) -> None:
    site = harnesses[0].add_site()
    miner = harnesses[0].add_miner(site)
    collectors = [harnesses[0].add_collector(site).caller for _ in range(4)]
    for _ in range(15):
        harnesses[0].add_command(site, miner)

    async def work(number: int) -> list[tuple[str, int]]:
        harness, caller = harnesses[number % 2], collectors[number]
        done = []
        for _ in range(6):
            claimed = await asyncio.to_thread(harness.claim, caller, 2)
            for row in claimed.commands:
                done.append((row.command_id, row.attempt))
                outcome = await asyncio.to_thread(harness.ack, caller, row.command_id, "succeeded")
                assert not isinstance(outcome, RestanteError)
        return done

    held = [each for done in await asyncio.gather(*map(work, range(4))) for each in done]
    assert len(held) == len(set(held)) == 15


@pytest.mark.parametrize("spread", [1, PENDING_ROWS], ids=["of one device", "of as many devices"])
def test_claim_finds_its_rows_among_very_many(nodes: list[Database], spread: int) -> None:
    """The planner has no statistics, as after a sudden flood; the oldest row of one device waits for its retry."""
    flood = Query(
        "flood",
        "INSERT INTO device_update_outbox (device_id, event_kind, payload, created_at)"
        " SELECT n % CAST(:spread AS BIGINT), 'x', '{}', n FROM generate_series(1, CAST(:rows AS BIGINT)) AS n",
    )
    wait = Query(
        "wait",
        "UPDATE device_update_outbox SET next_attempt_at = 9000000000000000"
        " WHERE id = (SELECT MIN(id) FROM device_update_outbox)",
    )
    other = Query(
        "other",
        "INSERT INTO device_update_outbox (device_id, event_kind, payload, created_at) VALUES (-1, 'x', '{}', 1)",
    )
    nodes[0].write_now(lambda conn: conn.run(flood, spread=spread, rows=PENDING_ROWS))
    nodes[0].write_now(lambda conn: conn.run(wait))
    nodes[0].write_now(lambda conn: conn.run(other))
    expected = 1 if spread == 1 else 100
    plan = explained(nodes[0])
    assert "Join" not in plan
    assert nodes[0].write_now(outbox.claim, "me", 30, 100) == expected
    assert len(nodes[0].write_now(outbox.leased_rows, "me")) == expected
    assert nodes[0].read_now(outbox.seconds_until_due) is not None


def explained(node: Database) -> str:
    query = Query("explain", f"EXPLAIN {outbox.SQL.claim.for_engine('postgres')}")
    values = {"claimed_by": "me", "now_ms": 1, "lock_expires_at": 2, "batch": 100, "scan_rows": 1000}
    return "\n".join(row["QUERY PLAN"] for row in node.write_now(lambda conn: conn.all(query, **values)))
