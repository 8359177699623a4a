"""Two nodes on one PostgreSQL database, each with several writers: what must hold when all of them decide at once.

The clock is the database's own, and nothing is arranged: whoever comes first comes first.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from restante.commands import creation
from restante.commands.audit_verify import LiveVerification
from restante.commands.claims import Claim, ClaimOptions, claim
from restante.commands.creation import CommandWish
from restante.commands.parts import CommandsOptions
from restante.commands.rate_windows import RateLimit, RateRules
from restante.commands.wire import DuplicateActive
from restante.core.cursor import START
from restante.core.errors import RestanteError
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.postgres import PostgresEngine
from restante.database.queries import Query
from restante.delivery import log, outbox
from restante.delivery.dispatcher import Dispatcher, DispatcherOptions
from restante.delivery.log import Published
from restante.identity import refresh_tokens
from restante.identity.master_key import MasterKey
from restante.identity.refresh_key import RefreshKey
from restante.identity.refresh_tokens import Exchange
from tests.commands.field import ACTOR, Field
from tests.delivery.rows import add_device, signal
from tests.faults.waiting import until_waiting_or_over

PENDING_ROWS = 30_000
SOON = 60.0
# Nothing runs out while a test runs, however slow the machine: the clock is the database's own.
DAY_SECONDS = 86_400
RATES = RateRules({}, RateLimit(20, DAY_SECONDS))
OPTIONS = CommandsOptions(rates=RATES, lease_seconds=DAY_SECONDS)
CLAIMS = ClaimOptions(DAY_SECONDS, RATES)


@pytest.fixture
def nodes(postgres_url: str) -> Iterator[list[Database]]:
    nodes = [Database(PostgresEngine(postgres_url, writers=4)) for _ in range(2)]
    yield nodes
    for node in nodes:
        node.close()


@pytest.fixture
def fields(nodes: list[Database]) -> list[Field]:
    return [Field(node, OPTIONS) for node in nodes]


async def at_once(*writes: Any) -> list[Any]:
    return await asyncio.gather(*writes, return_exceptions=True)


async def test_many_polls_at_once_are_handed_what_the_limit_allows(fields: list[Field]) -> None:
    """20 of a type within the window, 40 wait, 200 ask: at two sites, so that batches hold more than one."""
    first = fields[0]
    sites = [first.add_site(), first.add_site()]
    collectors = {site: first.hire(site).caller for site in sites}
    for site in sites:
        miner = first.add_miner(site)
        for _ in range(40):
            first.send(site, miner)

    async def ask(number: int) -> tuple[int, int]:
        site = sites[number % 2]
        claimed = await asyncio.to_thread(fields[number // 2 % 2].claim, collectors[site], 3)
        return site, len(claimed.commands)

    outcomes = await asyncio.gather(*(ask(number) for number in range(200)))
    handed = Counter[int]()
    for site, count in outcomes:
        handed[site] += count
    assert handed == dict.fromkeys(sites, 20)


def test_a_window_is_counted_by_one_after_the_other(nodes: list[Database], postgres_url: str) -> None:
    """Collectors of two zones share their site's windows, and nothing else that one could wait for."""
    field = Field(nodes[0], OPTIONS)
    site = field.add_site()
    zones = [field.add_zone(site) for _ in range(2)]
    for zone in zones:
        miner = field.add_miner(site, zone)
        for _ in range(25):
            field.send(site, miner)
    callers = [field.hire(site, zone).caller for zone in zones]
    engine = PostgresEngine(postgres_url)
    first, second = engine.connect(writable=True), engine.connect(writable=True)
    found: list[int] = []

    def claim_second() -> None:
        second.begin()
        found.append(len(claim(second, field.trail, CLAIMS, Claim(callers[1], None, 50)).commands))
        second.commit()

    first.begin()
    assert len(claim(first, field.trail, CLAIMS, Claim(callers[0], None, 50)).commands) == 20
    claiming = threading.Thread(target=claim_second)
    claiming.start()
    until_waiting_or_over(first, claiming)
    first.commit()
    claiming.join(SOON)
    assert found == [0]
    first.close()
    second.close()


