"""Two servers' parts on one database and one Redis: what one publishes wakes who waits at the other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from restante.database.database import Database
from restante.delivery import log
from restante.delivery.log import Published
from restante.delivery.presence import Presence
from restante.delivery.redis_address import parse_redis_url
from restante.server.redis_parts import RedisParts
from restante.updates.poll import Poll
from tests.delivery.rows import signal
from tests.server.serving import Served
from tests.services.redis import RedisServer, until
from tests.updates.polling import DEVICE, QUICK, Client


class Parts:
    """What a server has of Redis and polls."""

    def __init__(self, database: Database, url: str) -> None:
        self.database = database
        self.redis = RedisParts(parse_redis_url(url), database)
        self.poll = Poll(self.redis.reader, Presence(database), QUICK)
        self.redis.ring_for(self.poll)

    async def publish(self, *abouts: object) -> Published:
        published = self.database.write_now(log.append, DEVICE, [signal(about) for about in abouts])
        self.poll.hear(published)
        self.redis.copy(published)
        assert self.redis.log is not None
        await self.redis.log.settled()
        return published

    def start(self, cursor: bytes | None, waits: bool = False) -> Client:
        client = Client()
        client.parked = self.poll.start(DEVICE, cursor, 20, waits, client)
        return client


@asynccontextmanager
async def running(parts: Parts) -> AsyncIterator[Parts]:
    (service,) = parts.redis.services()
    task = asyncio.ensure_future(service.run())
    await until(lambda: not parts.redis.away())
    try:
        yield parts
    finally:
        parts.poll.close()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_poll_parked_at_one_server_is_woken_by_what_another_publishes(
    database: Database, empty_redis: RedisServer
) -> None:
    async with (
        running(Parts(database, empty_redis.url)) as here,
        running(Parts(database, empty_redis.url)) as there,
    ):
        first = await there.publish("a")
        cursor = str(first.head.newest).encode()
        waiting = here.start(cursor, waits=True)
        await until(lambda: here.poll.bell.waiting_count == 1)
        await there.publish("b")
        assert await waiting.signals() == ["b"]
        # And one that does not wait is not told from memory that there is nothing.
        assert await here.start(cursor).signals() == ["b"]


async def test_an_idle_poll_asks_nobody_after_the_first(database: Database, empty_redis: RedisServer) -> None:
    async with running(Parts(database, empty_redis.url)) as here:
        cursor = str((await here.publish("a")).head.newest).encode()
        await here.start(cursor).answer()
        database.close()
        before = empty_redis.ask("INFO", "stats")["total_commands_processed"]
        for _ in range(10):
            assert here.start(cursor).status == 204
        # Counting is a command itself, and so is each look whether the server is still a master.
        assert empty_redis.ask("INFO", "stats")["total_commands_processed"] - before < 10


async def test_when_redis_was_away_who_waits_looks_again(database: Database, redis_alone: RedisServer) -> None:
    async with running(Parts(database, redis_alone.url)) as here:
        cursor = str((await here.publish("a")).head.newest).encode()
        waiting = here.start(cursor, waits=True)
        assert here.poll.bell.waiting_count == 1
        # Published by somebody who could not tell us.
        database.write_now(log.append, DEVICE, [signal("b")])
        redis_alone.kill()
        assert await waiting.signals() == ["b"]
        assert here.redis.away() == ["redis"]


def test_without_an_address_there_is_nothing_of_it(database: Database) -> None:
    parts = RedisParts(None, database)
    assert list(parts.services()) == []
    assert parts.away() == []
    assert ("restante_redis_up", None, 0.0) in list(parts.values())


@pytest.mark.parametrize("is_there", [True, False])
def test_a_server_serves_with_and_without_it(tmp_path: Path, redis_alone: RedisServer, is_there: bool) -> None:
    if not is_there:
        redis_alone.kill()
    served = Served(tmp_path, redis_url=parse_redis_url(redis_alone.url))
    try:
        served.until(lambda: served.node.redis.away() == ([] if is_there else ["redis"]))
        base = f"http://127.0.0.1:{served.fast_port}"
        ready = httpx.get(f"{base}/readyz").json()["data"]
        assert (ready["status"], ready.get("away", [])) == ("ready", [] if is_there else ["redis"])
        assert f"restante_redis_up {float(is_there)}" in httpx.get(f"{base}/metrics").text
    finally:
        served.close()
