"""Counts beside lists: a page does not wait for a count that takes long.

    page ─▶ get ─▶ took long before? ── no ──▶ counted, shown
                      │ yes ─────────────────▶ the last one is shown, and counted again ─▶ live pages are told
                      │ not known ───────────▶ counted; after WAIT_SECONDS the page is shown without it, and told later

A count over a million rows takes a fraction of a second; the page itself does not. All open pages with the same filter
and the same grants share one count.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from restante.console.live import Live

T = TypeVar("T")

# How long a page waits for a count that nobody has asked for before.
WAIT_SECONDS = 0.25
# A count that takes less is made for every page.
QUICK_SECONDS = 0.002
# A slow count is not made again before it is so old.
FRESH_SECONDS = 2.0
REMEMBERED_MAX = 500


@dataclass(frozen=True, slots=True)
class Remembered(Generic[T]):
    value: T
    at: float
    seconds: float

    @property
    def is_slow(self) -> bool:
        return self.seconds > QUICK_SECONDS


class Counts(Generic[T]):
    def __init__(
        self,
        live: Live,
        topic: str,
        wait_seconds: float = WAIT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Live pages of the topic are read again when a count is ready that they did not get."""
        self._live = live
        self._topic = topic
        self._wait_seconds = wait_seconds
        self._clock = clock
        self._remembered: dict[Hashable, Remembered[T]] = {}
        self._running: dict[Hashable, asyncio.Task[T]] = {}

    async def get(self, key: Hashable, count: Callable[[], Awaitable[T]]) -> T | None:
        """The count, a little old if it takes long; None if it is not known yet."""
        known = self._remembered.get(key)
        if known is not None and known.is_slow and self._clock() - known.at < FRESH_SECONDS:
            return known.value
        task = self._running.get(key) or self._start(key, count)
        if known is None or not known.is_slow:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._wait_seconds):
                    return await asyncio.shield(task)
        task.add_done_callback(lambda _: self._tell(key, known))
        return None if known is None else known.value

    def _start(self, key: Hashable, count: Callable[[], Awaitable[T]]) -> "asyncio.Task[T]":
        task = asyncio.ensure_future(self._count(key, count))
        # A failure in the background leaves the count out; a page that waits for it gets the error.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._running[key] = task
        return task

    async def _count(self, key: Hashable, count: Callable[[], Awaitable[T]]) -> T:
        started = self._clock()
        try:
            value = await count()
        finally:
            del self._running[key]
        if len(self._remembered) >= REMEMBERED_MAX:
            self._remembered.clear()
        ended = self._clock()
        self._remembered[key] = Remembered(value, ended, ended - started)
        return value

    def _tell(self, key: Hashable, known: Remembered[T] | None) -> None:
        now = self._remembered.get(key)
        if now is not None and (known is None or now.value != known.value):
            self._live.mark(self._topic)