async def test_of_many_commands_with_one_dedupe_key_there_is_one(fields: list[Field]) -> None:
    """At two sites: a key is everybody's."""
    places = [(site, fields[0].add_miner(site)) for site in (fields[0].add_site(), fields[0].add_site())]

    def wish(number: int) -> Any:
        field, (site_id, miner_id) = fields[number % 2], places[number // 2 % 2]
        wanted = CommandWish(
            site_id=site_id, miner_id=miner_id, command_type="POWER_MODE", params=b'{"mode":"LOW"}', dedupe_key="one"
        )
        return field.database.write(creation.create, field.trail, wanted, ACTOR)

    outcomes = await at_once(*(wish(number) for number in range(50)))
    kinds = Counter(type(outcome) for outcome in outcomes)
    assert kinds == {creation.Created: 1, DuplicateActive: 49}


async def test_chains_are_unbroken_by_many_writers(fields: list[Field]) -> None:
    sites = [fields[0].add_site() for _ in range(4)]
    miners = {site: fields[0].add_miner(site) for site in sites}

    def wish(number: int) -> Any:
        field, site_id = fields[number % 2], sites[number // 2 % 4]
        wanted = CommandWish(
            site_id=site_id, miner_id=miners[site_id], command_type="POWER_MODE", params=b'{"mode":"LOW"}'
        )
        return field.database.write(creation.create, field.trail, wanted, ACTOR)

    outcomes = await at_once(*(wish(number) for number in range(120)))
    assert [outcome for outcome in outcomes if isinstance(outcome, BaseException)] == []
    for site in sites:
        assert len([event for event, *_ in fields[0].audit(site) if event == "command.created"]) == 30
    verification = LiveVerification(fields[1].trail.mac)
    while fields[1].database.read_now(verification.step):
        pass
    assert verification.verdict.intact, verification.verdict.sentence


async def test_positions_have_no_gaps_and_are_told_in_their_order(nodes: list[Database]) -> None:
    devices = [nodes[0].write_now(add_device) for _ in range(3)]
    told: list[list[Published]] = [[], []]
    for heard, node in zip(told, nodes, strict=True):
        node.on_commit(lambda announced, heard=heard: heard.extend(announced))  # type: ignore[misc]

    def publish(number: int) -> Any:
        one = signal(number, ts_ms=number + 1)
        return nodes[number % 2].write(log.append, devices[number % 3], [one])

    outcomes = await at_once(*(publish(number) for number in range(150)))
    assert all(isinstance(outcome, Published) for outcome in outcomes)
    for device_id in devices:
        entries = nodes[1].read_now(log.read, device_id, START, 100).entries
        assert [entry.position.n for entry in entries] == list(range(1, 51))
        assert all(earlier.position < later.position for earlier, later in pairwise(entries))
        for heard in told:
            places = [news.before for news in heard if news.device_id == device_id]
            assert places == sorted(places)


async def test_two_dispatchers_publish_each_devices_rows_once_and_in_order(nodes: list[Database]) -> None:
    devices = [nodes[0].write_now(add_device) for _ in range(5)]

    async def enqueue(number: int) -> None:
        await nodes[number % 2].write(outbox.enqueue, devices[number % 5], signal(number, ts_ms=number + 1))

    dispatchers = [Dispatcher(node, DispatcherOptions(batch=7, lease_seconds=DAY_SECONDS)) for node in nodes]
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
    async with asyncio.timeout(2 * SOON):
        await asyncio.gather(*dispatching)
    ids_by_device = Query("ids", "SELECT id, payload FROM device_update_outbox WHERE device_id = :device ORDER BY id")
    for device_id in devices:
        rows = nodes[0].read_now(lambda conn, device=device_id: conn.all(ids_by_device, device=device))  # type: ignore[misc]
        entries = nodes[0].read_now(log.read, device_id, START, 100).entries
        assert [entry.json.decode() for entry in entries] == [row["payload"] for row in rows]


async def test_a_refresh_token_shown_many_times_at_once_is_exchanged_once(nodes: list[Database]) -> None:
    device_id = nodes[0].write_now(add_device)
    key = RefreshKey(MasterKey(bytes(32)))
    owner = Query("owner", "SELECT user_id FROM user_devices WHERE id = :id")

    def begin(conn: Connection) -> str:
        row = conn.one(owner, id=device_id)
        assert row is not None
        return refresh_tokens.start_family(conn, key, row["user_id"], device_id)

    token = nodes[0].write_now(begin)
    outcomes = await at_once(*(nodes[n % 2].write(refresh_tokens.exchange, key, token) for n in range(20)))
    assert len([outcome for outcome in outcomes if isinstance(outcome, Exchange)]) == 1
    assert not [outcome for outcome in outcomes if isinstance(outcome, BaseException)]


async def test_claims_and_acks_of_many_collectors_leave_every_attempt_with_one_holder(fields: list[Field]) -> None:
    site = fields[0].add_site()
    miner = fields[0].add_miner(site)
    collectors = [fields[0].hire(site).caller for _ in range(4)]
    for _ in range(15):
        fields[0].send(site, miner)

    async def work(number: int) -> list[tuple[str, int]]:
        field, caller = fields[number % 2], collectors[number]
        done = []
        for _ in range(6):
            claimed = await asyncio.to_thread(field.claim, caller, 2)
            for row in claimed.commands:
                done.append((row.command_id, row.attempt))
                outcome = await asyncio.to_thread(field.ack, caller, row.command_id, "succeeded")
                assert not isinstance(outcome, RestanteError)
        return done

    held = [each for done in await asyncio.gather(*map(work, range(4))) for each in done]
    assert len(held) == len(set(held)) == 15


@pytest.mark.parametrize("spread", [1, PENDING_ROWS], ids=["of one device", "of as many devices"])
def test_a_claim_finds_its_rows_among_very_many(nodes: list[Database], spread: int) -> None:
    """Planned without statistics, as after a sudden flood; the eldest of one device waits for its retry."""
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
    assert len(nodes[0].write_now(outbox.held_by, "me")) == expected
    assert nodes[0].read_now(outbox.seconds_until_due) is not None


def explained(node: Database) -> str:
    query = Query("explain", f"EXPLAIN {outbox.SQL.claim.for_engine('postgres')}")
    values = {"claimed_by": "me", "now_ms": 1, "lock_expires_at": 2, "batch": 100, "looked_at": 1000}
    return "\n".join(row["QUERY PLAN"] for row in node.write_now(lambda conn: conn.all(query, **values)))
