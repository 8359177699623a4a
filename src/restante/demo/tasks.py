"""Tasks that go on until the demo ends."""

import asyncio
from collections.abc import Iterable
from typing import Any

AGAIN_SECONDS = 0.5


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel the tasks until they have ended.

    Before Python 3.12, `asyncio.wait_for` loses a cancellation that comes together with its result: once is not enough.
    """
    pending = {task for task in tasks if not task.done()}
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=AGAIN_SECONDS)


async def first_error(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Wait until one of the tasks fails, and raise its error."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    for task in done:
        task.result()
