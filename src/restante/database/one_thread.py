"""A thread that does what it is given, in that order, and that need not be waited for.

Work that hangs, at a server that does not answer, holds up neither its owner's end nor the process's: the thread is
left behind and ends with the process.
"""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


class Closed(Exception):
    """It takes no more work."""


class OneThread:
    def __init__(self, name: str) -> None:
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[], T]) -> "Future[T]":
        future: Future[T] = Future()

        def carry_out() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:
                    future.set_exception(error)

        with self._lock:
            if self._is_closed:
                raise Closed
            self._work.put(carry_out)
        return future

    def close(self, last: Callable[[], None], patience_seconds: float) -> bool:
        """Do what was given, then the last thing; whether that was in time. It is not waited for any longer."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._work.put(last)
                self._work.put(None)
        self._thread.join(patience_seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()
