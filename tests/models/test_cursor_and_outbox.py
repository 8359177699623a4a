"""The delivery of signals, from the outbox through three dispatchers to clients with cursors, compared with a model.

The model predicts every outbox row, every log and every poll after each step. Published signals are also collected from
the commit events and checked without the model: their numbers have no gaps, each signal is published once, and in the
order of the outbox unless a row had failed.
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
from restante.core.iso_time import iso_precise
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from restante.delivery.log import log
from restante.delivery.log.log import SignalsPublished
from restante.delivery.log.signals import Signal
from restante.delivery.outbox import outbox
from restante.delivery.outbox.dispatcher import Dispatcher, DispatcherOptions
from restante.delivery.outbox.outbox import OutboxRow
from tests.conftest import ManualClock
from tests.databases import FreshDatabases, FreshPostgres
from tests.defaults import append_all_signals
from tests.delivery.rows import add_device
from tests.models.machines import DatabaseMachine, run_machine
from tests.models.plain_delivery import KEEP, SLACK, Client, Log, Row

DEVICES = (1, 2)
DISPATCHERS = ("d1", "d2", "d3")
LEASE_SECONDS = 30
BACKOFF = Backoff(base_seconds=1, max_seconds=4, attempts_max=3)
LONG_SECONDS = 100_000

INSERT = Query(
    "insert",
    "INSERT INTO device_update_outbox (device_id, event_kind, payload, created_at) "
    "VALUES (:device_id, 'poison', '{', :now_ms)",
)
# Read from the database: PostgreSQL skips the id of a row that was rolled back.
NEWEST = Query("newest", "SELECT MAX(id) AS id FROM device_update_outbox")
LOG = Query("log", "SELECT ms, n, type, ts_ms, ref FROM device_update_log WHERE device_id = :device_id ORDER BY ms, n")


class ChangeFailed(Exception):
    """The change that enqueued a signal failed."""


class Delivery(DatabaseMachine):
    clients = Bundle("clients")
    devices = st.sampled_from(DEVICES)
    dispatchers = st.sampled_from(DISPATCHERS)

    def __init__(self) -> None:
        super().__init__()
        self.slack, log.TRIM_SLACK = log.TRIM_SLACK, SLACK
        self.clock = ManualClock()
        self.database = Database(self.fresh.new(self.clock))
        assert tuple(self.database.write_now(add_device) for _ in DEVICES) == DEVICES
        self.database.on_commit(self.record_published)
        self.loop = asyncio.new_event_loop()
        options = DispatcherOptions(batch=4, lease_seconds=LEASE_SECONDS, backoff=BACKOFF)
        self.dispatcher_of = {name: Dispatcher(self.database, options, self.append, name) for name in DISPATCHERS}
        self.rows: dict[int, Row] = {}
        self.logs = {device: Log() for device in DEVICES}
        self.unreachable: set[int] = set()
        self.committed: list[int] = []
        self.row_of: dict[int, int] = {}
        self.ever_failed: set[int] = set()
        self.published: dict[int, list[tuple[Position, int]]] = {device: [] for device in DEVICES}

    def teardown(self) -> None:
        log.TRIM_SLACK = self.slack
        self.database.close()
        self.loop.close()

    # Between outbox and log, and commit events.

    def append(self, conn: Connection, signals: Mapping[int, list[Signal]]) -> None:
        append_all_signals(conn, signals, KEEP)
        if self.unreachable & signals.keys():
            raise ConnectionError("the log is unreachable")

    def record_published(self, events: list[object]) -> None:
        for event in events:
            if isinstance(event, SignalsPublished):
                entries = [(entry.position, json.loads(entry.json)["ref"]["about"]) for entry in event.entries]
                self.published[event.device_id] += entries

    # Rules: changes and their signals.

    def next_about(self) -> int:
        return len(self.committed) + 1

    def record_row(self, device: int, about: int | None) -> None:
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
            self.record_row(device, self.next_about())

    @rule(device=devices)
    def enqueue_and_roll_back(self, device: int) -> None:
        def change(conn: Connection) -> None:
            outbox.enqueue(conn, device, self.signal("x"))
            raise ChangeFailed()

        with pytest.raises(ChangeFailed):
            self.database.write_now(change)

    @rule(device=devices)
    def enqueue_invalid_payload(self, device: int) -> None:
        self.database.write_now(lambda conn: conn.run(INSERT, device_id=device, now_ms=conn.now_ms))
        self.record_row(device, None)

    @rule(device=devices, type=st.sampled_from("xy"))
    def emit_directly(self, device: int, type: str) -> None:
        about = self.next_about()
        signal = self.signal(type)

        def emit() -> None:
            self.database.write_now(outbox.emit_directly, device, signal, self.append)

        if any(row.device == device and row.status == "PENDING" for row in self.rows.values()):
            emit()
            self.record_row(device, about)
        elif device in self.unreachable:
            with pytest.raises(ConnectionError):
                emit()
        else:
            emit()
            self.committed.append(about)
            self.logs[device].append([about], self.clock.now_ms)

    # Rules: dispatchers.

    def claimable(self, batch: int) -> list[Row]:
        """On PostgreSQL a claim first searches only the oldest rows, and the others only if it finds nothing."""
        pending = self.pending()
        for batches in outbox.SCAN_BATCHES if isinstance(self.fresh, FreshPostgres) else ():
            if due := self.due(pending[: batches * batch])[:batch]:
                return due
        return self.due(pending)[:batch]

    def due(self, rows: list[Row]) -> list[Row]:
        blocked: set[int] = set()
        due = []
        for row in rows:
            if row.waits(self.clock.now_ms):
                blocked.add(row.device)
            elif row.device not in blocked:
                due.append(row)
        return due

    def pending(self) -> list[Row]:
        return [row for row in self.rows.values() if row.status == "PENDING"]

    def deliverable(self, name: str) -> list[Row]:
        """The rows that a dispatcher may deliver: leased to it, with all older rows of the device."""
        blocked: set[int] = set()
        rows = []
        for row in self.pending():
            lease = row.lock_expires_at
            if row.claimed_by == name and lease is not None and lease > self.clock.now_ms:
                if row.device not in blocked:
                    rows.append(row)
            else:
                blocked.add(row.device)
        return rows

    def record_claim(self, name: str, rows: list[Row]) -> None:
        for row in rows:
            row.claimed_by = name
            row.lock_expires_at = self.clock.now_ms + LEASE_SECONDS * 1000

    @rule(name=dispatchers, batch=st.integers(1, 5))
    def claim_without_delivery(self, name: str, batch: int) -> None:
        due = self.claimable(batch)
        assert self.database.write_now(outbox.claim, name, LEASE_SECONDS, batch) == len(due)
        self.record_claim(name, due)

    def some_holder(self, data: st.DataObject) -> str:
        """One of the dispatchers, preferably one that holds rows or held them until its lease expired."""
        holding = sorted({row.claimed_by for row in self.pending() if row.claimed_by})
        return data.draw(st.sampled_from([*holding, *holding, *holding, *DISPATCHERS]))

    @rule(data=st.data())
    def deliver_claimed(self, data: st.DataObject) -> None:
        name = self.some_holder(data)
        held = self.deliverable(name)
        if self.is_any_unreachable(held):
            with pytest.raises(ConnectionError):
                self.database.write_now(outbox.deliver_leased, name, self.append)
        else:
            self.database.write_now(outbox.deliver_leased, name, self.append)
            self.record_batch(held)

    @rule(data=st.data())
    def deliver_one_by_one(self, data: st.DataObject) -> None:
        name = self.some_holder(data)
        held = self.deliverable(name)
        self.loop.run_until_complete(self.dispatcher_of[name]._deliver_one_by_one())
        self.record_one_by_one(held)

    @rule(name=dispatchers)
    def run_once(self, name: str) -> None:
        due = self.claimable(4)
        self.loop.run_until_complete(self.dispatcher_of[name].run_once())
        self.record_claim(name, due)
        held = self.deliverable(name)
        if not due:
            return
        if self.is_any_unreachable(held):
            self.record_one_by_one(held)
        else:
            self.record_batch(held)

    @rule(data=st.data())
    def fail_without_releasing_the_rest(self, data: st.DataObject) -> None:
        name = self.some_holder(data)
        held = self.deliverable(name)
        if not held or held[0].about is None:
            return
        first = self.database.write_now(outbox.leased_rows, name)[0]
        assert first.id == held[0].id
        self.database.write_now(outbox.schedule_retry, name, first, "unreachable", BACKOFF)
        self.record_retry(held[0])

    @rule(name=dispatchers, attempts=st.integers(0, BACKOFF.attempts_max))
    def retry_without_lease(self, name: str, attempts: int) -> None:
        """A dispatcher without a lease tries to reschedule rows that another one holds or has delivered."""
        for row in self.rows.values():
            if row.claimed_by != name:
                late = outbox.LeasedRow(row.id, row.device, "", attempts)
                self.database.write_now(outbox.schedule_retry, name, late, "late", BACKOFF)
                self.database.write_now(outbox.release, name, [row.id])

    def is_any_unreachable(self, rows: list[Row]) -> bool:
        return any(row.device in self.unreachable for row in rows if row.about is not None)

    def record_batch(self, rows: list[Row]) -> None:
        for row in rows:
            self.record_end(row)
        for device in DEVICES:
            abouts = [row.about for row in rows if row.device == device and row.about is not None]
            self.logs[device].append(abouts, self.clock.now_ms)

    def record_one_by_one(self, rows: list[Row]) -> None:
        blocked: set[int] = set()
        for row in rows:
            if row.device in blocked:
                row.claimed_by = row.lock_expires_at = None
            elif row.about is not None and row.device in self.unreachable:
                blocked.add(row.device)
                self.record_retry(row)
            else:
                self.record_end(row)
                if row.about is not None:
                    self.logs[row.device].append([row.about], self.clock.now_ms)

    def record_end(self, row: Row) -> None:
        """Delivered, or failed for good."""
        row.lock_expires_at = row.next_attempt_at = None
        if row.about is None:
            row.status = "FAILED"
            row.attempts += 1
            self.ever_failed.add(row.id)
        else:
            row.status = "DELIVERED"

    def record_retry(self, row: Row) -> None:
        row.attempts += 1
        row.lock_expires_at = row.next_attempt_at = None
        delay_seconds = BACKOFF.delay_seconds(row.attempts)
        if delay_seconds is None:
            row.status = "FAILED"
            self.ever_failed.add(row.id)
        else:
            row.claimed_by = None
            row.next_attempt_at = self.clock.now_ms + int(delay_seconds * 1000)

    # Rules: time, failures and operators.

    @rule(device=devices)
    def toggle_reachability(self, device: int) -> None:
        self.unreachable ^= {device}

    @rule(seconds=st.sampled_from((0.001, 0.5, 1, 2, 5, 31)))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(seconds=st.sampled_from((0.001, 1, 40)))
    def clock_goes_back(self, seconds: float) -> None:
        self.clock.advance(-seconds)

    @rule(data=st.data())
    def operator_retries(self, data: st.DataObject) -> None:
        failed = [row for row in self.rows.values() if row.status == "FAILED"]
        some = data.draw(st.none() | st.lists(st.sampled_from(sorted(self.rows) or [99]), max_size=3, unique=True))
        reset = [row for row in failed if some is None or row.id in some]
        assert self.database.write_now(outbox.retry, some) == len(reset)
        for row in reset:
            self.rows[row.id] = Row(row.id, row.device, row.about)

    # Rules: clients.

    @rule(target=clients, device=devices, cursor=st.sampled_from((None, START)))
    def add_client(self, device: int, cursor: Position | None) -> Client:
        return Client(device, cursor)

    @rule(client=clients, limit=st.integers(1, 4))
    def client_polls(self, client: Client, limit: int) -> None:
        expected = self.logs[client.device]
        cursor = client.cursor
        if cursor is not None and expected.is_expired(cursor):
            self.check_expired(client.device, cursor)
            client.cursor = None
            return
        reading = self.database.read_now(log.read, client.device, cursor, limit)
        assert reading.head == expected.head
        entries = [(entry.position, json.loads(entry.json)["ref"]["about"]) for entry in reading.entries]
        if cursor is None:
            assert entries == expected.retained[-limit:]
        else:
            # A client reads the published sequence up to its cursor, without repetitions or gaps.
            assert entries == [entry for entry in expected.published if entry[0] > cursor][:limit]
        client.cursor = entries[-1][0] if entries else expected.newest

    @rule(device=devices, ms=st.integers(-3, 3), n=st.integers(0, 12), data=st.data())
    def poll_with_any_cursor(self, device: int, ms: int, n: int, data: st.DataObject) -> None:
        expected = self.logs[device]
        near = data.draw(st.sampled_from([position for position, _ in expected.published] or [START]))
        cursor = Position(max(0, near.ms + ms), n)
        if expected.is_expired(cursor):
            self.check_expired(device, cursor)
        else:
            reading = self.database.read_now(log.read, device, cursor, 100)
            entries = [entry.position for entry in reading.entries]
            assert entries == [position for position, _ in expected.published if position > cursor]

    def check_expired(self, device: int, cursor: Position) -> None:
        expected = self.logs[device]
        with pytest.raises(CursorExpired) as expired:
            self.database.read_now(log.read, device, cursor, 100)
        assert expired.value.params == {
            "action": "full_resync",
            "reason": "cursor_unknown" if cursor > expected.newest else "cursor_trimmed",
            "reset_cursor": str(expected.newest),
            "earliest_retained_id": str(expected.head.earliest),
        }

    # Invariants.

    @invariant()
    def outbox_equals_the_model(self) -> None:
        found = self.database.read_now(outbox.list_rows, None, None, 1000)
        assert [_as_model(row) for row in reversed(found)] == [
            (
                row.id,
                row.device,
                row.status,
                row.attempts,
                iso_precise(row.next_attempt_at),
                row.claimed_by,
                iso_precise(row.lock_expires_at),
            )
            for row in self.rows.values()
        ]

    @invariant()
    def logs_and_heads_equal_the_model(self) -> None:
        for device, expected in self.logs.items():
            rows = self.database.read_now(log_rows, device)
            found = [(Position(row["ms"], row["n"]), json.loads(row["ref"])["about"]) for row in rows]
            assert found == expected.retained
            assert self.database.read_now(log.read_head, device) == expected.head
            assert len({(row["type"], row["ts_ms"]) for row in rows}) == len(rows)
            assert len(rows) <= KEEP + SLACK

    @invariant()
    def signals_are_published_once_and_in_order(self) -> None:
        for device, entries in self.published.items():
            assert [position.n for position, _ in entries] == list(range(1, len(entries) + 1))
            assert [position.ms for position, _ in entries] == sorted(position.ms for position, _ in entries)
            abouts = [about for _, about in entries]
            assert len(set(abouts)) == len(abouts)
            ids = [self.row_of[about] for about in abouts if about in self.row_of]
            never_failed = [row_id for row_id in ids if row_id not in self.ever_failed]
            assert never_failed == sorted(never_failed), device

    @rule()
    def deliver_everything(self) -> None:
        """When all devices are reachable and enough time passes, every committed signal is published or failed."""
        self.unreachable.clear()
        while self.pending():
            before = len(self.pending())
            self.clock.advance(LONG_SECONDS)
            self.run_once("d1")
            assert len(self.pending()) < before
        published = {about for entries in self.published.values() for _, about in entries}
        failed = {row.about for row in self.rows.values() if row.status == "FAILED"}
        assert published == set(self.committed) - failed


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
    run_machine(Delivery, fresh, examples=100, steps=50)
