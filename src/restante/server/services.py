"""Background services: kept running while the server runs, and ended with it.

A service that fails is started again after a pause: a fault in one pass must not end delivery for good. Those that
can finish what they are at are told to stop and given time; the others are cut off.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import structlog

log = structlog.get_logger()

RESTART_SECONDS = 1.0


class Service(NamedTuple):
    name: str
    run: Callable[[], Coroutine[Any, Any, None]]
    # How to tell it to come to its end; None for one that may be cut off anywhere.
    stop: Callable[[], None] | None = None


@asynccontextmanager
async def kept_running(services: Sequence[Service], finish_seconds: float) -> AsyncIterator[None]:
    tasks = {service: asyncio.create_task(_keep(service), name=service.name) for service in services}
    try:
        yield
    finally:
        finishing = [tasks[service] for service in services if service.stop is not None]
        for service in services:
            if service.stop is not None:
                service.stop()
        if finishing:
            await asyncio.wait(finishing, timeout=finish_seconds)
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)


def every(seconds: float, work: Callable[[], None]) -> Callable[[], Coroutine[Any, Any, None]]:
    """A service's `run` that does a piece of work again and again."""

    async def run() -> None:
        while True:
            await asyncio.sleep(seconds)
            work()

    return run


async def _keep(service: Service) -> None:
    while True:
        try:
            await service.run()
            return
        except Exception:
            log.exception("a background service failed, it is started again", service=service.name)
        await asyncio.sleep(RESTART_SECONDS)
