"""Deadlines for callers of a database that hangs: it keeps its connections open and answers nothing.

    every half second: which threads run the same transaction or read for longer than the deadline?
        their callers                             ─▶ DatabaseUnavailable: the request is answered with 503
        all threads? queued and new calls as well ─▶ DatabaseUnavailable, at once

No thread can be interrupted while it waits for the database. A hung transaction may still commit when the database
goes on: the error of its caller says that the outcome is unknown, as after a lost connection. Its commit events are
published then, so caches stay right.

One thread watches all calls, so a call that is answered in time costs nothing.
"""

import threading
import time
from collections.abc import Sequence
from typing import Protocol

import structlog

log = structlog.get_logger()

NO_ANSWER = "the database does not answer"
CHECK_SECONDS = 0.5
# The deadline, and the time between two checks, when the time for the shutdown has ended.
LAST_SECONDS = 0.25
LAST_CHECK_SECONDS = 0.05


class Watched(Protocol):
    def abandon(self, seconds: float) -> bool:
        """Fail the calls whose transaction runs for longer. Returns whether no thread is free for others."""


class HangWatch:
    def __init__(self, watched: Sequence[Watched], deadline_seconds: float) -> None:
        self._watched = watched
        self._deadline_seconds = deadline_seconds
        self._end_at = float("inf")
        self._is_hanging = False
        self._changed = threading.Event()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="restante-hang-watch", daemon=True)
        self._thread.start()

    def end_at(self, monotonic: float) -> None:
        """From that time on, wait only briefly for any call: the server stops."""
        self._end_at = monotonic
        self._changed.set()

    def close(self) -> None:
        self._is_closed = True
        self._changed.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_closed:
            now = time.monotonic()
            seconds = self._deadline_seconds if now < self._end_at else min(LAST_SECONDS, self._deadline_seconds)
            are_stuck = [each.abandon(seconds) for each in self._watched]
            self._report(any(are_stuck))
            pause = min(CHECK_SECONDS, self._deadline_seconds / 4)
            # At the end of the time for the shutdown the check must not be late.
            self._changed.wait(min(pause, self._end_at - now) if self._end_at > now else LAST_CHECK_SECONDS)
            self._changed.clear()

    def _report(self, is_hanging: bool) -> None:
        if is_hanging and not self._is_hanging:
            log.error("database does not answer", deadline_seconds=self._deadline_seconds)
        elif self._is_hanging and not is_hanging:
            log.info("database answers again")
        self._is_hanging = is_hanging
