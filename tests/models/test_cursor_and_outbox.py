"""The way of a signal, from the outbox through three dispatchers to clients with cursors, against plain dictionaries.

The model says what every row of the outbox, every log and every poll must be after each step. What was published is
also collected from the commits' own announcements, and checked without the model: counted without gaps, once each, in
the order of the outbox unless a row had been given up.
"""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, invariant, rule

from restante.core.backoff import Backoff
from restante.core.cursor import START, Position
from restante.core.errors import CursorExpired
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from restante.delivery import log, outbox
from restante.delivery.dispatcher import Dispatcher, DispatcherOptions
from restante.delivery.log import Published
from restante.delivery.outbox import OutboxRow
from restante.delivery.signals import Signal
from tests.conftest import ManualClock
from tests.databases import FreshDatabases, FreshPostgres
from tests.delivery.rows import add_device
from tests.models.machines import Machine, try_machine
from tests.models.plain_delivery import KEEP, SLACK, Client, Log, Row

DEVICES = (1, 2)
DISPATCHERS = ("d1", "d2", "d3")
LEASE_SECONDS = 30
BACKOFF = Backoff(base_seconds=1, max_seconds=4, attempts_max=3)
FOR_EVER_SECONDS = 100_000

INSERT = Query(
    "insert",
    "INSERT INTO device_update_outbox (device_id, event_kind, payload, created_at) "
    "VALUES (:device_id, 'poison', '{', :now_ms)",
)
# Counted by the database: PostgreSQL passes over the number of a row that was rolled back.
NEWEST = Query("newest", "SELECT MAX(id) AS id FROM device_update_outbox")
LOG = Query("log", "SELECT ms, n, type, ts_ms, ref FROM device_update_log WHERE device_id = :device_id ORDER BY ms, n")


class RolledBack(Exception):
    """The business change failed."""


