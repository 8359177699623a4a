import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress

import pytest
from structlog.testing import capture_logs

from restante.core.pace import Pace
from restante.database.outside import OutsideAddress
from restante.database.outside_listener import OutsideListener
from restante.outbox import enqueue
from tests.delivery.outside import Place, end_listeners, in_postgres
from tests.services.postgres import PASSWORD, PostgresServer

SOON = 60.0
PACE = Pace(away_seconds=0.01, away_seconds_max=0.05)


@pytest.fixture
def place(postgres: PostgresServer) -> Place:
    return in_postgres(postgres, notify=True)


class Rings:
    """Lets a test wait for them."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        self._rung.set()

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(SOON):
            while not is_so():
                await self._rung.wait()
                self._rung.clear()


@asynccontextmanager
async def listening(address: OutsideAddress) -> AsyncIterator[tuple[OutsideListener, Rings]]:
    rings = Rings()
    listener = OutsideListener(address, PACE, rings.ring)
    running = asyncio.create_task(listener.run())
    try:
        yield listener, rings
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    assert not listener.is_listening


def send(place: Place, *, times: int = 1, is_committed: bool = True) -> None:
    with closing(place.connect()) as conn:
        for _ in range(times):
            enqueue(conn, 1, {"type": "x"})
        if is_committed:
            conn.commit()
        else:
            conn.rollback()


async def test_a_commit_rings_once_and_what_is_rolled_back_does_not(place: Place) -> None:
    async with listening(place.address) as (listener, rings):
        await rings.until(lambda: listener.is_listening)
        await asyncio.to_thread(send, place, is_committed=False)
        await asyncio.to_thread(send, place, times=3)
        await rings.until(lambda: listener.heard_count == 1)
        await asyncio.to_thread(send, place)
        await rings.until(lambda: listener.heard_count == 2)
        assert listener.begun_count == 1


async def test_a_connection_that_was_lost_is_made_again_and_that_rings(place: Place, postgres: PostgresServer) -> None:
    with capture_logs() as lines:
        async with listening(place.address) as (listener, rings):
            await rings.until(lambda: listener.begun_count == 1)
            await asyncio.to_thread(end_listeners, postgres)
            await rings.until(lambda: listener.begun_count == 2)
            await asyncio.to_thread(send, place)
            await rings.until(lambda: listener.heard_count == 1)
    said = [line["event"].removeprefix("[device-outbox] ") for line in lines]
    assert said == [
        "notifications are not heard, the outbox is looked into all the same",
        "notifications are heard again",
    ]
    assert all(line["source"] == "shop" and PASSWORD not in str(line) for line in lines)


async def test_one_that_is_away_is_said_once_and_tried_again() -> None:
    address = OutsideAddress("gone", "postgres", "postgresql://ada:s3cret@127.0.0.1:1/shop")
    with capture_logs() as lines:
        async with listening(address) as (listener, _rings), asyncio.timeout(SOON):
            while listener.failures < 4:
                await asyncio.sleep(0.001)
    assert len(lines) == 1
    assert "s3cret" not in str(lines)
    assert listener.begun_count == 0
