import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress

import pytest
from structlog.testing import capture_logs

from restante.core.backoff import PollBackoff
from restante.database.external.external_database import ExternalAddress
from restante.database.external.listener import OutboxListener
from restante.outbox import enqueue
from tests.delivery.external_databases import ApplicationDatabase, end_listeners, postgres_application
from tests.services.postgres import PASSWORD, PostgresServer

TIMEOUT_SECONDS = 60.0
PACE = PollBackoff(retry_seconds=0.01, retry_seconds_max=0.05)


@pytest.fixture
def application(postgres: PostgresServer) -> ApplicationDatabase:
    return postgres_application(postgres, notify=True)


class WakeRecorder:
    """Waits until a condition holds, checking it after every wake-up."""

    def __init__(self) -> None:
        self._woken = asyncio.Event()

    def wake(self) -> None:
        self._woken.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while not condition():
                await self._woken.wait()
                self._woken.clear()


@asynccontextmanager
async def listening(address: ExternalAddress) -> AsyncIterator[tuple[OutboxListener, WakeRecorder]]:
    wakes = WakeRecorder()
    listener = OutboxListener(address, PACE, wakes.wake)
    running = asyncio.create_task(listener.run())
    try:
        yield listener, wakes
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    assert not listener.is_listening


def send(application: ApplicationDatabase, *, times: int = 1, is_committed: bool = True) -> None:
    with closing(application.connect()) as conn:
        for _ in range(times):
            enqueue(conn, 1, {"type": "x"})
        if is_committed:
            conn.commit()
        else:
            conn.rollback()


async def test_commit_wakes_once_and_rollback_does_not(application: ApplicationDatabase) -> None:
    async with listening(application.address) as (listener, wakes):
        await wakes.until(lambda: listener.is_listening)
        await asyncio.to_thread(send, application, is_committed=False)
        await asyncio.to_thread(send, application, times=3)
        await wakes.until(lambda: listener.received_count == 1)
        await asyncio.to_thread(send, application)
        await wakes.until(lambda: listener.received_count == 2)
        assert listener.listen_count == 1


async def test_lost_connection_is_made_again_and_wakes(
    application: ApplicationDatabase, postgres: PostgresServer
) -> None:
    with capture_logs() as lines:
        async with listening(application.address) as (listener, wakes):
            await wakes.until(lambda: listener.listen_count == 1)
            await asyncio.to_thread(end_listeners, postgres)
            await wakes.until(lambda: listener.listen_count == 2)
            await asyncio.to_thread(send, application)
            await wakes.until(lambda: listener.received_count == 1)
    events = [line["event"].removeprefix("[device-outbox] ") for line in lines]
    assert events == [
        "listening for notifications failed, the outbox is still polled",
        "listening for notifications again",
    ]
    assert all(line["source"] == "shop" and PASSWORD not in str(line) for line in lines)


async def test_unreachable_server_is_logged_once_and_retried() -> None:
    address = ExternalAddress("gone", "postgres", "postgresql://ada:s3cret@127.0.0.1:1/shop")
    with capture_logs() as lines:
        async with listening(address) as (listener, _wakes), asyncio.timeout(TIMEOUT_SECONDS):
            while listener.failures < 4:
                await asyncio.sleep(0.001)
    assert len(lines) == 1
    assert "s3cret" not in str(lines)
    assert listener.listen_count == 0
