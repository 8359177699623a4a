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
from restante.delivery import free_times
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


class NewRow(NamedTuple):
    device_id: int
    ms: int
    n: int
    type: str
    ts_ms: int
    ref: str


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
    rows = []
    for signal in signals:
        position = head.next_position(conn.now_ms)
        rows.append(NewRow(device_id, *position, signal.type, signal.ts_ms, _encode(signal.ref).decode()))
        head = Head(position, head.trimmed, head.earliest if head.earliest.n else position)
    entries = tuple(_new_entry(row) for row in _insert(conn, rows))
    head = _trim(conn, device_id, head, keep)
    conn.run_rows(SQL.save_head, [(device_id, *head.newest, *head.trimmed, head.earliest.ms)])
    published = Published(device_id, before.newest, head, entries)
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


def _insert(conn: Connection, rows: list[NewRow]) -> list[NewRow]:
    """Write them, at times at which the device has no signals of their types; as they were written."""
    if len(rows) == 1 and conn.run(SQL.append_if_free, **rows[0]._asdict()):
        # Most of the time there is one, and its time is free.
        return rows
    times = free_times.give(conn, rows[0].device_id, [(row.type, row.ts_ms) for row in rows])
    rows = [row._replace(ts_ms=ts_ms) for row, ts_ms in zip(rows, times, strict=True)]
    conn.run_rows(SQL.append, rows)
    return rows


def _trim(conn: Connection, device_id: int, head: Head, keep: int) -> Head:
    if trim_to(head, keep, TRIM_SLACK) is None:
        return head
    earliest, trimmed = (
        Position(row["ms"], row["n"]) for row in conn.all(SQL.earliest_to_keep, device_id=device_id, keep=keep)
    )
    conn.run(SQL.trim, device_id=device_id, ms=trimmed.ms, n=trimmed.n)
    return Head(head.newest, trimmed, earliest)


def _new_entry(row: NewRow) -> LogEntry:
    return LogEntry(Position(row.ms, row.n), signal_json(row.type, row.ts_ms, row.ref))


def _entry(row: Row) -> LogEntry:
    return LogEntry(Position(row["ms"], row["n"]), signal_json(row["type"], row["ts_ms"], row["ref"]))


def signal_json(type: str, ts_ms: int, ref: str) -> bytes:
    """A signal as devices read it. The ref is JSON already and is not parsed again."""
    return b'{"type":%b,"ts_ms":%d,"ref":%b}' % (_encode(type), ts_ms, ref.encode())
