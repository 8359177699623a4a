"""Assigns each signal a timestamp that is unique for its device and type.

A signal keeps its own timestamp if it is free, else it gets the next free millisecond: clients discard a second signal
with the same type and time. The used timestamps are read once for all signals that are published together, in chunks,
and the search runs in memory: collisions cost no further queries.

Invariant: the caller has locked the device's head, so that no other transaction uses a timestamp meanwhile.
"""

from collections.abc import Callable

from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

CHUNK_ROWS = 1000


def assign(conn: Connection, device_id: int, requested: list[tuple[str, int]]) -> list[int]:
    """The timestamp of each signal, in order, for its type and requested timestamp."""
    first: dict[str, int] = {}
    for type, ts_ms in requested:
        first[type] = min(ts_ms, first.get(type, ts_ms))
    # The reads of all types are prefetched together, in one round trip.
    used = {type: _UsedTimestamps(conn, device_id, type, from_ms) for type, from_ms in first.items()}
    return [used[type].assign(ts_ms) for type, ts_ms in requested]


class _UsedTimestamps:
    """The timestamps of a device's signals of one type from a timestamp on, read as far as needed."""

    def __init__(self, conn: Connection, device_id: int, type: str, from_ms: int) -> None:
        self._conn = conn
        self._device_id = device_id
        self._type = type
        self._next_chunk: Callable[[], list[tuple[int]]] | None = self._read(from_ms)
        self._used: set[int] = set()
        # All used timestamps before this one are known; without a next chunk, all are known.
        self._known_before_ms = from_ms
        # Where to start the next search for a timestamp that was requested before.
        self._search_from: dict[int, int] = {}

    def assign(self, ts_ms: int) -> int:
        free_ms = self._search_from.get(ts_ms, ts_ms)
        while self._is_used(free_ms):
            free_ms += 1
        self._used.add(free_ms)
        self._search_from[ts_ms] = free_ms + 1
        return free_ms

    def _is_used(self, ts_ms: int) -> bool:
        while self._next_chunk is not None and ts_ms >= self._known_before_ms:
            self._add_chunk(self._next_chunk())
        return ts_ms in self._used

    def _add_chunk(self, rows: list[tuple[int]]) -> None:
        self._used.update(used for (used,) in rows)
        if len(rows) == CHUNK_ROWS:
            self._known_before_ms = rows[-1][0] + 1
            self._next_chunk = lambda: self._read(self._known_before_ms)()
        else:
            self._next_chunk = None

    def _read(self, from_ms: int) -> Callable[[], list[tuple[int]]]:
        return self._conn.prefetch(
            SQL.used, device_id=self._device_id, type=self._type, from_ms=from_ms, limit=CHUNK_ROWS
        )
