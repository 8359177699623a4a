"""The database's time in this process, between two readings of the database's clock.

Nodes that share a database may have clocks that differ, even by hours, and a time that one node writes must mean the
same to the others. All nodes therefore use the database's clock. They read it about every second and extrapolate with
the monotonic clock.
"""

import time
from collections.abc import Callable


class DatabaseClock:
    """The process's own clock until `set` is first called: an embedded database runs in this process and uses that."""

    def __init__(self, own: Callable[[], float] = time.time) -> None:
        self._own = own
        self._offset_seconds: float | None = None

    def set(self, now_ms: int) -> None:
        self._offset_seconds = now_ms / 1000 - time.monotonic()

    def __call__(self) -> float:
        """Seconds since the epoch."""
        offset = self._offset_seconds
        return self._own() if offset is None else time.monotonic() + offset
