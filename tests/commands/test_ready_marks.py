"""Marks are raised with every hand-out here. Whatever makes a command ready below its mark, it must be found; on
SQLite, which keeps no marks, by the same calls."""

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from restante.commands import approval, cancelling, claims, creation
from restante.commands.approval import ApprovalRules
from restante.commands.claims import Claim, ClaimOptions, claim
from restante.commands.creation import CommandWish
from restante.commands.parts import CommandsOptions
from restante.commands.rate_windows import RateLimit, RateRules
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.engine import Engine
from restante.database.postgres import PostgresEngine
from restante.database.queries import Query
from tests.commands.field import ACTOR, Field, Hired
from tests.commands.hints import marks_of, misled
from tests.conftest import ManualClock

PATIENCE_SECONDS = 30.0
KIND = "POWER_MODE"
OPTIONS = CommandsOptions(
    rates=RateRules({"MINER_RESTART": RateLimit(2, 300)}, RateLimit(1000, 60)),
    approval=ApprovalRules(frozenset(["DEVICE_REBOOT"])),
)


class Queue:
    """A site with one miner and one collector, whose queue has been handed out."""

    def __init__(self, field: Field, clock: ManualClock) -> None:
        self.field = field
        self.clock = clock
        self.site = field.add_site()
        self.miner = field.add_miner(self.site)
        self.hired = field.hire(self.site)

    def send(self, command_type: str = KIND, **wish: Any) -> str:
        return self.field.send(self.site, self.miner, command_type, **wish).command_id

    def take(self, limit: int = 10, by: Hired | None = None) -> list[str]:
        return [each.command_id for each in self.field.claim((by or self.hired).caller, limit).commands]

    def work_through(self, count: int = 3, command_type: str = KIND) -> None:
        """Commands that are made, handed out and done, one after another: their mark goes along."""
        for _ in range(count):
            self.clock.advance(1)
            sent = self.send(command_type)
            assert self.take() == [sent]
            self.field.ack(self.hired.caller, sent, "succeeded")


@pytest.fixture(autouse=True)
def raised_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "RAISE_EVERY", 1)


@pytest.fixture
def queue(database: Database, clock: ManualClock) -> Iterator[Queue]:
    yield Queue(Field(database, OPTIONS), clock)
    assert misled(database) == []


def test_marks_follow_what_is_handed_out_on_postgresql_alone(queue: Queue, engine_name: str) -> None:
    queue.work_through()
    marks = [rank - queue.clock.now_ms for _, _, rank, _ in marks_of(queue.field.database)]
    assert marks == ([1] if engine_name == "postgres" else [])


def test_a_mark_stays_at_the_first_that_was_left(queue: Queue, engine_name: str) -> None:
    sent = []
    for _ in range(4):
        queue.clock.advance(1)
        sent.append(queue.send())
    assert queue.take(2) == sent[:2]
    marks = [(rank, frontier) for _, _, rank, frontier in marks_of(queue.field.database)]
    left = queue.field.command(sent[2])["rank"]
    assert marks == ([(left, left)] if engine_name == "postgres" else [])
    assert queue.take() == sent[2:]


def test_a_command_of_high_priority_is_found(queue: Queue) -> None:
    queue.work_through()
    before = marks_of(queue.field.database)
    later, sooner = queue.send(), queue.send(priority=7)
    assert queue.take(1) == [sooner]
    assert queue.take(1) == [later]
    assert [rank for *_, rank in marks_of(queue.field.database)] >= [rank for *_, rank in before]


def test_a_mark_that_was_lowered_goes_back_to_where_it_was(queue: Queue, engine_name: str) -> None:
    queue.work_through()
    before = marks_of(queue.field.database)
    sent = [queue.send(priority=priority) for priority in (3, 5, 4)]
    assert queue.take() == [sent[1], sent[2], sent[0]]
    assert marks_of(queue.field.database) == before
    assert len(before) == (engine_name == "postgres")


def test_a_mark_goes_back_when_what_it_was_lowered_for_is_cancelled(queue: Queue) -> None:
    queue.work_through()
    cancelled, waiting = queue.send(priority=3), queue.send()
    queue.field.database.write_now(cancelling.cancel, queue.field.trail, cancelled, ACTOR)
    assert queue.take() == [waiting]
    assert all(rank == frontier for *_, rank, frontier in marks_of(queue.field.database))


@pytest.mark.parametrize("status", ["failed", "deferred"])
def test_a_command_that_was_handed_back_is_found_after_its_back_off(queue: Queue, status: str) -> None:
    again = queue.send()
    assert queue.take() == [again]
    queue.field.ack(queue.hired.caller, again, status)
    queue.work_through()
    queue.clock.advance(30)
    assert queue.take() == [again]


@pytest.mark.parametrize("seconds", [60 + 30, 60 + 30 + 500])
def test_a_command_whose_holder_was_lost_is_found(queue: Queue, seconds: int) -> None:
    """At once ready, or after it was seen that the lease had run out."""
    lost = queue.send()
    assert queue.take() == [lost]
    queue.work_through()
    queue.clock.advance(60)
    assert queue.take() == []
    queue.clock.advance(seconds - 60)
    assert queue.take() == [lost]


