"""The log: the signals of each device in the order of publishing, the last thousand or so of them.

This SQL log is the authority. A signal gets its position here and keeps it for ever; caches and streams in front of
the log copy positions and never assign them.

Invariants, for each device: n counts 1, 2, 3 … without gaps; ms never decreases; (type, ts_ms) is unique; the head
describes exactly the signals that the log holds.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, overload

import msgspec

from restante.core.cursor import LogHead, Position, check_cursor, trim_to
from restante.database.commit_events import ClusterMessage
from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside
from restante.delivery.log import unique_timestamps
from restante.delivery.log.signals import Signal

SQL = queries_beside(__file__)

# The log is trimmed by this many signals at a time: a delete per publish would double its cost.
TRIM_SLACK = 100

_encode = msgspec.json.Encoder().encode


class LogEntry(msgspec.Struct, frozen=True):
    """A published signal: its position, and its JSON as devices read it."""

    position: Position
    json: bytes


class LogAdvanced(ClusterMessage, frozen=True, tag="log"):
    """The device's log ends at this position now."""

    device_id: int
    ms: int
    n: int


class SignalsPublished(msgspec.Struct, frozen=True):
    """Commit event: signals were published to a device. Holds everything that a parked poll needs to respond."""

    device_id: int
    before: Position
    head: LogHead
    entries: tuple[LogEntry, ...]

    def cluster_message(self) -> LogAdvanced:
        return LogAdvanced(self.device_id, *self.head.newest)


class NewRow(NamedTuple):
    """A row of the log. A NamedTuple because the SQL reads its fields by position."""

    device_id: int
    ms: int
    n: int
    type: str
    ts_ms: int
    ref: str


class EncodedEntries(Sequence[LogEntry]):
    """Entries in the form in which Redis stores them: encoded positions, and the JSON of the signals.

    A poll needs only the JSON and the last position; decoding all positions would be its most expensive part.
    """

    __slots__ = ("jsons", "positions")

    def __init__(self, positions: list[bytes], jsons: list[bytes]) -> None:
        self.positions = positions
        self.jsons = jsons

    def __len__(self) -> int:
        return len(self.jsons)

    @overload
    def __getitem__(self, index: int) -> LogEntry: ...
    @overload
    def __getitem__(self, index: slice) -> "EncodedEntries": ...
    def __getitem__(self, index: int | slice) -> "LogEntry | EncodedEntries":
        if isinstance(index, slice):
            return EncodedEntries(self.positions[index], self.jsons[index])
        ms, _, n = self.positions[index].partition(b"-")
        return LogEntry(Position(int(ms), int(n)), self.jsons[index])


class LogSlice(msgspec.Struct, frozen=True):
    """The result of a read for a poll: the head of the log, and the signals to deliver."""

    head: LogHead
    entries: Sequence[LogEntry]


def jsons_of(entries: Sequence[LogEntry]) -> list[bytes]:
    # By type: `isinstance` is slow for a subclass of Sequence.
    return entries.jsons if type(entries) is EncodedEntries else [entry.json for entry in entries]


def append(conn: Connection, device_id: int, signals: Iterable[Signal], keep: int) -> SignalsPublished:
    """Publish signals to a device, in this order."""
    signals = list(signals)
    if not signals:
        head = read_head(conn, device_id)
        return SignalsPublished(device_id, head.newest, head, ())
    (published,) = append_all(conn, {device_id: signals}, keep)
    return published


def append_all(conn: Connection, signals: Mapping[int, Sequence[Signal]], keep: int) -> list[SignalsPublished]:
    """Publish signals to several devices, to each in order, with as many statements as for one.

    A signal whose type and timestamp are in use gets the next free timestamp, after all other signals of this call.
    """
    befores = _lock_heads(conn, sorted(signals))
    heads = dict(befores)
    rows: list[NewRow] = []
    for device_id, own in signals.items():
        for signal in own:
            head = heads[device_id]
            position = head.next_position(conn.now_ms)
            ref = _encode(signal.ref).decode()
            rows.append(NewRow(device_id, *position, signal.type, signal.ts_ms, ref))
            heads[device_id] = LogHead(position, head.trimmed, head.earliest if head.earliest.n else position)
    entries: dict[int, list[LogEntry]] = {}
    for row in _insert(conn, rows):
        entries.setdefault(row.device_id, []).append(_new_entry(row))
    heads = {device_id: _trim(conn, device_id, head, keep) for device_id, head in heads.items()}
    saved_heads = [(each, *head.newest, *head.trimmed, head.earliest.ms) for each, head in sorted(heads.items())]
    conn.run(SQL.save_heads, heads=_encode(saved_heads).decode())
    all_published = []
    for device_id, head in heads.items():
        published = SignalsPublished(device_id, befores[device_id].newest, head, tuple(entries[device_id]))
        conn.add_commit_event(published)
        all_published.append(published)
    return all_published


