"""Exact counts of large lists, without a long read and without counters that every write would have to update.

    count ──▶ step ──▶ step ──▶ … each a read of its own ──▶ counts ──▶ kept, if there was more than one step
                 └─ nothing more: answered at once, not kept

A counting is an object whose steps each examine a bounded number of rows. Every row is examined once, in the state that
it has then. Counts that took several steps are kept: a reader gets them at once while they are counted again, at most a
twentieth of the time. One count at a time goes beyond its first step, so it occupies one reader.

Does not know what is counted. Callers name it by a key: the same key is the same list and the same filter.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, cast

from restante.database.connection import Connection

Result_co = TypeVar("Result_co", covariant=True)
Result = TypeVar("Result")

FRESH_SECONDS = 5.0
# A count is taken again after this many times its own duration.
REST_FACTOR = 20
# Older ones are not answered any more; the caller waits for the new one.
KEPT_SECONDS = 600.0
# How long a caller waits for a count that is not kept. Then the part that is counted so far is answered.
WAIT_SECONDS = 5.0
KEPT_MAX = 256


class Counting(Protocol[Result_co]):
    def step(self, conn: Connection) -> bool:
        """Examine the next rows; whether there are more."""

    def result(self) -> Result_co:
        """What was counted so far, also while a step runs; it says whether that is all."""


@dataclass(frozen=True, slots=True)
class _Kept:
    result: Any
    at: float
    seconds: float


def count_now(conn: Connection, counting: Counting[Result]) -> Result:
    """All steps in one read: for callers without an event loop."""
    while counting.step(conn):
        pass
    return counting.result()


class LongCounts:
    def __init__(
        self,
        read: Callable[[Callable[[Connection], bool]], Awaitable[bool]],
        monotonic: Callable[[], float] = time.monotonic,
        wait_seconds: float = WAIT_SECONDS,
    ) -> None:
        self._read = read
        self._monotonic = monotonic
        self._wait_seconds = wait_seconds
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._running: dict[Hashable, tuple[asyncio.Task[Any], Counting[Any]]] = {}
        self._is_counting = asyncio.Lock()

    async def count(self, key: Hashable, make: Callable[[], Counting[Result]]) -> Result:
        kept = self._kept.get(key)
        if kept is not None and self._age(kept) < min(max(FRESH_SECONDS, REST_FACTOR * kept.seconds), KEPT_SECONDS):
            return cast(Result, kept.result)
        if key not in self._running:
            counting, started = make(), self._monotonic()
            if not await self._read(counting.step):
                self._kept.pop(key, None)
                return counting.result()
            # Another caller may have begun meanwhile.
            if key not in self._running:
                self._start(key, counting, started)
        if kept is not None and self._age(kept) < KEPT_SECONDS:
            return cast(Result, kept.result)
        task, running = self._running[key]
        done, _ = await asyncio.wait([task], timeout=self._wait_seconds)
        return cast(Result, task.result() if done else running.result())

    def _age(self, kept: _Kept) -> float:
        return self._monotonic() - kept.at

    def _start(self, key: Hashable, counting: Counting[Any], started: float) -> None:
        task = asyncio.create_task(self._finish(key, counting, started))
        self._running[key] = (task, counting)
        task.add_done_callback(lambda task: self._ended(key, task))

    async def _finish(self, key: Hashable, counting: Counting[Any], started: float) -> Any:
        async with self._is_counting:
            while await self._read(counting.step):
                pass
        result, now = counting.result(), self._monotonic()
        self._kept[key] = _Kept(result, now, now - started)
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        return result

    def _ended(self, key: Hashable, task: "asyncio.Task[Any]") -> None:
        del self._running[key]
        if not task.cancelled():
            # Perhaps no caller waits for it: the next caller counts again and gets the error.
            task.exception()
