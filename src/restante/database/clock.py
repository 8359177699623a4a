"""The database's time in this process, between the moments at which the database tells it.

Where several nodes share a database their own clocks may differ, even by hours; what one node writes down another must
read in the same way. So all go by the database's, told about every second, and count on with the monotonic clock.
"""

import time


class DatabaseClock:
    """The process's own clock until it is told another time: where the database runs in it, that is the same."""

    def __init__(self) -> None:
        self._ahead_seconds: float | None = None

    def set(self, now_ms: int) -> None:
        self._ahead_seconds = now_ms / 1000 - time.monotonic()

    def __call__(self) -> float:
        """Seconds since the epoch."""
        ahead = self._ahead_seconds
        return time.time() if ahead is None else time.monotonic() + ahead
