"""The transactional outbox: a change and its signal are committed together or not at all.

    business change + enqueue ─┐ one transaction
                               ▼
    PENDING ──claim──▶ leased ──deliver──▶ DELIVERED   (published and marked in one transaction: exactly once)
       ▲                 │ ╲
       └──retry later────┘  ╲──last attempt──▶ FAILED ──reset by an operator──▶ PENDING

Invariants: the rows of a device are published in id order. A row that waits for its retry, or is leased by another
dispatcher, holds back the later rows of its own device only; a FAILED row holds back none. Rows are found by status,
never by "id greater than the last one seen": a lower id may be committed later.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec

from restante.core.backoff import Backoff
from restante.core.errors import RestanteError
from restante.core.iso_time import Timestamp, iso_precise
from restante.database.commit_events import ClusterMessage
from restante.database.connection import Connection, Row
from restante.database.lists import filtered_list
from restante.database.lists.filtered_list import Condition, FilteredList, StateCounting, between, equal
from restante.database.paging import Page, PageRequest
from restante.database.queries import queries_beside
from restante.delivery.log.signals import Signal, check_signal

SQL = queries_beside(__file__)
FAILURE_REASON_CHARACTERS_MAX = 255
# How many of the oldest rows a claim scans (PostgreSQL only), in batches: first few, then more if none can be claimed.
SCAN_BATCHES = (3, 30)
SCAN_ALL = 2**62
OWN_SOURCE = "server"
STATUSES = ("PENDING", "DELIVERED", "FAILED")
_COLUMNS = (
    "id, device_id, event_kind, payload, status, attempts, next_attempt_at, claimed_by, claimed_at, lock_expires_at,"
    " failure_reason, created_at, delivered_at"
)

_TIMES = ("next_attempt_at", "claimed_at", "lock_expires_at", "created_at", "delivered_at")

_encode = msgspec.json.Encoder().encode

# Publishes signals to several devices, to each in order.
Append = Callable[[Connection, Mapping[int, list[Signal]]], object]


class Enqueued(ClusterMessage, frozen=True, tag="outbox"):
    """The outbox has rows to dispatch."""

    work_role: ClassVar[str] = "dispatcher"


class OutboxRow(msgspec.Struct):
    id: int
    device_id: int
    event_kind: str
    payload: str
    status: str
    attempts: int
    next_attempt_at: Timestamp | None
    claimed_by: str | None
    claimed_at: Timestamp | None
    lock_expires_at: Timestamp | None
    failure_reason: str | None
    created_at: Timestamp
    delivered_at: Timestamp | None
    # The database of the row: the server's own, or an external one by its name.
    source: str = OWN_SOURCE


@dataclass(frozen=True, slots=True)
class LeasedRow:
    id: int
    device_id: int
    payload: str
    attempts: int


@dataclass(slots=True)
class Outcome:
    """How many rows of one pass were delivered, failed, or wait for a retry."""

    delivered: int = 0
    failed: int = 0
    retried: int = 0

    def add(self, other: "Outcome") -> None:
        self.delivered += other.delivered
        self.failed += other.failed
        self.retried += other.retried


class Undeliverable(Exception):
    """The row can never be published: its payload is not a signal, or its device does not exist."""


def enqueue(conn: Connection, device_id: int, signal: Signal) -> None:
    conn.run(
        SQL.enqueue,
        device_id=device_id,
        event_kind=signal.type,
        payload=signal.payload(),
        now_ms=conn.now_ms,
    )
    conn.add_commit_event(Enqueued())


def enqueue_all(conn: Connection, signals: Mapping[int, Signal]) -> None:
    """Add a signal for each device, in this order."""
    rows, encoded, payload = [], None, ""
    for device_id, signal in signals.items():
        # Mostly one signal for all devices: it is encoded once.
        if signal is not encoded:
            encoded, payload = signal, signal.payload()
        rows.append((device_id, signal.type, payload, conn.now_ms))
    if rows:
        conn.run_rows(SQL.enqueue, rows)
        conn.add_commit_event(Enqueued())


def emit_directly(conn: Connection, device_id: int, signal: Signal, append: Append) -> None:
    """Publish to the log without the outbox, unless the device has pending rows there, which must come first."""
    if conn.one(SQL.has_pending, device_id=device_id) is None:
        append(conn, {device_id: [signal]})
    else:
        enqueue(conn, device_id, signal)


def claim(conn: Connection, dispatcher: str, lease_seconds: float, batch: int) -> int:
    """Lease up to `batch` rows to a dispatcher. Returns how many.

    The oldest rows are scanned first, and more only if none of those can be claimed.
    """
    # One claim at a time: it must see the rows that another dispatcher is claiming, as those hold back later ones.
    conn.lock("outbox", 0)
    parameters = {
        "claimed_by": dispatcher,
        "now_ms": conn.now_ms,
        "lock_expires_at": conn.now_ms + int(lease_seconds * 1000),
        "batch": batch,
    }
    for batches in SCAN_BATCHES:
        claimed = conn.run(SQL.claim, **parameters, scan_rows=batches * batch)
        if claimed or conn.one(SQL.has_more, scan_rows=batches * batch) is None:
            return claimed
    return conn.run(SQL.claim, **parameters, scan_rows=SCAN_ALL)


def leased_rows(conn: Connection, dispatcher: str) -> list[LeasedRow]:
    """The rows that the dispatcher has leased, locked until the transaction ends."""
    return [LeasedRow(**row) for row in conn.all(SQL.leased, claimed_by=dispatcher, now_ms=conn.now_ms)]


def deliver_leased(conn: Connection, dispatcher: str, append: Append) -> Outcome:
    """Publish and mark every row that the dispatcher still has leased, in this transaction.

    Errors of `append` are raised and roll everything back; `deliver_row`, row by row, then finds the row at fault.
    """
    outcome = Outcome()
    by_device: dict[int, list[Signal]] = {}
    delivered: list[int] = []
    rows = leased_rows(conn, dispatcher)
    for row, signal in zip(rows, signals_of(conn, rows), strict=True):
        if isinstance(signal, Undeliverable):
            outcome.add(mark_failed(conn, dispatcher, row, str(signal)))
        else:
            by_device.setdefault(row.device_id, []).append(signal)
            delivered.append(row.id)
    if delivered:
        append(conn, by_device)
        conn.run(SQL.mark_delivered, ids=_encode(delivered).decode(), now_ms=conn.now_ms)
    outcome.delivered = len(delivered)
    return outcome


def deliver_row(conn: Connection, dispatcher: str, row_id: int, append: Append) -> Outcome:
    """Publish one row, if the dispatcher still has its lease."""
    row = next((row for row in leased_rows(conn, dispatcher) if row.id == row_id), None)
    if row is None:
        return Outcome()
    (signal,) = signals_of(conn, [row])
    if isinstance(signal, Undeliverable):
        return mark_failed(conn, dispatcher, row, str(signal))
    append(conn, {row.device_id: [signal]})
    conn.run(SQL.mark_delivered, ids=_encode([row.id]).decode(), now_ms=conn.now_ms)
    return Outcome(delivered=1)


def schedule_retry(conn: Connection, dispatcher: str, row: LeasedRow, reason: str, backoff: Backoff) -> Outcome:
    """Record a failed attempt: schedule the next one, or mark the row failed if it was the last.

    A row that another dispatcher has leased in the meantime is not changed.
    """
    delay_seconds = backoff.delay_seconds(row.attempts + 1)
    if delay_seconds is None:
        return mark_failed(conn, dispatcher, row, reason)
    retried = conn.run(
        SQL.retry_later,
        id=row.id,
        claimed_by=dispatcher,
        next_attempt_at=conn.now_ms + int(delay_seconds * 1000),
        failure_reason=_storable(reason),
    )
    return Outcome(retried=retried)


def release(conn: Connection, dispatcher: str, row_ids: list[int]) -> None:
    conn.run_many(SQL.release, [{"id": row_id, "claimed_by": dispatcher} for row_id in row_ids])


def release_all(conn: Connection) -> int:
    """Release all leases and return their number. Only while no dispatcher runs: leases of a dead one end at once."""
    return conn.run(SQL.release_all)


def list_rows(
    conn: Connection,
    status: str | None,
    device_id: int | None,
    limit: int,
    after: int = 0,
    source: str = OWN_SOURCE,
    users: str | None = None,
) -> list[OutboxRow]:
    """Rows, newest first. `users`: a JSON list, for the server's own outbox; only rows for devices of these users."""
    filters = {"status": status, "device_id": device_id, "limit": limit, "after": after}
    rows = (
        conn.all(SQL.list_rows, **filters)
        if users is None
        else conn.all(SQL.list_rows_of_users, **filters, users=users)
    )
    return [_view(row, source) for row in rows]


