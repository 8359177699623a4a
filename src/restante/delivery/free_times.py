"""Which time a signal is given: its own, or the first millisecond after it at which its device has none of its type.

Clients discard a second signal with the same type and time. The times that are taken are read once for all signals that
are published together, a piece at a time, and given away in memory: however many collide, nothing is probed.

Must always hold: the caller holds the device's head, so that nobody else takes a time meanwhile.
"""

from collections.abc import Callable

from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

PIECE_ROWS = 1000


def give(conn: Connection, device_id: int, wanted: list[tuple[str, int]]) -> list[int]:
    """The time of each, in their order, for what is of this type and would be of this time."""
    first: dict[str, int] = {}
    for type, ts_ms in wanted:
        first[type] = min(ts_ms, first.get(type, ts_ms))
    # Asked for together, which is one journey.
    taken = {type: _TakenTimes(conn, device_id, type, from_ms) for type, from_ms in first.items()}
    return [taken[type].give(ts_ms) for type, ts_ms in wanted]


class _TakenTimes:
    """The times of a device's signals of a type, from one on, read as far as they are asked for."""

    def __init__(self, conn: Connection, device_id: int, type: str, from_ms: int) -> None:
        self._conn = conn
        self._device_id = device_id
        self._type = type
        self._reading: Callable[[], list[tuple[int]]] | None = self._read(from_ms)
        self._taken: set[int] = set()
        # All that is taken before this is known; where nothing is left to be read, all that is taken.
        self._known_before_ms = from_ms
        # Where the search for a time is to begin that was given away before.
        self._next: dict[int, int] = {}

    def give(self, ts_ms: int) -> int:
        free_ms = self._next.get(ts_ms, ts_ms)
        while self._is_taken(free_ms):
            free_ms += 1
        self._taken.add(free_ms)
        self._next[ts_ms] = free_ms + 1
        return free_ms

    def _is_taken(self, ts_ms: int) -> bool:
        while self._reading is not None and ts_ms >= self._known_before_ms:
            self._learn(self._reading())
        return ts_ms in self._taken

    def _learn(self, rows: list[tuple[int]]) -> None:
        self._taken.update(taken for (taken,) in rows)
        if len(rows) == PIECE_ROWS:
            self._known_before_ms = rows[-1][0] + 1
            self._reading = lambda: self._read(self._known_before_ms)()
        else:
            self._reading = None

    def _read(self, from_ms: int) -> Callable[[], list[tuple[int]]]:
        asked = {"device_id": self._device_id, "type": self._type, "from_ms": from_ms, "limit": PIECE_ROWS}
        return self._conn.values_later(SQL.taken, **asked)
