"""Drives a dispatcher: again at once while there are rows, else when rung, when a retry is due, or at its own pace.

A pass that fails is said once, and once when it succeeds again; in between the waits grow. A ring cuts such a wait
short, but never below the first one: whoever rings and rings cannot make it busy.
"""

import random
from typing import Protocol

import structlog

from restante.core.pace import Pace
from restante.delivery.alarm import Alarm
from restante.delivery.dispatcher import PREFIX, DispatcherTotals
from restante.delivery.outbox import OWN_SOURCE, Outcome

log = structlog.get_logger()
_chance = random.SystemRandom()

# What has become due since the pass is fetched soon, but not in a busy loop.
SOON_SECONDS = 0.05


class Dispatches(Protocol):
    """A dispatcher as its runner sees it."""

    totals: DispatcherTotals

    async def run_once(self) -> Outcome: ...
    async def seconds_until_due(self) -> float | None: ...


class Runner:
    def __init__(self, dispatcher: Dispatches, pace: Pace, source: str = OWN_SOURCE) -> None:
        self._dispatcher = dispatcher
        self._pace = pace
        self._source = source
        self._looks = 0
        self._failures = 0
        self._alarm = Alarm()
        self.ring = self._alarm.ring
        self.stop = self._alarm.stop

    async def run(self) -> None:
        while not self._alarm.is_stopping:
            try:
                outcome = await self._dispatcher.run_once()
                self._looks = self._looks + 1 if outcome == Outcome() else 0
                delay = 0.0 if outcome.delivered or outcome.failed else await self._idle_seconds()
                self._say_it_is_back()
            except Exception as error:
                # Whatever it was, the next pass is tried: a dispatcher that has ended delivers nothing.
                delay = self._failed(error)
                await self._alarm.pause(min(delay, self._pace.away_seconds))
            if delay > 0:
                await self._alarm.wait(delay)
        log.debug(f"{PREFIX} stopped", source=self._source)

    def _failed(self, error: Exception) -> float:
        self._failures += 1
        self._dispatcher.totals.errors += 1
        if self._failures == 1:
            about = {"source": self._source, "error": f"{type(error).__name__}: {error}"}
            log.error(f"{PREFIX} the pass failed, it is tried again and again", **about)
        return self._pace.after_failure(self._failures, _chance.random())

    def _say_it_is_back(self) -> None:
        if self._failures:
            log.info(f"{PREFIX} passes succeed again", source=self._source, failures=self._failures)
            self._failures = 0

    async def _idle_seconds(self) -> float:
        idle = self._pace.after_nothing(self._looks, _chance.random())
        due = await self._dispatcher.seconds_until_due()
        if due is None:
            return idle
        # What is due and was not given to us, somebody has locked: that is asked for less and less often.
        soon = SOON_SECONDS if due > 0 else SOON_SECONDS * 2.0 ** min(self._looks, 20)
        return min(idle if due > 0 else self._pace.idle_seconds_max, max(due, soon))
