"""Wait for the next calls of callers that were answered together, so that they become one batch.

    commit ─▶ 32 callers get their outcomes ─▶ the event loop responds, and reads their next requests
                                                     │
    32 other calls are in the queue ─────────────────┴──▶ one batch of 64, one flush to disk

Without the wait, the writer would run the calls that were queued during its last batch at once, and those of the
answered callers next: two batches of half the size, in turn, for ever. A batch has fixed costs, its flush to disk above
all. The wait costs little, because the event loop works meanwhile, and its work has to be done anyway.

The wait ends when the queue has not grown for some turns of the event loop, or after `WAIT_SECONDS`.

Invariant: a queued call waits at most that much longer, also if the event loop is blocked or closed.

For an engine with one writer thread. Several writers flush at the same time, and need no large batches for it.
"""

import asyncio
import threading
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from restante.database.writer.batching import BatchCall
from restante.database.writer.work_queue import WorkQueue

# Longer than an event loop takes to respond to a batch and to read as many requests.
WAIT_SECONDS = 0.01
# Clients need a moment for their next requests.
QUIET_TURNS = 2


def loop_of_answered(calls: Iterable[BatchCall[Any, Any]]) -> asyncio.AbstractEventLoop | None:
    """The event loop of the callers that were answered together; None for a single caller, or several loops."""
    loops = [call.loop for call in calls]
    return loops[0] if len(loops) > 1 and len(set(loops)) == 1 else None


class NextCalls:
    """One wait. The writer thread waits; the event loop counts its turns."""

    def __init__(self, queue: WorkQueue[Any], loop: asyncio.AbstractEventLoop, limit: int) -> None:
        self._queue = queue
        self._loop = loop
        self._limit = limit
        self._queued = -1
        self._quiet_turns = 0
        self._end = threading.Lock()

    def wait(self) -> None:
        """Wait until no more calls arrive, the limit is reached, or the time is over."""
        self._end.acquire()
        # A loop that is closed makes no calls.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._count_turn)
            self._end.acquire(timeout=WAIT_SECONDS)

    def _count_turn(self) -> None:
        queued = self._queue.length
        self._quiet_turns = self._quiet_turns + 1 if queued == self._queued else 0
        self._queued = queued
        if queued >= self._limit or self._quiet_turns == QUIET_TURNS:
            self._end.release()
        else:
            self._loop.call_soon(self._count_turn)
