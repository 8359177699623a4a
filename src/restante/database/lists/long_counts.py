"""Counts of large lists, without a long read and without counters that every write would have to update.

    count  ──▶ step ──▶ nothing more: returned at once
                 └────▶ step ──▶ … each a read of its own ──▶ kept; the caller waits up to WAIT_SECONDS
    recent ──▶ kept and slow: returned at once, counted again beside it ──▶ on_change
                 └─ else ──▶ counted; the caller waits up to `wait_seconds`, then gets None ──▶ on_change

A counting is an object whose steps each examine a bounded number of rows. Every row is examined once, in the state that
it has then. `count` is for callers that need the exact number: a count of one step is always taken anew. `recent` is
for pages, which show the last number instead of waiting. Both share the kept counts and the counts that are running.

A kept count is taken again at most a twentieth of the time. One count at a time goes beyond its first step, so it
occupies one reader.

Does not know what is counted. Callers name it by a key: the same key is the same list and the same filter.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, cast

from restante.database.connection import Connection

Result_co = TypeVar("Result_co", covariant=True)
Result = TypeVar("Result")

FRESH_SECONDS = 2.0
# A count is taken again after this many times its own duration.
REST_FACTOR = 20
# Older ones are not returned any more; the caller waits for the new one.
KEPT_SECONDS = 600.0
# How long `count` waits for a count that is not kept. Then it returns the part that is counted so far.
WAIT_SECONDS = 5.0
# `recent` takes a count of one step that lasts no longer than this for every caller.
QUICK_SECONDS = 0.002
KEPT_MAX = 500


class Counting(Protocol[Result_co]):
    def step(self, conn: Connection) -> bool:
        """Examine the next rows; whether there are more."""

    def result(self) -> Result_co:
        """What was counted so far, also while a step runs; it says whether that is all."""


class OneRead(Generic[Result]):
    """A counting whose only step is a function of the caller."""

    def __init__(self, work: Callable[[Connection], Result]) -> None:
        self._work = work
        self._results: list[Result] = []

    def step(self, conn: Connection) -> bool:
        self._results.append(self._work(conn))
        return False

    def result(self) -> Result:
        return self._results[0]


@dataclass(frozen=True, slots=True)
class _Kept:
    result: Any
    at: float
    seconds: float
    # Whether it took more than one step.
    is_long: bool

    @property
    def is_slow(self) -> bool:
        return self.is_long or self.seconds > QUICK_SECONDS


@dataclass(slots=True)
class _Running:
    counting: Counting[Any]
    started: float
    # Whether its first step has ended and there are more.
    is_long: bool = False


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
        self._running: dict[Hashable, tuple[asyncio.Task[Any], _Running]] = {}
        self._is_counting = asyncio.Lock()

    async def count(self, key: Hashable, make: Callable[[], Counting[Result]]) -> Result:
        """The exact count. A count of several steps may be a kept one; its result says when it was taken."""
        known = self._known(key)
        kept = known if known is not None and known.is_long else None
        if kept is not None and self._is_fresh(kept):
            return cast(Result, kept.result)
        if not self._runs_long(key):
            run = _Running(make(), self._monotonic())
            run.is_long = await self._read(run.counting.step)
            if not run.is_long:
                return cast(Result, self._keep(key, run))
            # Another caller may have begun meanwhile.
            if key not in self._running:
                self._start(key, run)
        if kept is not None:
            return cast(Result, kept.result)
        task, running = self._running[key]
        done, _ = await asyncio.wait([task], timeout=self._wait_seconds)
        return cast(Result, task.result() if done else running.counting.result())

    async def recent(
        self,
        key: Hashable,
        make: Callable[[], Counting[Result]],
        on_change: Callable[[], None],
        wait_seconds: float,
    ) -> Result | None:
        """The last count, perhaps a little old; None if there is none within `wait_seconds`. `on_change` is called when
        a count ends whose result this caller did not get."""
        kept = self._known(key)
        if kept is not None and kept.is_slow and self._is_fresh(kept):
            return cast(Result, kept.result)
        if key not in self._running:
            self._start(key, _Running(make(), self._monotonic()))
        task, _ = self._running[key]
        if kept is None or not kept.is_slow:
            done, _ = await asyncio.wait([task], timeout=wait_seconds)
            if done:
                return cast(Result, task.result())
        task.add_done_callback(lambda task: _report(task, kept, on_change))
        return None if kept is None else cast(Result, kept.result)

    def _known(self, key: Hashable) -> _Kept | None:
        kept = self._kept.get(key)
        return None if kept is None or self._age(kept) >= KEPT_SECONDS else kept

    def _is_fresh(self, kept: _Kept) -> bool:
        return self._age(kept) < max(FRESH_SECONDS, REST_FACTOR * kept.seconds)

    def _age(self, kept: _Kept) -> float:
        return self._monotonic() - kept.at

    def _runs_long(self, key: Hashable) -> bool:
        """Whether a count of several steps is being taken. A count in its first step may be its whole result, taken
        before the caller's own last write."""
        return key in self._running and self._running[key][1].is_long

    def _start(self, key: Hashable, run: _Running) -> None:
        task = asyncio.create_task(self._finish(key, run))
        self._running[key] = (task, run)
        task.add_done_callback(lambda task: self._ended(key, task))

    async def _finish(self, key: Hashable, run: _Running) -> Any:
        if not run.is_long:
            run.is_long = await self._read(run.counting.step)
        if run.is_long:
            async with self._is_counting:
                while await self._read(run.counting.step):
                    pass
        return self._keep(key, run)

    def _keep(self, key: Hashable, run: _Running) -> Any:
        result, now = run.counting.result(), self._monotonic()
        self._kept[key] = _Kept(result, now, now - run.started, run.is_long)
        self._kept.move_to_end(key)
        while len(self._kept) > KEPT_MAX:
            self._kept.popitem(last=False)
        return result

    def _ended(self, key: Hashable, task: "asyncio.Task[Any]") -> None:
        del self._running[key]
        if not task.cancelled():
            # Perhaps no caller waits for it: the next caller counts again and gets the error.
            task.exception()


def _report(task: "asyncio.Task[Any]", kept: _Kept | None, on_change: Callable[[], None]) -> None:
    if task.cancelled() or task.exception() is not None:
        return
    if kept is None or task.result() != kept.result:
        on_change()
