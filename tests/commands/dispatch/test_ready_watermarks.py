"""A command must be found, whatever makes it ready below its watermark. These tests raise watermarks with every
dispatch. SQLite keeps no watermarks; the same calls must find the same commands there."""

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from restante.commands.dispatch import claims
from restante.commands.dispatch.claims import ClaimRequest, claim
from restante.commands.dispatch.rate_limits import RateLimit, RateRules
from restante.commands.lifecycle import approval, cancellation, creation
from restante.commands.lifecycle.approval import ApprovalRules
from restante.commands.lifecycle.creation import CommandRequest
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.engine import Engine
from restante.database.queries import Query
from tests.commands.default_options import commands_options
from tests.commands.edge_fixture import ACTOR, Collector, CommandsHarness
from tests.commands.hint_checks import commands_hidden_by_hints, watermarks_of
from tests.conftest import ManualClock
from tests.defaults import claim_options, new_postgres_engine

TIMEOUT_SECONDS = 30.0
COMMAND_TYPE = "POWER_MODE"
OPTIONS = commands_options(
    rates=RateRules({"MINER_RESTART": RateLimit(2, 300)}, RateLimit(1000, 60)),
    approval=ApprovalRules(frozenset(["DEVICE_REBOOT"])),
)


class SiteQueue:
    """The queue of a site with one miner and one collector."""

    def __init__(self, harness: CommandsHarness, clock: ManualClock) -> None:
        self.harness = harness
        self.clock = clock
        self.site = harness.add_site()
        self.miner = harness.add_miner(self.site)
        self.collector = harness.add_collector(self.site)

    def send(self, command_type: str = COMMAND_TYPE, **fields: Any) -> str:
        return self.harness.add_command(self.site, self.miner, command_type, **fields).command_id

    def claim(self, limit: int = 10, by: Collector | None = None) -> list[str]:
        return [each.command_id for each in self.harness.claim((by or self.collector).caller, limit).commands]

    def work_through(self, count: int = 3, command_type: str = COMMAND_TYPE) -> None:
        """Create, claim and finish commands one after another, so that their watermark rises."""
        for _ in range(count):
            self.clock.advance(1)
            created = self.send(command_type)
            assert self.claim() == [created]
            self.harness.ack(self.collector.caller, created, "succeeded")


@pytest.fixture(autouse=True)
def raise_with_every_dispatch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "RAISE_EVERY", 1)


@pytest.fixture
def queue(database: Database, clock: ManualClock) -> Iterator[SiteQueue]:
    yield SiteQueue(CommandsHarness(database, OPTIONS), clock)
    assert commands_hidden_by_hints(database) == []


def test_watermark_follows_dispatched_commands_on_postgresql_only(queue: SiteQueue, engine_name: str) -> None:
    queue.work_through()
    watermarks = [rank - queue.clock.now_ms for _, _, rank, _ in watermarks_of(queue.harness.database)]
    assert watermarks == ([1] if engine_name == "postgres" else [])


def test_watermark_stays_at_the_first_command_that_was_not_leased(queue: SiteQueue, engine_name: str) -> None:
    created = []
    for _ in range(4):
        queue.clock.advance(1)
        created.append(queue.send())
    assert queue.claim(2) == created[:2]
    watermarks = [(rank, frontier) for _, _, rank, frontier in watermarks_of(queue.harness.database)]
    left = queue.harness.command(created[2])["rank"]
    assert watermarks == ([(left, left)] if engine_name == "postgres" else [])
    assert queue.claim() == created[2:]


def test_command_of_high_priority_is_found(queue: SiteQueue) -> None:
    queue.work_through()
    before = watermarks_of(queue.harness.database)
    later, sooner = queue.send(), queue.send(priority=7)
    assert queue.claim(1) == [sooner]
    assert queue.claim(1) == [later]
    assert [rank for *_, rank in watermarks_of(queue.harness.database)] >= [rank for *_, rank in before]