@dataclass(frozen=True, slots=True)
class RowFilter:
    """None in a field: any value. `since_ms` <= creation < `until_ms`. `users`: a JSON list, for the server's own
    outbox: only rows for devices of these users."""

    status: str | None = None
    device_id: int | None = None
    event_kind: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    users: str | None = None


def list_page(conn: Connection, filters: RowFilter, page: PageRequest, source: str = OWN_SOURCE) -> Page[OutboxRow]:
    """A page of the rows that match, newest first."""
    return filtered_list.read(conn, filtered(filters), page, lambda row: _view(row, source))


def counting(filters: RowFilter) -> StateCounting:
    """Counts the rows that match, by status."""
    return StateCounting(lambda _conn: filtered(filters), "status", STATUSES)


def filtered(filters: RowFilter) -> FilteredList:
    """The list of the rows that match. Pending and failed rows have indexes of their own."""
    # As literals: only then do the partial indexes serve them.
    has_index = filters.status in ("PENDING", "FAILED")
    of_status = (Condition(f"status = '{filters.status}'"),) if has_index else equal("status", filters.status)
    owned = "SELECT d.id FROM user_devices AS d WHERE d.user_id IN (SELECT value FROM json_each(:users))"
    return FilteredList(
        _COLUMNS,
        "device_update_outbox",
        indexed=of_status if has_index else (),
        rest=(
            *(() if has_index else of_status),
            *equal("device_id", filters.device_id),
            *equal("event_kind", filters.event_kind),
            *between("created_at", filters.since_ms, filters.until_ms),
            *(() if filters.users is None else (Condition(f"device_id IN ({owned})", {"users": filters.users}),)),
        ),
    )


