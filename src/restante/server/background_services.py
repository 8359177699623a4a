"""Background services: the server keeps them running, and ends them when it stops.

A service that fails is started again after a pause: a fault in one pass must not end delivery for good. At shutdown, a
service with `stop` gets time to finish its current work; the others are cancelled.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import structlog

from restante.web.component import Service

log = structlog.get_logger()

RESTART_SECONDS = 1.0


@asynccontextmanager
async def kept_running(services: Sequence[Service], seconds_left: Callable[[], float]) -> AsyncIterator[None]:
    """`seconds_left` is called at the end: the time for services with `stop` to finish their current work."""
    tasks = {service: asyncio.create_task(_keep(service), name=service.name) for service in services}
    try:
        yield
    finally:
        finishing = [tasks[service] for service in services if service.stop is not None]
        for service in services:
            if service.stop is not None:
                service.stop()
        if finishing:
            await asyncio.wait(finishing, timeout=seconds_left())
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)


def every(seconds: float, work: Callable[[], None]) -> Callable[[], Coroutine[Any, Any, None]]:
    """A service's `run` that calls `work` periodically."""

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
            log.exception("background service failed, restarting it", service=service.name)
        await asyncio.sleep(RESTART_SECONDS)
