"""Brings results from the writer's thread back into the event loop, many at once and without a task for each.

A commit resolves the futures of all its writes one after another; the loop is woken for the first and finds the others
when it comes. Must always hold: `then` runs in the event loop, once for each write, also if the write failed.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

import structlog

from restante.database.connection import Connection
from restante.database.database import Database

log = structlog.get_logger()

T = TypeVar("T")


class Handback:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._done: deque[tuple[Callable[[Any], None], Future[Any]]] = deque()
        self._is_called = False

    def write(self, work: Callable[[Connection], T], then: Callable[["Future[T]"], None]) -> None:
        """Run the function in a write transaction and, once it is durable, `then` with its future."""
        loop = asyncio.get_running_loop()

        def done(future: "Future[T]") -> None:
            self._done.append((then, future))
            if not self._is_called:
                self._is_called = True
                # After the loop has closed nobody is left to be answered.
                with suppress(RuntimeError):
                    loop.call_soon_threadsafe(self._hand_back)

        self._database.submit(work).add_done_callback(done)

    def _hand_back(self) -> None:
        # Before anything is taken: what is appended from now on calls again.
        self._is_called = False
        while self._done:
            then, future = self._done.popleft()
            try:
                then(future)
            except Exception:
                # One that cannot be told must not cost the others their answer.
                log.exception("a result could not be handed back")
