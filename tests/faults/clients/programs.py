"""The client programs under test, as processes: unmodified, or with a planted bug.

    python -m tests.faults.clients.programs BUG MARKER device|collector|receiver run --config FILE

`none` is the unmodified `restante-agent`. With a bug the process kills itself once, at the worst point, when that
point is passed for the third time; the file MARKER then says that it has happened, and the next process has the bug
without the crash.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from restante_client import (
    BlockingCollectorClient,
    CollectorClient,
    Command,
    DeviceClient,
    EventReceiver,
    Result,
    Signal,
)
from restante_client.agent.main import main
from restante_client.collector.store import CollectorStore
from restante_client.device.store import DeviceStore
from restante_client.runtime import blocking

CRASH_AT = 3


class CrashOnce:
    def __init__(self, marker: Path) -> None:
        self._marker = marker
        self._passes = 0

    def pass_by(self) -> None:
        self._passes += 1
        if self._passes == CRASH_AT and not self._marker.exists():
            self._marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)


def cursor_before_handler(crash: CrashOnce) -> None:
    """A device that saves the cursor of a response before its signals are handled."""
    poll, is_handled = DeviceClient.poll, DeviceStore.is_handled
    cursor = ""

    async def poll_and_remember(self: DeviceClient, wait_seconds: int = 0) -> Any:
        nonlocal cursor
        result = await poll(self, wait_seconds)
        cursor = result.cursor
        return result

    def save_first(self: DeviceStore, signal: Signal) -> bool:
        self.save_cursor(cursor)
        crash.pass_by()
        return is_handled(self, signal)

    DeviceClient.poll = poll_and_remember  # type: ignore[method-assign]
    DeviceStore.is_handled = save_first  # type: ignore[method-assign]


def ack_before_execution(crash: CrashOnce) -> None:
    """A collector that reports success and executes the command afterwards."""

    async def acknowledge_first(self: CollectorClient, command: Command, execute: Any) -> None:
        self.store.start(command)
        await self.acknowledge(command, Result())
        await self.flush()
        crash.pass_by()
        execute(command)

    BlockingCollectorClient.carry_out = blocking(acknowledge_first)


def execution_not_recorded(crash: CrashOnce) -> None:
    """A collector that does not record a command before it executes it, and ends before the result is stored."""
    finish = CollectorStore.finish

    def finish_after_crash(self: CollectorStore, *args: Any, **options: Any) -> None:
        crash.pass_by()
        finish(self, *args, **options)

    CollectorStore.start = lambda self, command: None  # type: ignore[method-assign]
    CollectorStore.finish = finish_after_crash  # type: ignore[method-assign]


def acknowledge_before_store(crash: CrashOnce) -> None:
    """A receiver that acknowledges a token before it is stored."""
    verify = EventReceiver._verify

    async def verify_and_acknowledge(self: EventReceiver, jti: str, token: str, received: float) -> None:
        await verify(self, jti, token, received)
        await self._call_with_token({"maxEvents": 0, "ack": [jti]}, 0.0)
        crash.pass_by()

    EventReceiver._verify = verify_and_acknowledge  # type: ignore[method-assign]


BUGS = (cursor_before_handler, ack_before_execution, execution_not_recorded, acknowledge_before_store)


if __name__ == "__main__":
    name, marker, *arguments = sys.argv[1:]
    for bug in BUGS:
        if bug.__name__ == name:
            bug(CrashOnce(Path(marker)))
    sys.exit(main(arguments))
