"""Two servers on one database and one Redis: a signal that one publishes wakes the polls parked at the other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from restante.database.database import Database
from restante.delivery.device_presence import DevicePresence
from restante.delivery.log.log import SignalsPublished
from restante.delivery.redis.redis_address import parse_redis_url
from restante.identity.master_key import MasterKey
from restante.server.redis_component import RedisComponent
from restante.updates.polling.poll import UpdatesPoll
from tests.components import handle, metric_values
from tests.defaults import append_signals
from tests.delivery.rows import signal
from tests.server.live_server import LiveServer
from tests.services.redis import RedisServer, until
from tests.updates.poll_harness import DEVICE, QUICK, PollCall


class PollServer:
    """The Redis component and the updates poll of one server."""

    def __init__(self, database: Database, url: str) -> None:
        self.database = database
        self.redis = RedisComponent(parse_redis_url(url), database, MasterKey(bytes(32)))
        self.poll = UpdatesPoll(self.redis.reader, DevicePresence(database), QUICK)
        self.redis.invalidate_for(self.poll)

    async def publish(self, *abouts: object) -> SignalsPublished:
        published = self.database.write_now(append_signals, DEVICE, [signal(about) for about in abouts])
        self.poll.published_here(published)
        handle(self.redis, published)
        assert self.redis.log is not None
        await self.redis.log.wait_until_idle()
        return published

    def start(self, cursor: bytes | None, waits: bool = False) -> PollCall:
        call = PollCall()
        call.parked = self.poll.start(DEVICE, cursor, 20, waits, call)
        return call


@asynccontextmanager
async def running(server: PollServer) -> AsyncIterator[PollServer]:
    (service,) = server.redis.services()
    task = asyncio.ensure_future(service.run())
    await until(lambda: not server.redis.unavailable())
    try:
        yield server
    finally:
        server.poll.close()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_signal_of_one_server_wakes_the_poll_parked_at_another(
    database: Database, empty_redis: RedisServer
) -> None:
    async with (
        running(PollServer(database, empty_redis.url)) as first,
        running(PollServer(database, empty_redis.url)) as second,
    ):
        published = await second.publish("a")
        cursor = str(published.head.newest).encode()
        parked = first.start(cursor, waits=True)
        await until(lambda: first.poll.parked_count == 1)
        await second.publish("b")
        assert await parked.signals() == ["b"]
        # A poll that does not wait gets it, too, and not an empty response from memory.
        assert await first.start(cursor).signals() == ["b"]


async def test_idle_poll_after_the_first_reads_neither_database_nor_redis(
    database: Database, empty_redis: RedisServer
) -> None:
    async with running(PollServer(database, empty_redis.url)) as server:
        cursor = str((await server.publish("a")).head.newest).encode()
        await server.start(cursor).response()
        database.close()
        before = empty_redis.execute("INFO", "stats")["total_commands_processed"]
        for _ in range(10):
            assert server.start(cursor).status == 204
        # INFO itself is counted, and so is each check that the Redis server is still a master.
        assert empty_redis.execute("INFO", "stats")["total_commands_processed"] - before < 10


async def test_parked_poll_reads_the_database_again_after_redis_fails(
    database: Database, own_redis: RedisServer
) -> None:
    async with running(PollServer(database, own_redis.url)) as server:
        cursor = str((await server.publish("a")).head.newest).encode()
        parked = server.start(cursor, waits=True)
        assert server.poll.parked_count == 1
        # A signal without an invalidation: Redis does not have it.
        database.write_now(append_signals, DEVICE, [signal("b")])
        own_redis.kill()
        assert await parked.signals() == ["b"]
        assert server.redis.unavailable() == ["redis"]


def test_component_without_an_address_has_no_services_and_is_not_up(database: Database) -> None:
    component = RedisComponent(None, database, MasterKey(bytes(32)))
    assert list(component.services()) == []
    assert component.unavailable() == []
    assert metric_values(component)["restante_redis_up",] == 0.0


@pytest.mark.parametrize("is_available", [True, False])
def test_server_is_ready_with_and_without_redis(tmp_path: Path, own_redis: RedisServer, is_available: bool) -> None:
    if not is_available:
        own_redis.kill()
    server = LiveServer(tmp_path, redis_url=parse_redis_url(own_redis.url))
    try:
        server.wait_until(lambda: server.node.redis.unavailable() == ([] if is_available else ["redis"]))
        base_url = f"http://127.0.0.1:{server.fast_port}"
        ready = httpx.get(f"{base_url}/readyz").json()["data"]
        assert (ready["status"], ready.get("away", [])) == ("ready", [] if is_available else ["redis"])
        assert f"restante_redis_up {float(is_available)}" in httpx.get(f"{base_url}/metrics").text
    finally:
        server.close()
