import asyncio

import pytest

from restante.server import services
from restante.server.services import Service, every, kept_running

SOON = 10.0


async def test_a_service_that_fails_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "RESTART_SECONDS", 0)
    starts: asyncio.Queue[int] = asyncio.Queue()

    async def run() -> None:
        starts.put_nowait(1)
        raise ValueError("a fault")

    async with kept_running([Service("faulty", run)], SOON):
        for _ in range(3):
            await asyncio.wait_for(starts.get(), SOON)


async def test_one_that_can_finish_is_let_finish_and_the_others_are_cut_off() -> None:
    told, finished, cut_off = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def finishing() -> None:
        await told.wait()
        finished.set()

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cut_off.set()

    async with kept_running([Service("finishing", finishing, told.set), Service("endless", endless)], SOON):
        await asyncio.sleep(0)
    assert finished.is_set()
    assert cut_off.is_set()


async def test_one_that_does_not_finish_in_time_is_cut_off_too() -> None:
    async def stubborn() -> None:
        await asyncio.Event().wait()

    async with kept_running([Service("stubborn", stubborn, lambda: None)], 0.001):
        await asyncio.sleep(0)


async def test_every_does_its_work_again_and_again() -> None:
    done: asyncio.Queue[int] = asyncio.Queue()
    async with kept_running([Service("work", every(0, lambda: done.put_nowait(1)))], SOON):
        for _ in range(3):
            await asyncio.wait_for(done.get(), SOON)
