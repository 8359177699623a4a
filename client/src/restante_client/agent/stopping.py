"""The clean end of a program: SIGTERM or SIGINT.

    signal ──▶ is_stopped = True ──▶ inside `interruptible`: `Stopped` is raised at once (a long poll, a pause)
                                └──▶ elsewhere: the work in hand goes on, and the program's loop ends after it

An interruptible block must not change anything that has to be stored. A second signal ends the process at once, as a
crash would; every program must survive that.
"""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from typing import Any, Callable

import httpx

from restante_client.runtime import BlockingRuntime, Response

SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stopped(BaseException):
    """A signal ended an interruptible block. Like `KeyboardInterrupt`, it is no error of the work."""


class Stopper:
    """Whether the program must stop. `stop` may be called from a signal handler of the main thread."""

    def __init__(self) -> None:
        self.is_stopped = False
        self._is_interruptible = False

    @contextlib.contextmanager
    def handling_signals(self) -> Iterator[None]:
        """Stop on SIGTERM and SIGINT. Call it in the main thread."""
        before = {number: signal.signal(number, self._handle) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def stop(self) -> None:
        self.is_stopped = True
        if self._is_interruptible:
            self._is_interruptible = False
            raise Stopped

    @contextlib.contextmanager
    def interruptible(self) -> Iterator[None]:
        """A block that a signal may end at any point by raising `Stopped`."""
        self._is_interruptible = True
        try:
            # A signal before the line above did not raise.
            if self.is_stopped:
                raise Stopped
            yield
        finally:
            self._is_interruptible = False

    def pause(self, seconds: float) -> None:
        """Wait, or return early if the program must stop."""
        with contextlib.suppress(Stopped), self.interruptible():
            time.sleep(max(0.0, seconds))

    def _handle(self, *_: Any) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        self.stop()


class StoppableRuntime(BlockingRuntime):
    """A blocking runtime whose pauses, and the requests that `is_interruptible` selects, raise `Stopped` at the stop.

    Select only requests whose answer may be lost, such as the poll of a device, and never the refresh of a token.
    """

    def __init__(
        self, stopper: Stopper, is_interruptible: Callable[[httpx.Request], bool], **http_options: Any
    ) -> None:
        super().__init__(**http_options)
        self._stopper = stopper
        self._is_interruptible = is_interruptible

    async def send(self, request: httpx.Request, timeout_seconds: float) -> Response:
        if not self._is_interruptible(request):
            return await super().send(request, timeout_seconds)
        with self._stopper.interruptible():
            return await super().send(request, timeout_seconds)

    async def sleep(self, seconds: float) -> None:
        with self._stopper.interruptible():
            time.sleep(max(0.0, seconds))
