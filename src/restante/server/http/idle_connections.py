"""Closes the connections that have been idle for longest, when others need their place.

Connections keep no order by idle time, because every request would have to change it. A search over all connections
finds the oldest ones and is used for many closings; it runs only under pressure, and seldom.
"""

import heapq
import time
from collections.abc import Callable, Iterable
from typing import Protocol

# A connection that was in use so lately is not closed: its client may be about to send the next request.
IDLE_SECONDS = 10.0
SEARCH_SECONDS = 0.2
FOUND_MAX = 500


class MaybeIdle(Protocol):
    def idle_since(self) -> float | None:
        """The monotonic time of its last response, if it waits for the next request; None: it does not."""

    def close_idle(self) -> None: ...


class IdleConnections:
    def __init__(self, connections: Callable[[], Iterable[MaybeIdle]]) -> None:
        self._connections = connections
        self._found: list[tuple[float, int, MaybeIdle]] = []
        self._next_search = 0.0

    def close_oldest(self) -> bool:
        """Close the connection that has been idle for longest; whether there was one."""
        now = time.monotonic()
        if not self._found and now >= self._next_search:
            self._next_search = now + SEARCH_SECONDS
            self._found = self._search(now - IDLE_SECONDS)
        while self._found:
            since, _, connection = self._found.pop()
            if connection.idle_since() == since:
                connection.close_idle()
                return True
        return False

    def _search(self, before: float) -> list[tuple[float, int, MaybeIdle]]:
        idle = ((each.idle_since(), id(each), each) for each in self._connections())
        found = [(since, number, each) for since, number, each in idle if since is not None and since <= before]
        return heapq.nsmallest(FOUND_MAX, found)[::-1]
