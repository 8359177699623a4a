"""A thread that runs calls one after another, and that can be abandoned.

A call that hangs, on a server that does not respond, delays neither the closing of its owner nor the exit of the
process: the thread is abandoned and ends with the process.
"""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


class Closed(Exception):
    """The thread accepts no more calls."""


class WorkerThread:
    def __init__(self, name: str) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[], T]) -> "Future[T]":
        future: Future[T] = Future()

        def run() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:
                    future.set_exception(error)

        with self._lock:
            if self._is_closed:
                raise Closed
            self._calls.put(run)
        return future

    def close(self, last: Callable[[], None], timeout_seconds: float) -> bool:
        """Run all accepted calls, then `last`. After the timeout, abandon the thread and return False."""
        with self._lock:
            if not self._is_closed:
                self._is_closed = True
                self._calls.put(last)
                self._calls.put(None)
        self._thread.join(timeout_seconds)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
