"""The transactional outbox: a change and the signal that tells about it are written together or not at all.

    business change + enqueue ─┐ one transaction
                               ▼
    PENDING ──claim──▶ leased ──deliver──▶ DELIVERED   (published and marked in one transaction: exactly once)
       ▲                 │ ╲
       └──retry_later────┘  ╲──given up──▶ FAILED ──reset by an operator──▶ PENDING

Must always hold: a device's rows are published in id order. One that waits for its retry, or is in another
dispatcher's hands, holds back the later rows of its device and of no other; one that FAILED holds back none.
Rows are found by status, never by "id greater than the last one seen": a lower id may be committed later.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from restante.core.backoff import Backoff
from restante.core.errors import RestanteError
from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.delivery.signals import Signal, checked_signal

SQL = queries_beside(__file__)
FAILURE_REASON_CHARACTERS_MAX = 255
# How many of the oldest rows a claim looks at, where it has to be told: so many batches, more where all those wait.
LOOKED_AT_BATCHES = (3, 30)
LOOKED_AT_MAX = 2**62
OWN_SOURCE = "server"

_encode = msgspec.json.Encoder().encode

# Publishes signals to devices, to each in its order.
Append = Callable[[Connection, Mapping[int, list[Signal]]], object]


class Enqueued(NamedTuple):
    """Announced when there is something to dispatch."""


class OutboxRow(msgspec.Struct):
    id: int
    device_id: int
    event_kind: str
    payload: str
    status: str
    attempts: int
    next_attempt_at: int | None
    claimed_by: str | None
    claimed_at: int | None
    lock_expires_at: int | None
    failure_reason: str | None
    created_at: int
    delivered_at: int | None
    # Whose database the row is in: the server's own, or a configured one by its name.
    source: str = OWN_SOURCE


class HeldRow(NamedTuple):
    id: int
    device_id: int
    payload: str
    attempts: int


@dataclass(slots=True)
class Outcome:
    """What became of the rows of one pass."""

    delivered: int = 0
    failed: int = 0
    retried: int = 0

    def add(self, other: "Outcome") -> None:
        self.delivered += other.delivered
        self.failed += other.failed
        self.retried += other.retried


class Undeliverable(Exception):
    """The row can never be published: its payload is no signal, or there is no such device."""


def enqueue(conn: Connection, device_id: int, signal: Signal) -> None:
    conn.run(
        SQL.enqueue,
        device_id=device_id,
        event_kind=signal.type,
        payload=signal.payload(),
        now_ms=conn.now_ms,
    )
    conn.announce(Enqueued())


def emit_directly(conn: Connection, device_id: int, signal: Signal, append: Append) -> None:
    """Write to the log without the outbox, unless the device has rows waiting there: none is overtaken."""
    if conn.one(SQL.has_pending, device_id=device_id) is None:
        append(conn, {device_id: [signal]})
    else:
        enqueue(conn, device_id, signal)


def claim(conn: Connection, dispatcher: str, lease_seconds: float, batch: int) -> int:
    """Lease up to `batch` rows to a dispatcher; how many.

    The oldest rows are looked at, and more only if none of those can be claimed.
    """
    # One dispatcher after another: rows that another is just claiming hold back the later ones of their devices.
    conn.lock("outbox", 0)
    wanted = {
        "claimed_by": dispatcher,
        "now_ms": conn.now_ms,
        "lock_expires_at": conn.now_ms + int(lease_seconds * 1000),
        "batch": batch,
    }
    for batches in LOOKED_AT_BATCHES:
        claimed = conn.run(SQL.claim, **wanted, looked_at=batches * batch)
        if claimed or conn.one(SQL.is_more, looked_at=batches * batch) is None:
            return claimed
    return conn.run(SQL.claim, **wanted, looked_at=LOOKED_AT_MAX)


def held_by(conn: Connection, dispatcher: str) -> list[HeldRow]:
    """What it holds, and goes on holding until the transaction ends."""
    return [HeldRow(**row) for row in conn.all(SQL.held, claimed_by=dispatcher, now_ms=conn.now_ms)]


def deliver_held(conn: Connection, dispatcher: str, append: Append) -> Outcome:
    """Publish every row the dispatcher still holds and mark it, all in this transaction.

    Raises what `append` raises; then nothing has happened, and `deliver_row`, row by row, finds out which one it was.
    """
    outcome = Outcome()
    by_device: dict[int, list[Signal]] = {}
    delivered: list[int] = []
    held = held_by(conn, dispatcher)
    for row, signal in zip(held, signals_of(conn, held), strict=True):
        if isinstance(signal, Undeliverable):
            outcome.add(give_up(conn, dispatcher, row, str(signal)))
        else:
            by_device.setdefault(row.device_id, []).append(signal)
            delivered.append(row.id)
    if delivered:
        append(conn, by_device)
        conn.run(SQL.mark_delivered, ids=_encode(delivered).decode(), now_ms=conn.now_ms)
    outcome.delivered = len(delivered)
    return outcome


def deliver_row(conn: Connection, dispatcher: str, row_id: int, append: Append) -> Outcome:
    """Publish one row, if the dispatcher still holds it."""
    row = next((row for row in held_by(conn, dispatcher) if row.id == row_id), None)
    if row is None:
        return Outcome()
    (signal,) = signals_of(conn, [row])
    if isinstance(signal, Undeliverable):
        return give_up(conn, dispatcher, row, str(signal))
    append(conn, {row.device_id: [signal]})
    conn.run(SQL.mark_delivered, ids=_encode([row.id]).decode(), now_ms=conn.now_ms)
    return Outcome(delivered=1)


def put_back(conn: Connection, dispatcher: str, row: HeldRow, reason: str, backoff: Backoff) -> Outcome:
    """Record a failed attempt: wait for the next one, or give the row up when it was the last.

    A row that has become another dispatcher's in the meantime is that one's business alone.
    """
    delay_seconds = backoff.delay_seconds(row.attempts + 1)
    if delay_seconds is None:
        return give_up(conn, dispatcher, row, reason)
    retried = conn.run(
        SQL.retry_later,
        id=row.id,
        claimed_by=dispatcher,
        next_attempt_at=conn.now_ms + int(delay_seconds * 1000),
        failure_reason=_as_kept(reason),
    )
    return Outcome(retried=retried)


def release(conn: Connection, dispatcher: str, row_ids: list[int]) -> None:
    conn.run_many(SQL.release, [{"id": row_id, "claimed_by": dispatcher} for row_id in row_ids])


def release_all(conn: Connection) -> int:
    """Give back what a dispatcher that died was holding; how many rows. Only for who knows that none is alive."""
    return conn.run(SQL.release_all)


def list_rows(
    conn: Connection,
    status: str | None,
    device_id: int | None,
    limit: int,
    after: int = 0,
    source: str = OWN_SOURCE,
) -> list[OutboxRow]:
    rows = conn.all(SQL.list_rows, status=status, device_id=device_id, limit=limit, after=after)
    return [OutboxRow(**row, source=source) for row in rows]


def get_row(conn: Connection, row_id: int, source: str = OWN_SOURCE) -> OutboxRow | None:
    row = conn.one(SQL.get_row, id=row_id)
    return None if row is None else OutboxRow(**row, source=source)


def retry(conn: Connection, row_ids: list[int] | None) -> int:
    """Give FAILED rows (all of them for None) a new start; how many there were."""
    if row_ids is None:
        row_ids = [row["id"] for row in conn.all(SQL.failed_ids)]
    reset = sum(conn.run(SQL.reset, id=row_id) for row_id in row_ids)
    if reset:
        conn.announce(Enqueued())
    return reset


def counts(conn: Connection) -> dict[str, int | None]:
    """How many rows are pending and failed, and how old the oldest pending one is."""
    row = conn.one(SQL.counts, now_ms=conn.now_ms)
    return dict(row) if row is not None else {}


def seconds_until_due(conn: Connection) -> float | None:
    """How long until a waiting row can be claimed; None where none waits."""
    row = conn.one(SQL.next_due)
    due_at: Any = row["due_at"] if row is not None else None
    return None if due_at is None else max(0.0, (due_at - conn.now_ms) / 1000)


def evict_delivered(conn: Connection, older_than_seconds: float, limit: int) -> int:
    return conn.run(SQL.evict_delivered, before_ms=conn.now_ms - int(older_than_seconds * 1000), limit=limit)


def signals_of(conn: Connection, rows: Sequence[HeldRow]) -> list[Signal | Undeliverable]:
    """The signal of each row, or why it can never be published."""
    wanted = _encode(list({row.device_id for row in rows})).decode()
    there = {device_id for (device_id,) in conn.values(SQL.devices_there, devices=wanted)} if rows else set()
    return [_signal_of(row, is_there=row.device_id in there) for row in rows]


def _signal_of(row: HeldRow, *, is_there: bool) -> Signal | Undeliverable:
    try:
        signal = msgspec.json.decode(row.payload, type=Signal)
        signal = checked_signal(signal.type, signal.ts_ms, signal.ref)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, RestanteError) as error:
        return Undeliverable(f"the payload is not a signal: {error}")
    return signal if is_there else Undeliverable(f"there is no device {row.device_id}")


def give_up(conn: Connection, dispatcher: str, row: HeldRow, reason: str) -> Outcome:
    failed = conn.run(SQL.mark_failed, id=row.id, claimed_by=dispatcher, failure_reason=_as_kept(reason))
    return Outcome(failed=failed)


def _as_kept(reason: str) -> str:
    """The reason as the table takes it, whatever bytes an error message may have carried along."""
    return reason[:FAILURE_REASON_CHARACTERS_MAX].encode(errors="replace").decode()
