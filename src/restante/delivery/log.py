"""The log: each device's signals in the order they were published, the last thousand or so of them.

This SQL log is the record. A signal gets its position here and keeps it for ever; whatever stands in front of the log
(a cache, a stream) copies positions and never makes them.

Must always hold: n counts 1, 2, 3 … without gaps for each device, ms never goes back, (type, ts_ms) is unique for each
device, and the head says exactly what the log holds.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, overload

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


class Run(Sequence[LogEntry]):
    """Entries as some other place keeps them: positions written out, and the signals' JSON. Most of those who have them
    want the JSON alone, and the last position; making all the others takes longer than all else about a poll."""

    __slots__ = ("jsons", "written")

    def __init__(self, written: list[bytes], jsons: list[bytes]) -> None:
        self.written = written
        self.jsons = jsons

    def __len__(self) -> int:
        return len(self.jsons)

    @overload
    def __getitem__(self, index: int) -> LogEntry: ...
    @overload
    def __getitem__(self, index: slice) -> "Run": ...
    def __getitem__(self, index: int | slice) -> "LogEntry | Run":
        if isinstance(index, slice):
            return Run(self.written[index], self.jsons[index])
        ms, _, n = self.written[index].partition(b"-")
        return LogEntry(Position(int(ms), int(n)), self.jsons[index])


class Reading(NamedTuple):
    """What a poll found: the head of the log, and the signals it is to be given."""

    head: Head
    entries: Sequence[LogEntry]


def jsons_of(entries: Sequence[LogEntry]) -> list[bytes]:
    return entries.jsons if isinstance(entries, Run) else [entry.json for entry in entries]


def append(conn: Connection, device_id: int, signals: Iterable[Signal], keep: int = KEEP_SIGNALS) -> Published:
    """Publish signals to a device, in this order."""
    signals = list(signals)
    if not signals:
        unmoved = read_head(conn, device_id)
        return Published(device_id, unmoved.newest, unmoved, ())
    (published,) = append_all(conn, {device_id: signals}, keep)
    return published


def append_all(conn: Connection, signals: Mapping[int, Sequence[Signal]], keep: int = KEEP_SIGNALS) -> list[Published]:
    """Publish signals to several devices, to each in its order, by as many statements as to one.

    A signal whose time another of its type has is given the next free one, behind those of the others published here.
    """
    befores = _hold_heads(conn, sorted(signals))
    heads = dict(befores)
    rows: list[NewRow] = []
    for device_id, own in signals.items():
        for signal in own:
            head = heads[device_id]
            position = head.next_position(conn.now_ms)
            ref = _encode(signal.ref).decode()
            rows.append(NewRow(device_id, *position, signal.type, signal.ts_ms, ref))
            heads[device_id] = Head(position, head.trimmed, head.earliest if head.earliest.n else position)
    entries: dict[int, list[LogEntry]] = {}
    for row in _insert(conn, rows):
        entries.setdefault(row.device_id, []).append(_new_entry(row))
    heads = {device_id: _trim(conn, device_id, head, keep) for device_id, head in heads.items()}
    saved = [(each, *head.newest, *head.trimmed, head.earliest.ms) for each, head in sorted(heads.items())]
    conn.run(SQL.save_heads, heads=_encode(saved).decode())
    all_published = []
    for device_id, head in heads.items():
        published = Published(device_id, befores[device_id].newest, head, tuple(entries[device_id]))
        conn.announce(published)
        all_published.append(published)
    return all_published


def read_head(conn: Connection, device_id: int) -> Head:
    return _head(conn.one(SQL.head, device_id=device_id))


def _hold_heads(conn: Connection, device_ids: Sequence[int]) -> dict[int, Head]:
    """The heads, which nobody else moves until the transaction ends. They are waited for in one order."""
    devices = _encode(device_ids).decode()
    held = conn.all(SQL.hold_heads, devices=devices)
    if len(held) < len(device_ids):
        # Of several who publish a device's first signal one makes the row, and the others wait for it.
        conn.run(SQL.make_heads, devices=devices)
        held = conn.all(SQL.hold_heads, devices=devices)
    return {row["device_id"]: _head(row) for row in held}


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
    """Write them, at times at which their devices have no signals of their types; as they were written."""
    written = set(conn.values(SQL.append_if_free, rows=_encode(rows).decode()))
    to_move: dict[int, list[NewRow]] = {}
    for row in rows:
        if (row.device_id, row.n) not in written:
            to_move.setdefault(row.device_id, []).append(row)
    moved: dict[tuple[int, int], NewRow] = {}
    for device_id, own in to_move.items():
        times = free_times.give(conn, device_id, [(row.type, row.ts_ms) for row in own])
        moved |= {(device_id, row.n): row._replace(ts_ms=ts_ms) for row, ts_ms in zip(own, times, strict=True)}
    if moved:
        conn.run_rows(SQL.append, list(moved.values()))
    return [moved.get((row.device_id, row.n), row) for row in rows]


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
