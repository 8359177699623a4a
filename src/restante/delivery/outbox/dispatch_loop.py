"""Runs the passes of a dispatcher: at once while there are rows; else when woken, when a retry is due, or by polling.

The first failed pass is logged, and so is the first that succeeds again; in between the delays grow. A wake-up cuts
such a delay short, but never below the first delay: frequent wake-ups cannot cause a busy loop.
"""

import random
from typing import Protocol

import structlog

from restante.core.backoff import PollBackoff
from restante.delivery.outbox.dispatcher import PREFIX, DispatcherCounters
from restante.delivery.outbox.outbox import OWN_SOURCE, Outcome
from restante.delivery.wakeup import Wakeup

log = structlog.get_logger()
_random = random.SystemRandom()

# Rows that became due since the pass are fetched soon, but not in a busy loop.
SOON_SECONDS = 0.05


class AnyDispatcher(Protocol):
    """A dispatcher as the loop sees it."""

    counters: DispatcherCounters

    async def run_once(self) -> Outcome: ...
    async def seconds_until_due(self) -> float | None: ...


class DispatchLoop:
    def __init__(self, dispatcher: AnyDispatcher, backoff: PollBackoff, source: str = OWN_SOURCE) -> None:
        self._dispatcher = dispatcher
        self._backoff = backoff
        self._source = source
        self._empty_passes = 0
        self._failures = 0
        self._wakeup = Wakeup()
        self.wake = self._wakeup.wake
        self.stop = self._wakeup.stop

    async def run(self) -> None:
        while not self._wakeup.is_stopping:
            try:
                outcome = await self._dispatcher.run_once()
                self._empty_passes = self._empty_passes + 1 if outcome == Outcome() else 0
                delay = 0.0 if outcome.delivered or outcome.failed else await self._idle_seconds()
                self._record_success()
            except Exception as error:
                # After any error the next pass is tried: a dispatcher that has stopped delivers nothing.
                delay = self._record_failure(error)
                await self._wakeup.pause(min(delay, self._backoff.retry_seconds))
            if delay > 0:
                await self._wakeup.wait(delay)
        log.debug(f"{PREFIX} stopped", source=self._source)

    def _record_failure(self, error: Exception) -> float:
        self._failures += 1
        self._dispatcher.counters.errors += 1
        if self._failures == 1:
            about = {"source": self._source, "error": f"{type(error).__name__}: {error}"}
            log.error(f"{PREFIX} the pass failed, retrying", **about)
        return self._backoff.after_failure(self._failures, _random.random())

    def _record_success(self) -> None:
        if self._failures:
            log.info(f"{PREFIX} passes succeed again", source=self._source, failures=self._failures)
            self._failures = 0

    async def _idle_seconds(self) -> float:
        idle = self._backoff.after_empty(self._empty_passes, _random.random())
        due = await self._dispatcher.seconds_until_due()
        if due is None:
            return idle
        # A due row that was not claimed is locked by another transaction: it is tried less and less often.
        soon = SOON_SECONDS if due > 0 else SOON_SECONDS * 2.0 ** min(self._empty_passes, 20)
        return min(idle if due > 0 else self._backoff.idle_seconds_max, max(due, soon))