def test_lowered_watermark_is_raised_again_after_the_commands_are_leased(queue: SiteQueue, engine_name: str) -> None:
    queue.work_through()
    before = watermarks_of(queue.harness.database)
    created = [queue.send(priority=priority) for priority in (3, 5, 4)]
    assert queue.claim() == [created[1], created[2], created[0]]
    assert watermarks_of(queue.harness.database) == before
    assert len(before) == (engine_name == "postgres")


def test_lowered_watermark_is_raised_again_after_the_command_is_cancelled(queue: SiteQueue) -> None:
    queue.work_through()
    cancelled, waiting = queue.send(priority=3), queue.send()
    queue.harness.database.write_now(cancellation.cancel, queue.harness.trail, cancelled, ACTOR)
    assert queue.claim() == [waiting]
    assert all(rank == frontier for *_, rank, frontier in watermarks_of(queue.harness.database))


@pytest.mark.parametrize("status", ["failed", "deferred"])
def test_requeued_command_is_found_after_its_back_off(queue: SiteQueue, status: str) -> None:
    again = queue.send()
    assert queue.claim() == [again]
    queue.harness.ack(queue.collector.caller, again, status)
    queue.work_through()
    queue.clock.advance(30)
    assert queue.claim() == [again]


@pytest.mark.parametrize("seconds", [60 + 30, 60 + 30 + 500])
def test_command_with_an_expired_lease_is_found(queue: SiteQueue, seconds: int) -> None:
    """It becomes ready with the settlement of the lease, or later, after its back-off."""
    lost = queue.send()
    assert queue.claim() == [lost]
    queue.work_through()
    queue.clock.advance(60)
    assert queue.claim() == []
    queue.clock.advance(seconds - 60)
    assert queue.claim() == [lost]


def test_command_that_was_approved_late_is_found(queue: SiteQueue) -> None:
    command_type = "DEVICE_REBOOT"
    old, new = queue.send(command_type), None
    for _ in range(3):
        queue.clock.advance(1)
        new = queue.send(command_type)
        queue.harness.database.write_now(approval.approve, queue.harness.trail, new, "approver")
        assert queue.claim() == [new]
    queue.harness.database.write_now(approval.approve, queue.harness.trail, old, "approver")
    assert queue.claim() == [old]


def test_command_created_after_the_clock_was_set_back_is_found(queue: SiteQueue) -> None:
    queue.work_through()
    queue.clock.now_ms -= 1_000_000
    created = queue.send()
    assert queue.claim() == [created]


def test_rate_limited_commands_are_found_when_the_window_frees(queue: SiteQueue) -> None:
    created = [queue.send("MINER_RESTART") for _ in range(5)]
    assert queue.claim() == created[:2]
    for done in created[:2]:
        queue.harness.ack(queue.collector.caller, done, "succeeded")
    queue.work_through()
    claimed = queue.harness.claim(queue.collector.caller)
    assert (claimed.commands, claimed.rate_limited_count) == ([], 3)
    queue.clock.advance(300)
    assert queue.claim() == created[2:4]


def test_types_without_a_watermark_are_found_between_those_with_one(queue: SiteQueue) -> None:
    """Types whose names sort between, before and after the names of the types with a watermark."""
    queue.work_through(command_type="HASHING_ENABLE")
    queue.work_through(command_type=COMMAND_TYPE)
    created = []
    for command_type in ("HASHING_DISABLE", "MINER_RESTART", "SET_FAN"):
        queue.clock.advance(1)
        params = {"params": b'{"speed":50}'} if command_type == "SET_FAN" else {}
        created.append(queue.send(command_type, **params))
    assert queue.claim() == created


