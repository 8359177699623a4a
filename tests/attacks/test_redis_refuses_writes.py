"""A Redis that answers and refuses writes is reported, once (promise 18 of SECURITY.md)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from structlog.testing import capture_logs

from restante.database.database import Database
from restante.delivery.redis.redis_address import parse_redis_url
from restante.delivery.redis.redis_connection import Command
from restante.delivery.redis.redis_servers import RedisServers, stream_key
from restante.identity.master_key import MasterKey
from restante.server.redis_component import RedisComponent
from tests.services.redis import RedisServer, until

REFUSED = "redis refuses writes, polls are answered from the database"


def up_metric(component: RedisComponent) -> object:
    return next(sample.value for sample in component.metrics() if sample.name == "restante_redis_up")


@asynccontextmanager
async def running(component: RedisComponent) -> AsyncIterator[RedisServers]:
    assert component.log is not None
    servers = component.log.servers
    task = asyncio.ensure_future(servers.run())
    try:
        await until(lambda: servers.is_up)
        yield servers
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_redis_out_of_memory_is_reported_once_and_recovers(own_redis: RedisServer, database: Database) -> None:
    component = RedisComponent(parse_redis_url(own_redis.url), database, MasterKey(bytes(32)))
    write: list[tuple[bytes, Command]] = [
        (stream_key(7), ("EVAL", "return redis.call('SET', KEYS[1], 'x')", 1, stream_key(7)))
    ]
    with capture_logs() as lines:
        async with running(component) as servers:
            assert up_metric(component) == 1
            own_redis.execute("CONFIG", "SET", "maxmemory-policy", "noeviction")
            own_redis.execute("CONFIG", "SET", "maxmemory", "1")
            for _ in range(3):
                await servers.execute_writes(write)
            assert up_metric(component) == 0
            assert component.unavailable() == ["redis"]
            # Reads are still valid.
            assert servers.is_up
            own_redis.execute("CONFIG", "SET", "maxmemory", "0")
            await until(lambda: up_metric(component) == 1)
            assert own_redis.execute("EXISTS", stream_key(7)) == 0
    assert [line["event"] for line in lines] == ["redis is up", REFUSED, "redis accepts writes again"]
    assert "OOM" in lines[1]["problem"]