def test_a_command_that_was_approved_late_is_found(queue: Queue) -> None:
    kind = "DEVICE_REBOOT"
    old, new = queue.send(kind), None
    for _ in range(3):
        queue.clock.advance(1)
        new = queue.send(kind)
        queue.field.database.write_now(approval.approve, queue.field.trail, new, "somebody else")
        assert queue.take() == [new]
    queue.field.database.write_now(approval.approve, queue.field.trail, old, "somebody else")
    assert queue.take() == [old]


def test_commands_made_by_a_clock_that_was_set_back_are_found(queue: Queue) -> None:
    queue.work_through()
    queue.clock.now_ms -= 1_000_000
    sent = queue.send()
    assert queue.take() == [sent]


def test_what_a_window_held_back_is_found_when_it_opens(queue: Queue) -> None:
    sent = [queue.send("MINER_RESTART") for _ in range(5)]
    assert queue.take() == sent[:2]
    for done in sent[:2]:
        queue.field.ack(queue.hired.caller, done, "succeeded")
    queue.work_through()
    claimed = queue.field.claim(queue.hired.caller)
    assert (claimed.commands, claimed.held_back) == ([], 3)
    queue.clock.advance(300)
    assert queue.take() == sent[2:4]


def test_types_between_those_that_are_marked_are_found(queue: Queue) -> None:
    """In the order of their names; in the middle of them, before the first and behind the last."""
    queue.work_through(command_type="HASHING_ENABLE")
    queue.work_through(command_type=KIND)
    sent = []
    for kind in ("HASHING_DISABLE", "MINER_RESTART", "SET_FAN"):
        queue.clock.advance(1)
        params = {"params": b'{"speed":50}'} if kind == "SET_FAN" else {}
        sent.append(queue.send(kind, **params))
    assert queue.take() == sent


def test_what_one_zone_has_marked_hides_nothing_in_another(queue: Queue) -> None:
    field = queue.field
    zone = field.add_zone(queue.site)
    miner, of_zone = field.add_miner(queue.site, zone), field.hire(queue.site, zone)
    early = field.send(queue.site, miner).command_id
    also = field.send(queue.site, miner).command_id
    other = queue.send()
    assert queue.take(1, by=of_zone) == [early]
    queue.clock.advance(1)
    late = queue.send(priority=1)
    assert queue.take() == [late, also, other]


def test_a_claim_that_is_undone_leaves_the_mark(queue: Queue) -> None:
    queue.work_through()
    sent = queue.send()
    before = marks_of(queue.field.database)
    trail, options = queue.field.trail, ClaimOptions()

    def fails(conn: Connection) -> None:
        assert claim(conn, trail, options, Claim(queue.hired.caller, None, 5)).commands
        raise RuntimeError("after all")

    with pytest.raises(RuntimeError):
        queue.field.database.write_now(fails)
    assert marks_of(queue.field.database) == before
    assert queue.take() == [sent]


def test_another_process_finds_what_this_one_made_and_the_other_way_round(queue: Queue, engine: Engine) -> None:
    queue.work_through()
    with closing(Database(engine)) as database:
        other = Queue.__new__(Queue)
        other.__dict__.update(queue.__dict__, field=Field(database, OPTIONS))
        other.work_through()
        for maker, taker in ((queue, other), (other, queue)):
            plain, urgent = maker.send(), maker.send(priority=9)
            assert taker.take() == [urgent, plain]
            queue.clock.advance(1)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE miner_commands SET rank = 5",
        "UPDATE miner_commands SET rank = 5, next_attempt_at = 1; UPDATE miner_commands SET next_attempt_at = NULL",
        "UPDATE miner_commands SET rank = 5, status = 'cancelled'; UPDATE miner_commands SET status = 'pending'",
    ],
)
def test_what_is_changed_by_hand_is_found(queue: Queue, statement: str) -> None:
    queue.work_through()
    sent = queue.send()
    for each in statement.split(";"):
        query = Query("by_hand", f"{each} WHERE command_id = :command_id")
        queue.field.database.write_now(lambda conn: conn.run(query, command_id=sent))  # noqa: B023 — run at once
    assert queue.take() == [sent]


def test_a_claim_waits_for_whoever_makes_a_command_of_lower_rank(clock: ManualClock, postgres_url: str) -> None:
    """Of two transactions the one with the lower rank commits last: the mark is not raised past it meanwhile."""
    engine = PostgresEngine(postgres_url, writers=3, clock=clock)
    with closing(Database(engine)) as database:
        queue = Queue(Field(database, OPTIONS), clock)
        queue.work_through()
        plain = queue.send()
        urgently: dict[str, Any] = {"priority": 9, "params": b'{"mode":"LOW"}'}
        wish = CommandWish(site_id=queue.site, miner_id=queue.miner, command_type=KIND, **urgently)
        making = engine.connect(writable=True)
        making.begin()
        urgent = creation.create(making, queue.field.trail, wish, ACTOR).command_id
        taken: list[str] = []
        claiming = threading.Thread(target=lambda: taken.extend(queue.take()))
        claiming.start()
        _wait_until_somebody_waits(postgres_url)
        making.commit()
        making.close()
        claiming.join(PATIENCE_SECONDS)
        assert taken == [urgent, plain]
        assert misled(database) == []


def _wait_until_somebody_waits(url: str) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    with psycopg.connect(url, autocommit=True) as conn:
        while conn.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted").fetchone() is None:
            assert time.monotonic() < end, "nobody waits"
            time.sleep(0.01)