def read_head(conn: Connection, device_id: int) -> LogHead:
    return _head(conn.one(SQL.head, device_id=device_id))


def _lock_heads(conn: Connection, device_ids: Sequence[int]) -> dict[int, LogHead]:
    """Read and lock the heads until the transaction ends, in the same order in every transaction."""
    devices = _encode(device_ids).decode()
    rows = conn.all(SQL.lock_heads, devices=devices)
    if len(rows) < len(device_ids):
        # If several transactions publish the first signal of a device, one creates the row and the others wait for it.
        conn.run(SQL.create_heads, devices=devices)
        rows = conn.all(SQL.lock_heads, devices=devices)
    return {row["device_id"]: _head(row) for row in rows}


def _head(row: Row | None) -> LogHead:
    if row is None or not row["newest_n"]:
        return LogHead()
    trimmed = Position(row["trimmed_ms"], row["trimmed_n"])
    return LogHead(Position(row["newest_ms"], row["newest_n"]), trimmed, Position(row["earliest_ms"], trimmed.n + 1))


def read_heads(conn: Connection, device_ids: Iterable[int]) -> dict[int, LogHead]:
    """The heads of many devices, in one statement; the result lacks devices without any signal."""
    devices = _encode(sorted(set(device_ids))).decode()
    return {row["device_id"]: _head(row) for row in conn.all(SQL.heads, devices=devices)}


def read(conn: Connection, device_id: int, cursor: Position | None, limit: int) -> LogSlice:
    """Read the signals after the cursor; without a cursor, the newest ones."""
    return read_with_head(conn, device_id, read_head(conn, device_id), cursor, limit)


def read_with_head(conn: Connection, device_id: int, head: LogHead, cursor: Position | None, limit: int) -> LogSlice:
    """As `read`, with the head that the same snapshot has."""
    if cursor is None:
        newest = conn.all(SQL.read_newest, device_id=device_id, limit=limit)
        return LogSlice(head, [_entry(row) for row in reversed(newest)])
    check_cursor(cursor, head)
    if cursor == head.newest:
        return LogSlice(head, [])
    rows = conn.all(SQL.read_after, device_id=device_id, ms=cursor.ms, n=cursor.n, limit=limit)
    return LogSlice(head, [_entry(row) for row in rows])


def _insert(conn: Connection, rows: list[NewRow]) -> list[NewRow]:
    """Insert the rows, each with a unique timestamp. Returns the rows as they were stored."""
    inserted = set(conn.values(SQL.append_if_free, rows=_encode(rows).decode()))
    to_move: dict[int, list[NewRow]] = {}
    for row in rows:
        if (row.device_id, row.n) not in inserted:
            to_move.setdefault(row.device_id, []).append(row)
    moved: dict[tuple[int, int], NewRow] = {}
    for device_id, own in to_move.items():
        times = unique_timestamps.assign(conn, device_id, [(row.type, row.ts_ms) for row in own])
        moved |= {(device_id, row.n): row._replace(ts_ms=ts_ms) for row, ts_ms in zip(own, times, strict=True)}
    if moved:
        conn.run_rows(SQL.append, list(moved.values()))
    return [moved.get((row.device_id, row.n), row) for row in rows]


def _trim(conn: Connection, device_id: int, head: LogHead, keep: int) -> LogHead:
    if trim_to(head, keep, TRIM_SLACK) is None:
        return head
    earliest, trimmed = (
        Position(row["ms"], row["n"]) for row in conn.all(SQL.earliest_to_keep, device_id=device_id, keep=keep)
    )
    conn.run(SQL.trim, device_id=device_id, ms=trimmed.ms, n=trimmed.n)
    return LogHead(head.newest, trimmed, earliest)


def _new_entry(row: NewRow) -> LogEntry:
    return LogEntry(Position(row.ms, row.n), signal_json(row.type, row.ts_ms, row.ref))


def _entry(row: Row) -> LogEntry:
    return LogEntry(Position(row["ms"], row["n"]), signal_json(row["type"], row["ts_ms"], row["ref"]))


def signal_json(type: str, ts_ms: int, ref: str) -> bytes:
    """The JSON of a signal as devices read it. `ref` already is JSON and is not parsed."""
    return b'{"type":%b,"ts_ms":%d,"ref":%b}' % (_encode(type), ts_ms, ref.encode())