def test_watermark_of_one_zone_hides_no_command_of_another(queue: SiteQueue) -> None:
    harness = queue.harness
    zone = harness.add_zone(queue.site)
    miner, of_zone = harness.add_miner(queue.site, zone), harness.add_collector(queue.site, zone)
    early = harness.add_command(queue.site, miner).command_id
    also = harness.add_command(queue.site, miner).command_id
    other = queue.send()
    assert queue.claim(1, by=of_zone) == [early]
    queue.clock.advance(1)
    late = queue.send(priority=1)
    assert queue.claim() == [late, also, other]


def test_rolled_back_claim_leaves_the_watermark(queue: SiteQueue) -> None:
    queue.work_through()
    created = queue.send()
    before = watermarks_of(queue.harness.database)
    trail, options = queue.harness.trail, claim_options()

    def fails(conn: Connection) -> None:
        assert claim(conn, trail, options, ClaimRequest(queue.collector.caller, None, 5)).commands
        raise RuntimeError("rolled back")

    with pytest.raises(RuntimeError):
        queue.harness.database.write_now(fails)
    assert watermarks_of(queue.harness.database) == before
    assert queue.claim() == [created]


def test_two_processes_find_the_commands_of_each_other(queue: SiteQueue, engine: Engine) -> None:
    queue.work_through()
    with closing(Database(engine)) as database:
        other = SiteQueue.__new__(SiteQueue)
        other.__dict__.update(queue.__dict__, field=CommandsHarness(database, OPTIONS))
        other.work_through()
        for maker, taker in ((queue, other), (other, queue)):
            plain, urgent = maker.send(), maker.send(priority=9)
            assert taker.claim() == [urgent, plain]
            queue.clock.advance(1)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE miner_commands SET rank = 5",
        "UPDATE miner_commands SET rank = 5, next_attempt_at = 1; UPDATE miner_commands SET next_attempt_at = NULL",
        "UPDATE miner_commands SET rank = 5, status = 'cancelled'; UPDATE miner_commands SET status = 'pending'",
    ],
)
def test_command_that_was_changed_by_hand_is_found(queue: SiteQueue, statement: str) -> None:
    queue.work_through()
    created = queue.send()
    for each in statement.split(";"):
        query = Query("by_hand", f"{each} WHERE command_id = :command_id")
        queue.harness.database.write_now(lambda conn: conn.run(query, command_id=created))  # noqa: B023 — run at once
    assert queue.claim() == [created]


def test_claim_waits_for_the_transaction_that_creates_a_command_of_lower_rank(
    clock: ManualClock, postgres_url: str
) -> None:
    """The transaction with the lower rank commits last: until then the watermark is not raised past it."""
    engine = new_postgres_engine(postgres_url, writers=3, clock=clock)
    with closing(Database(engine)) as database:
        queue = SiteQueue(CommandsHarness(database, OPTIONS), clock)
        queue.work_through()
        plain = queue.send()
        fields: dict[str, Any] = {"priority": 9, "params": b'{"mode":"LOW"}'}
        request = CommandRequest(site_id=queue.site, miner_id=queue.miner, command_type=COMMAND_TYPE, **fields)
        creating = engine.connect(writable=True)
        creating.begin()
        urgent = creation.create(
            creating, queue.harness.trail, request, ACTOR, queue.harness.creation_options
        ).command_id
        claimed: list[str] = []
        claiming = threading.Thread(target=lambda: claimed.extend(queue.claim()))
        claiming.start()
        _wait_for_a_blocked_lock(postgres_url)
        creating.commit()
        creating.close()
        claiming.join(TIMEOUT_SECONDS)
        assert claimed == [urgent, plain]
        assert commands_hidden_by_hints(database) == []


def _wait_for_a_blocked_lock(url: str) -> None:
    end = time.monotonic() + TIMEOUT_SECONDS
    with psycopg.connect(url, autocommit=True) as conn:
        while conn.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").fetchone() is None:
            assert time.monotonic() < end, "no transaction waits for a lock"
            time.sleep(0.01)