class Delivery(Machine):
    clients = Bundle("clients")
    devices = st.sampled_from(DEVICES)
    dispatchers = st.sampled_from(DISPATCHERS)

    def __init__(self) -> None:
        super().__init__()
        self.slack, log.TRIM_SLACK = log.TRIM_SLACK, SLACK
        self.clock = ManualClock()
        self.database = Database(self.fresh.new(self.clock))
        assert tuple(self.database.write_now(add_device) for _ in DEVICES) == DEVICES
        self.database.on_commit(self.hear)
        self.loop = asyncio.new_event_loop()
        options = DispatcherOptions(batch=4, lease_seconds=LEASE_SECONDS, backoff=BACKOFF)
        self.dispatching = {name: Dispatcher(self.database, options, self.append, name) for name in DISPATCHERS}
        self.rows: dict[int, Row] = {}
        self.logs = {device: Log() for device in DEVICES}
        self.cut_off: set[int] = set()
        self.committed: list[int] = []
        self.row_of: dict[int, int] = {}
        self.ever_failed: set[int] = set()
        self.heard: dict[int, list[tuple[Position, int]]] = {device: [] for device in DEVICES}

    def teardown(self) -> None:
        log.TRIM_SLACK = self.slack
        self.database.close()
        self.loop.close()

    # What stands between outbox and log, and who listens.

    def append(self, conn: Connection, signals: Mapping[int, list[Signal]]) -> None:
        log.append_all(conn, signals, KEEP)
        if self.cut_off & signals.keys():
            raise ConnectionError("the line is cut")

    def hear(self, announced: list[object]) -> None:
        for event in announced:
            if isinstance(event, Published):
                told = [(entry.position, json.loads(entry.json)["ref"]["about"]) for entry in event.entries]
                self.heard[event.device_id] += told

    # Rules: changes and their signals.

    def next_about(self) -> int:
        return len(self.committed) + 1

    def added(self, device: int, about: int | None) -> None:
        row = Row(self.database.read_now(newest_id), device, about)
        self.rows[row.id] = row
        if about is not None:
            self.committed.append(about)
            self.row_of[about] = row.id

    def signal(self, type: str) -> Signal:
        return Signal(type, self.clock.now_ms, {"about": self.next_about()})

    @rule(device=devices, types=st.text("xy", min_size=1, max_size=3))
    def enqueue(self, device: int, types: str) -> None:
        for type in types:
            self.database.write_now(outbox.enqueue, device, self.signal(type))
            self.added(device, self.next_about())

    @rule(device=devices)
    def enqueue_and_roll_back(self, device: int) -> None:
        def change(conn: Connection) -> None:
            outbox.enqueue(conn, device, self.signal("x"))
            raise RolledBack()

        with pytest.raises(RolledBack):
            self.database.write_now(change)

    @rule(device=devices)
    def enqueue_what_is_no_signal(self, device: int) -> None:
        self.database.write_now(lambda conn: conn.run(INSERT, device_id=device, now_ms=conn.now_ms))
        self.added(device, None)

    @rule(device=devices, type=st.sampled_from("xy"))
    def emit_directly(self, device: int, type: str) -> None:
        about = self.next_about()
        signal = self.signal(type)

        def emit() -> None:
            self.database.write_now(outbox.emit_directly, device, signal, self.append)

        if any(row.device == device and row.status == "PENDING" for row in self.rows.values()):
            emit()
            self.added(device, about)
        elif device in self.cut_off:
            with pytest.raises(ConnectionError):
                emit()
        else:
            emit()
            self.committed.append(about)
            self.logs[device].append([about], self.clock.now_ms)

    # Rules: dispatchers.

    def claimable(self, batch: int) -> list[Row]:
        """On PostgreSQL a claim is content with what it finds among the oldest rows, unless that is nothing."""
        pending = self.pending()
        for batches in outbox.LOOKED_AT_BATCHES if isinstance(self.fresh, FreshPostgres) else ():
            if due := self.due(pending[: batches * batch])[:batch]:
                return due
        return self.due(pending)[:batch]

    def due(self, rows: list[Row]) -> list[Row]:
        held_back: set[int] = set()
        due = []
        for row in rows:
            if row.waits(self.clock.now_ms):
                held_back.add(row.device)
            elif row.device not in held_back:
                due.append(row)
        return due

    def pending(self) -> list[Row]:
        return [row for row in self.rows.values() if row.status == "PENDING"]

    def held(self, name: str) -> list[Row]:
        """The rows a dispatcher may publish: leased to it, with all their elders."""
        overtaken: set[int] = set()
        held = []
        for row in self.pending():
            lease = row.lock_expires_at
            if row.claimed_by == name and lease is not None and lease > self.clock.now_ms:
                if row.device not in overtaken:
                    held.append(row)
            else:
                overtaken.add(row.device)
        return held

    def claimed(self, name: str, rows: list[Row]) -> None:
        for row in rows:
            row.claimed_by = name
            row.lock_expires_at = self.clock.now_ms + LEASE_SECONDS * 1000

    @rule(name=dispatchers, batch=st.integers(1, 5))
    def claim_and_stop_there(self, name: str, batch: int) -> None:
        due = self.claimable(batch)
        assert self.database.write_now(outbox.claim, name, LEASE_SECONDS, batch) == len(due)
        self.claimed(name, due)

    def holder(self, data: st.DataObject) -> str:
        """One of the dispatchers, rather one that holds something, or did until its lease ran out."""
        holding = sorted({row.claimed_by for row in self.pending() if row.claimed_by})
        return data.draw(st.sampled_from([*holding, *holding, *holding, *DISPATCHERS]))

    @rule(data=st.data())
    def deliver_what_was_claimed(self, data: st.DataObject) -> None:
        name = self.holder(data)
        held = self.held(name)
        if self.some_cannot_be_reached(held):
            with pytest.raises(ConnectionError):
                self.database.write_now(outbox.deliver_held, name, self.append)
        else:
            self.database.write_now(outbox.deliver_held, name, self.append)
            self.delivered_together(held)

    @rule(data=st.data())
    def deliver_one_by_one(self, data: st.DataObject) -> None:
        name = self.holder(data)
        held = self.held(name)
        self.loop.run_until_complete(self.dispatching[name]._deliver_one_by_one())
        self.delivered_singly(held)

    @rule(name=dispatchers)
    def run_a_pass(self, name: str) -> None:
        due = self.claimable(4)
        self.loop.run_until_complete(self.dispatching[name].run_once())
        self.claimed(name, due)
        held = self.held(name)
        if not due:
            return
        if self.some_cannot_be_reached(held):
            self.delivered_singly(held)
        else:
            self.delivered_together(held)

    @rule(data=st.data())
    def fail_and_stop_before_giving_back_the_rest(self, data: st.DataObject) -> None:
        name = self.holder(data)
        held = self.held(name)
        if not held or held[0].about is None:
            return
        first = self.database.write_now(outbox.held_by, name)[0]
        assert first.id == held[0].id
        self.database.write_now(outbox.put_back, name, first, "away", BACKOFF)
        self.put_back(held[0])

    @rule(name=dispatchers, attempts=st.integers(0, BACKOFF.attempts_max))
    def wake_up_late_and_put_back(self, name: str, attempts: int) -> None:
        """Somebody who holds nothing tries to put back what another holds or has delivered."""
        for row in self.rows.values():
            if row.claimed_by != name:
                late = outbox.HeldRow(row.id, row.device, "", attempts)
                self.database.write_now(outbox.put_back, name, late, "late", BACKOFF)
                self.database.write_now(outbox.release, name, [row.id])

    def some_cannot_be_reached(self, rows: list[Row]) -> bool:
        return any(row.device in self.cut_off for row in rows if row.about is not None)

    def delivered_together(self, rows: list[Row]) -> None:
        for row in rows:
            self.ended(row)
        for device in DEVICES:
            abouts = [row.about for row in rows if row.device == device and row.about is not None]
            self.logs[device].append(abouts, self.clock.now_ms)

    def delivered_singly(self, rows: list[Row]) -> None:
        held_back: set[int] = set()
        for row in rows:
            if row.device in held_back:
                row.claimed_by = row.lock_expires_at = None
            elif row.about is not None and row.device in self.cut_off:
                held_back.add(row.device)
                self.put_back(row)
            else:
                self.ended(row)
                if row.about is not None:
                    self.logs[row.device].append([row.about], self.clock.now_ms)

    def ended(self, row: Row) -> None:
        """Delivered, or never to be."""
        row.lock_expires_at = row.next_attempt_at = None
        if row.about is None:
            row.status = "FAILED"
            row.attempts += 1
            self.ever_failed.add(row.id)
        else:
            row.status = "DELIVERED"

    def put_back(self, row: Row) -> None:
        row.attempts += 1
        row.lock_expires_at = row.next_attempt_at = None
        delay_seconds = BACKOFF.delay_seconds(row.attempts)
        if delay_seconds is None:
            row.status = "FAILED"
            self.ever_failed.add(row.id)
        else:
            row.claimed_by = None
            row.next_attempt_at = self.clock.now_ms + int(delay_seconds * 1000)

    # Rules: the world.

    @rule(device=devices)
    def cut_or_mend_the_line(self, device: int) -> None:
        self.cut_off ^= {device}

    @rule(seconds=st.sampled_from((0.001, 0.5, 1, 2, 5, 31)))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(seconds=st.sampled_from((0.001, 1, 40)))
    def the_clock_goes_back(self, seconds: float) -> None:
        self.clock.advance(-seconds)

    @rule(data=st.data())
    def an_operator_resets(self, data: st.DataObject) -> None:
        failed = [row for row in self.rows.values() if row.status == "FAILED"]
        some = data.draw(st.none() | st.lists(st.sampled_from(sorted(self.rows) or [99]), max_size=3, unique=True))
        reset = [row for row in failed if some is None or row.id in some]
        assert self.database.write_now(outbox.retry, some) == len(reset)
        for row in reset:
            self.rows[row.id] = Row(row.id, row.device, row.about)

    # Rules: clients.

    @rule(target=clients, device=devices, cursor=st.sampled_from((None, START)))
    def a_client_comes(self, device: int, cursor: Position | None) -> Client:
        return Client(device, cursor)

    @rule(client=clients, limit=st.integers(1, 4))
    def a_client_polls(self, client: Client, limit: int) -> None:
        kept = self.logs[client.device]
        cursor = client.cursor
        if cursor is not None and kept.misses_something(cursor):
            self.is_refused(client.device, cursor)
            client.cursor = None
            return
        reading = self.database.read_now(log.read, client.device, cursor, limit)
        assert reading.head == kept.head
        given = [(entry.position, json.loads(entry.json)["ref"]["about"]) for entry in reading.entries]
        if cursor is None:
            assert given == kept.retained[-limit:]
        else:
            # What a client has seen is the published sequence up to its cursor: nothing twice, nothing left out.
            assert given == [one for one in kept.published if one[0] > cursor][:limit]
        client.cursor = given[-1][0] if given else kept.newest

    @rule(device=devices, ms=st.integers(-3, 3), n=st.integers(0, 12), data=st.data())
    def somebody_polls_with_a_cursor_from_elsewhere(self, device: int, ms: int, n: int, data: st.DataObject) -> None:
        kept = self.logs[device]
        near = data.draw(st.sampled_from([position for position, _ in kept.published] or [START]))
        cursor = Position(max(0, near.ms + ms), n)
        if kept.misses_something(cursor):
            self.is_refused(device, cursor)
        else:
            reading = self.database.read_now(log.read, device, cursor, 100)
            given = [entry.position for entry in reading.entries]
            assert given == [position for position, _ in kept.published if position > cursor]

    def is_refused(self, device: int, cursor: Position) -> None:
        kept = self.logs[device]
        with pytest.raises(CursorExpired) as expired:
            self.database.read_now(log.read, device, cursor, 100)
        assert expired.value.params == {
            "action": "full_resync",
            "reason": "cursor_unknown" if cursor > kept.newest else "cursor_trimmed",
            "reset_cursor": str(kept.newest),
            "earliest_retained_id": str(kept.head.earliest),
        }

    # What must always hold.

    @invariant()
    def the_outbox_is_as_the_model_says(self) -> None:
        found = self.database.read_now(outbox.list_rows, None, None, 1000)
        assert [_as_model(row) for row in reversed(found)] == [
            (row.id, row.device, row.status, row.attempts, row.next_attempt_at, row.claimed_by, row.lock_expires_at)
            for row in self.rows.values()
        ]

    @invariant()
    def the_logs_and_their_heads_are_as_the_model_says(self) -> None:
        for device, kept in self.logs.items():
            rows = self.database.read_now(log_rows, device)
            found = [(Position(row["ms"], row["n"]), json.loads(row["ref"])["about"]) for row in rows]
            assert found == kept.retained
            assert self.database.read_now(log.read_head, device) == kept.head
            assert len({(row["type"], row["ts_ms"]) for row in rows}) == len(rows)
            assert len(rows) <= KEEP + SLACK

    @invariant()
    def what_was_published_is_counted_in_order_and_once(self) -> None:
        for device, told in self.heard.items():
            assert [position.n for position, _ in told] == list(range(1, len(told) + 1))
            assert [position.ms for position, _ in told] == sorted(position.ms for position, _ in told)
            abouts = [about for _, about in told]
            assert len(set(abouts)) == len(abouts)
            ids = [self.row_of[about] for about in abouts if about in self.row_of]
            never_failed = [row_id for row_id in ids if row_id not in self.ever_failed]
            assert never_failed == sorted(never_failed), device

    @rule()
    def everything_settles(self) -> None:
        """With every line mended and time enough, everything that was committed and not given up is published."""
        self.cut_off.clear()
        while self.pending():
            before = len(self.pending())
            self.clock.advance(FOR_EVER_SECONDS)
            self.run_a_pass("d1")
            assert len(self.pending()) < before
        published = {about for told in self.heard.values() for _, about in told}
        given_up = {row.about for row in self.rows.values() if row.status == "FAILED"}
        assert published == set(self.committed) - given_up


def newest_id(conn: Connection) -> int:
    row = conn.one(NEWEST)
    assert row is not None
    return int(row["id"])


def log_rows(conn: Connection, device_id: int) -> list[Any]:
    return conn.all(LOG, device_id=device_id)


def _as_model(row: OutboxRow) -> tuple[Any, ...]:
    return (
        row.id,
        row.device_id,
        row.status,
        row.attempts,
        row.next_attempt_at,
        row.claimed_by,
        row.lock_expires_at,
    )


def test_delivery(fresh: FreshDatabases) -> None:
    try_machine(Delivery, fresh, examples=100, steps=50)
