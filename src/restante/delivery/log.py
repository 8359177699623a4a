"""The log: each device's signals in the order they were published, the last thousand or so of them.

This SQL log is the record. A signal gets its position here and keeps it for ever; whatever stands in front of the log
(a cache, a stream) copies positions and never makes them.

Must always hold: n counts 1, 2, 3 … without gaps for each device, ms never goes back, (type, ts_ms) is unique for each
device, and the head says exactly what the log holds.
"""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from restante.core.cursor import Head, Position, check_cursor, trim_to
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.delivery.signals import Signal

SQL = queries_beside(__file__)

KEEP_SIGNALS = 1000
# Trimming is done a piece at a time: a delete for every publish would double its cost.
TRIM_SLACK = 100

_encode = msgspec.json.Encoder().encode


class LogEntry(NamedTuple):
    """A published signal: where it stands, and its JSON as devices read it."""

    position: Position
    json: bytes


class Published(NamedTuple):
    """Announced after each commit that published: all that a waiting poll needs to answer without reading."""

    device_id: int
    before: Position
    head: Head
    entries: tuple[LogEntry, ...]


class Reading(NamedTuple):
    """What a poll found: the head of the log, and the signals it is to be given."""

    head: Head
    entries: list[LogEntry]


def append(conn: Connection, device_id: int, signals: Iterable[Signal], keep: int = KEEP_SIGNALS) -> Published:
    """Publish signals to a device, in this order."""
    signals = list(signals)
    if not signals:
        unmoved = read_head(conn, device_id)
        return Published(device_id, unmoved.newest, unmoved, ())
    before = _hold_head(conn, device_id)
    head = before
    entries = []
    for signal in signals:
        position = head.next_position(conn.now_ms)
        entries.append(_append_one(conn, device_id, position, signal))
        head = Head(position, head.trimmed, head.earliest if head.earliest.n else position)
    head = _trim(conn, device_id, head, keep)
    conn.run(
        SQL.save_head,
        device_id=device_id,
        newest_ms=head.newest.ms,
        newest_n=head.newest.n,
        trimmed_ms=head.trimmed.ms,
        trimmed_n=head.trimmed.n,
        earliest_ms=head.earliest.ms,
    )
    published = Published(device_id, before.newest, head, tuple(entries))
    conn.announce(published)
    return published


def read_head(conn: Connection, device_id: int) -> Head:
    return _head(conn.one(SQL.head, device_id=device_id))


def _hold_head(conn: Connection, device_id: int) -> Head:
    """The head, which nobody else moves until the transaction ends."""
    row = conn.one(SQL.hold_head, device_id=device_id)
    if row is None:
        # Of several who publish a device's first signal one makes the row, and the others wait for it.
        conn.run(SQL.make_head, device_id=device_id)
        row = conn.one(SQL.hold_head, device_id=device_id)
    return _head(row)


def _head(row: Row | None) -> Head:
    if row is None or not row["newest_n"]:
        return Head()
    trimmed = Position(row["trimmed_ms"], row["trimmed_n"])
    return Head(Position(row["newest_ms"], row["newest_n"]), trimmed, Position(row["earliest_ms"], trimmed.n + 1))


def read(conn: Connection, device_id: int, cursor: Position | None, limit: int) -> Reading:
    """What a poll from the cursor is to be given: what follows it, or the newest batch where there is no cursor."""
    head = read_head(conn, device_id)
    if cursor is None:
        newest = conn.all(SQL.read_newest, device_id=device_id, limit=limit)
        return Reading(head, [_entry(row) for row in reversed(newest)])
    check_cursor(cursor, head)
    if cursor == head.newest:
        return Reading(head, [])
    rows = conn.all(SQL.read_after, device_id=device_id, ms=cursor.ms, n=cursor.n, limit=limit)
    return Reading(head, [_entry(row) for row in rows])


def _append_one(conn: Connection, device_id: int, position: Position, signal: Signal) -> LogEntry:
    ref = _encode(signal.ref).decode()
    ts_ms = signal.ts_ms
    while not conn.run(
        SQL.append,
        device_id=device_id,
        ms=position.ms,
        n=position.n,
        type=signal.type,
        ts_ms=ts_ms,
        ref=ref,
    ):
        free = conn.one(SQL.next_free_ts, device_id=device_id, type=signal.type, ts_ms=ts_ms)
        ts_ms = free["ts_ms"] if free is not None else ts_ms + 1
    return LogEntry(position, signal_json(signal.type, ts_ms, ref))


def _trim(conn: Connection, device_id: int, head: Head, keep: int) -> Head:
    if trim_to(head, keep, TRIM_SLACK) is None:
        return head
    earliest, trimmed = (
        Position(row["ms"], row["n"]) for row in conn.all(SQL.earliest_to_keep, device_id=device_id, keep=keep)
    )
    conn.run(SQL.trim, device_id=device_id, ms=trimmed.ms, n=trimmed.n)
    return Head(head.newest, trimmed, earliest)


def _entry(row: Row) -> LogEntry:
    return LogEntry(Position(row["ms"], row["n"]), signal_json(row["type"], row["ts_ms"], row["ref"]))


def signal_json(type: str, ts_ms: int, ref: str) -> bytes:
    """A signal as devices read it. The ref is JSON already and is not parsed again."""
    return b'{"type":%b,"ts_ms":%d,"ref":%b}' % (_encode(type), ts_ms, ref.encode())
