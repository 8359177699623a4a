import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from redis.crc import key_slot
from structlog.testing import capture_logs

from restante.delivery.redis_address import parse_redis_url
from restante.delivery.redis_connection import RedisRefused
from restante.delivery.redis_servers import RedisServers, slot_of, stream_key
from tests.services.redis import RedisServer, running_cluster, running_sentinel, until


class Heard:
    def __init__(self) -> None:
        self.rings: list[int | None] = []
        self.interruptions = 0

    def interrupted(self) -> None:
        self.interruptions += 1


@asynccontextmanager
async def running(url: str) -> AsyncIterator[tuple[RedisServers, Heard]]:
    servers, heard = RedisServers(parse_redis_url(url)), Heard()
    servers.on_ring = heard.rings.append
    servers.on_interruption = heard.interrupted
    task = asyncio.ensure_future(servers.run())
    try:
        yield servers, heard
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not servers.is_up


async def test_changes_of_streams_ring_and_of_nothing_else(empty_redis: RedisServer) -> None:
    async with running(empty_redis.url) as (servers, heard):
        await until(lambda: servers.is_up)
        assert heard.interruptions == 1
        empty_redis.ask("SET", "device:updates:other", 1)
        empty_redis.ask("SET", "device:other", 1)
        empty_redis.ask("XADD", stream_key(2), "1-1", "signal", "x")
        await until(lambda: bool(heard.rings))
        assert heard.rings == [2]
        empty_redis.ask("FLUSHALL")
        await until(lambda: None in heard.rings)


async def test_who_stops_does_not_call_redis_away(redis_alone: RedisServer) -> None:
    with capture_logs() as lines:
        async with running(redis_alone.url) as (servers, _heard):
            await until(lambda: servers.is_up)
    assert [line["log_level"] for line in lines] == ["info"]
    with capture_logs() as lines:
        async with running(redis_alone.url) as (servers, _heard):
            await until(lambda: servers.is_up)
            redis_alone.kill()
            await until(lambda: not servers.is_up)
    assert "warning" in [line["log_level"] for line in lines]
    redis_alone.start()


async def test_it_comes_up_again_after_a_restart_and_each_time_says_so(redis_alone: RedisServer) -> None:
    async with running(redis_alone.url) as (servers, heard):
        await until(lambda: servers.is_up)
        redis_alone.kill()
        await until(lambda: not servers.is_up)
        assert heard.interruptions == 2
        assert servers.connection_for(stream_key(1)) is None
        redis_alone.start()
        await until(lambda: servers.is_up)
        assert heard.interruptions == 3
        assert servers.problem is None


async def test_one_that_is_away_at_the_start_is_waited_for(redis_alone: RedisServer) -> None:
    redis_alone.kill()
    async with running(redis_alone.url) as (servers, heard):
        await until(lambda: servers.problem is not None)
        assert heard.interruptions == 0
        redis_alone.start()
        await until(lambda: servers.is_up)


async def test_a_wrong_password_is_a_problem_that_does_not_repeat_it(empty_redis: RedisServer) -> None:
    async with running(f"redis://:wr0ng@127.0.0.1:{empty_redis.port}") as (servers, _):
        await until(lambda: servers.problem is not None)
        assert "wr0ng" not in str(servers.problem)
        assert not servers.is_up


async def test_a_master_that_is_made_a_replica_is_left(redis_alone: RedisServer) -> None:
    async with running(redis_alone.url) as (servers, _):
        await until(lambda: servers.is_up)
        redis_alone.ask("REPLICAOF", "127.0.0.1", 1)
        await until(lambda: not servers.is_up)
        await until(lambda: "slave where a master" in str(servers.problem))
        redis_alone.ask("REPLICAOF", "NO", "ONE")
        await until(lambda: servers.is_up)


@pytest.mark.parametrize("said", ["MOVED 1 h:1", "READONLY You can't write"])
async def test_an_answer_that_shows_a_change_leads_to_finding_out_anew(empty_redis: RedisServer, said: str) -> None:
    async with running(empty_redis.url) as (servers, heard):
        await until(lambda: servers.is_up)
        servers.doubt(RedisRefused("WRONGTYPE Operation"))
        servers.doubt(RedisRefused(said))
        await until(lambda: heard.interruptions >= 3 and servers.is_up)


@pytest.mark.slow
async def test_in_a_cluster_each_master_is_connected_and_heard() -> None:
    with running_cluster() as masters:
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in masters[:2])
        async with running(f"redis+cluster://{hosts}") as (servers, heard):
            await until(lambda: servers.is_up)
            found = {servers.connection_for(stream_key(device_id)) for device_id in range(1, 50)}
            assert len(found) == len(masters)
            for device_id in (1, 2, 3, 4, 5, 6):
                # Written on the master that has the slot: the others would refuse.
                connection = servers.connection_for(stream_key(device_id))
                assert connection is not None
                await connection.ask_one("XADD", stream_key(device_id), "1-1", "signal", "x")
            assert sum(server.ask("DBSIZE") for server in masters) == 6
            for server in masters:
                for key in server.ask("KEYS", "*"):
                    server.ask("XADD", key, "2-2", "signal", "x")
            await until(lambda: set(heard.rings) == {1, 2, 3, 4, 5, 6})
            masters[2].kill()
            await until(lambda: not servers.is_up)


@pytest.mark.slow
async def test_with_sentinel_the_promoted_replica_is_followed() -> None:
    with running_sentinel() as (master, replica, sentinel):
        async with running(f"redis+sentinel://127.0.0.1:{sentinel.port}/updates") as (servers, heard):
            await until(lambda: servers.is_up)
            await until(lambda: b"slave0" in _raw_info(sentinel))
            master.kill()
            await until(lambda: heard.interruptions >= 3 and servers.is_up)
            replica.ask("XADD", stream_key(9), "1-1", "signal", "x")
            await until(lambda: 9 in heard.rings)


def _raw_info(sentinel: RedisServer) -> bytes:
    """Whether it has found the replica."""
    found = sentinel.ask("SENTINEL", "REPLICAS", "updates")
    return b"slave0" if found else b""


def test_keys_fall_into_the_slots_that_a_cluster_says() -> None:
    for device_id in (0, 1, 7, 4711, 2**63 - 1):
        assert slot_of(stream_key(device_id)) == key_slot(stream_key(device_id))