def get_row(conn: Connection, row_id: int, source: str = OWN_SOURCE, users: str | None = None) -> OutboxRow | None:
    """The row; None if it is missing, or for a device of a user who is not in the list."""
    row = conn.one(SQL.get_row, id=row_id)
    if row is not None and users is not None and not conn.one(SQL.is_of_users, device_id=row["device_id"], users=users):
        return None
    return None if row is None else _view(row, source)


def retry(conn: Connection, row_ids: list[int] | None, users: str | None = None) -> int:
    """Reset FAILED rows (all of them for None, or all for devices of these users) to PENDING. Returns their number."""
    if row_ids is None:
        failed = conn.all(SQL.failed_ids) if users is None else conn.all(SQL.failed_ids_of_users, users=users)
        row_ids = [row["id"] for row in failed]
    reset = sum(conn.run(SQL.reset, id=row_id) for row_id in row_ids)
    if reset:
        conn.add_commit_event(Enqueued())
    return reset


def counts(conn: Connection, users: str | None = None) -> dict[str, int | None]:
    """The numbers of pending and failed rows, and the age of the oldest pending one; of all devices, or of those of
    these users."""
    if users is None:
        row = conn.one(SQL.counts, now_ms=conn.now_ms)
    else:
        row = conn.one(SQL.counts_of_users, now_ms=conn.now_ms, users=users)
    return dict(row) if row is not None else {}


def seconds_until_due(conn: Connection) -> float | None:
    """How long until a pending row can be claimed; None if there is none."""
    row = conn.one(SQL.next_due)
    due_at: Any = row["due_at"] if row is not None else None
    return None if due_at is None else max(0.0, (due_at - conn.now_ms) / 1000)


def evict_delivered(conn: Connection, older_than_seconds: float, limit: int) -> int:
    return conn.run(SQL.evict_delivered, before_ms=conn.now_ms - int(older_than_seconds * 1000), limit=limit)


def signals_of(conn: Connection, rows: Sequence[LeasedRow]) -> list[Signal | Undeliverable]:
    """The signal of each row, or the reason why it can never be published."""
    device_ids = _encode(list({row.device_id for row in rows})).decode()
    known = {device_id for (device_id,) in conn.values(SQL.known_devices, devices=device_ids)} if rows else set()
    return [_signal_of(row, is_known=row.device_id in known) for row in rows]


def _signal_of(row: LeasedRow, *, is_known: bool) -> Signal | Undeliverable:
    try:
        signal = msgspec.json.decode(row.payload, type=Signal)
        signal = check_signal(signal.type, signal.ts_ms, signal.ref)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, RestanteError) as error:
        return Undeliverable(f"the payload is not a signal: {error}")
    return signal if is_known else Undeliverable(f"there is no device {row.device_id}")


def mark_failed(conn: Connection, dispatcher: str, row: LeasedRow, reason: str) -> Outcome:
    failed = conn.run(SQL.mark_failed, id=row.id, claimed_by=dispatcher, failure_reason=_storable(reason))
    return Outcome(failed=failed)


def _view(row: Row, source: str) -> OutboxRow:
    return OutboxRow(**{**row, **{name: iso_precise(row[name]) for name in _TIMES}}, source=source)


def _storable(reason: str) -> str:
    """The reason as the table can store it: short, and without the invalid characters of some error messages."""
    return reason[:FAILURE_REASON_CHARACTERS_MAX].encode(errors="replace").decode()
