import asyncio

import pytest

from restante.server import background_services
from restante.server.background_services import every, kept_running
from restante.web.component import Service

TIMEOUT_SECONDS = 10.0


async def test_failed_service_is_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_services, "RESTART_SECONDS", 0)
    starts: asyncio.Queue[int] = asyncio.Queue()

    async def run() -> None:
        starts.put_nowait(1)
        raise ValueError("a fault")

    async with kept_running([Service("faulty", run)], lambda: TIMEOUT_SECONDS):
        for _ in range(3):
            await asyncio.wait_for(starts.get(), TIMEOUT_SECONDS)


async def test_service_with_stop_finishes_at_shutdown_and_others_are_cancelled() -> None:
    stop_requested, finished, cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def finishing() -> None:
        await stop_requested.wait()
        finished.set()

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with kept_running(
        [Service("finishing", finishing, stop_requested.set), Service("endless", endless)], lambda: TIMEOUT_SECONDS
    ):
        await asyncio.sleep(0)
    assert finished.is_set()
    assert cancelled.is_set()


async def test_service_that_does_not_finish_in_time_is_cancelled() -> None:
    async def stubborn() -> None:
        await asyncio.Event().wait()

    async with kept_running([Service("stubborn", stubborn, lambda: None)], lambda: 0.001):
        await asyncio.sleep(0)


async def test_every_repeats_its_work() -> None:
    runs: asyncio.Queue[int] = asyncio.Queue()
    async with kept_running([Service("work", every(0, lambda: runs.put_nowait(1)))], lambda: TIMEOUT_SECONDS):
        for _ in range(3):
            await asyncio.wait_for(runs.get(), TIMEOUT_SECONDS)
