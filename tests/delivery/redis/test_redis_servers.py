import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from redis.crc import key_slot
from structlog.testing import capture_logs

from restante.delivery.redis.redis_address import parse_redis_url
from restante.delivery.redis.redis_connection import RedisCommandError
from restante.delivery.redis.redis_servers import RedisServers, slot_of, stream_key
from tests.services.redis import RedisServer, running_cluster, running_sentinel, until


class Recorder:
    """Records the changes and interruptions that the servers report."""

    def __init__(self) -> None:
        self.changes: list[int | None] = []
        self.interruptions = 0

    def interrupted(self) -> None:
        self.interruptions += 1


@asynccontextmanager
async def running(url: str) -> AsyncIterator[tuple[RedisServers, Recorder]]:
    servers, recorder = RedisServers(parse_redis_url(url)), Recorder()
    servers.on_change = recorder.changes.append
    servers.on_interruption = recorder.interrupted
    task = asyncio.ensure_future(servers.run())
    try:
        yield servers, recorder
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert not servers.is_up


async def test_only_changes_of_streams_are_reported(empty_redis: RedisServer) -> None:
    async with running(empty_redis.url) as (servers, recorder):
        await until(lambda: servers.is_up)
        assert recorder.interruptions == 1
        empty_redis.execute("SET", "device:updates:other", 1)
        empty_redis.execute("SET", "device:other", 1)
        empty_redis.execute("XADD", stream_key(2), "1-1", "signal", "x")
        await until(lambda: bool(recorder.changes))
        assert recorder.changes == [2]
        empty_redis.execute("FLUSHALL")
        await until(lambda: None in recorder.changes)


async def test_shutdown_is_not_logged_as_an_outage(own_redis: RedisServer) -> None:
    with capture_logs() as lines:
        async with running(own_redis.url) as (servers, _recorder):
            await until(lambda: servers.is_up)
    assert [line["log_level"] for line in lines] == ["info"]
    with capture_logs() as lines:
        async with running(own_redis.url) as (servers, _recorder):
            await until(lambda: servers.is_up)
            own_redis.kill()
            await until(lambda: not servers.is_up)
    assert "warning" in [line["log_level"] for line in lines]
    own_redis.start()


async def test_restart_of_redis_is_reported_as_two_interruptions(own_redis: RedisServer) -> None:
    async with running(own_redis.url) as (servers, recorder):
        await until(lambda: servers.is_up)
        own_redis.kill()
        await until(lambda: not servers.is_up)
        assert recorder.interruptions == 2
        assert servers.connection_for(stream_key(1)) is None
        own_redis.start()
        await until(lambda: servers.is_up)
        assert recorder.interruptions == 3
        assert servers.problem is None


async def test_server_that_is_down_at_the_start_is_retried(own_redis: RedisServer) -> None:
    own_redis.kill()
    async with running(own_redis.url) as (servers, recorder):
        await until(lambda: servers.problem is not None)
        assert recorder.interruptions == 0
        own_redis.start()
        await until(lambda: servers.is_up)


async def test_wrong_password_is_reported_without_quoting_it(empty_redis: RedisServer) -> None:
    async with running(f"redis://:wr0ng@127.0.0.1:{empty_redis.port}") as (servers, _):
        await until(lambda: servers.problem is not None)
        assert "wr0ng" not in str(servers.problem)
        assert not servers.is_up


async def test_demoted_master_is_disconnected(own_redis: RedisServer) -> None:
    async with running(own_redis.url) as (servers, _):
        await until(lambda: servers.is_up)
        own_redis.execute("REPLICAOF", "127.0.0.1", 1)
        await until(lambda: not servers.is_up)
        await until(lambda: "slave where a master" in str(servers.problem))
        own_redis.execute("REPLICAOF", "NO", "ONE")
        await until(lambda: servers.is_up)


@pytest.mark.parametrize("message", ["MOVED 1 h:1", "READONLY You can't write"])
async def test_error_of_a_changed_topology_causes_a_reconnect(empty_redis: RedisServer, message: str) -> None:
    async with running(empty_redis.url) as (servers, recorder):
        await until(lambda: servers.is_up)
        servers.check_topology(RedisCommandError("WRONGTYPE Operation"))
        servers.check_topology(RedisCommandError(message))
        await until(lambda: recorder.interruptions >= 3 and servers.is_up)


@pytest.mark.slow
async def test_every_master_of_a_cluster_is_connected_and_tracked() -> None:
    with running_cluster() as masters:
        hosts = ",".join(f"127.0.0.1:{server.port}" for server in masters[:2])
        async with running(f"redis+cluster://{hosts}") as (servers, recorder):
            await until(lambda: servers.is_up)
            found = {servers.connection_for(stream_key(device_id)) for device_id in range(1, 50)}
            assert len(found) == len(masters)
            for device_id in (1, 2, 3, 4, 5, 6):
                # Written on the master of the slot; the others would refuse.
                connection = servers.connection_for(stream_key(device_id))
                assert connection is not None
                await connection.execute_one("XADD", stream_key(device_id), "1-1", "signal", "x")
            assert sum(server.execute("DBSIZE") for server in masters) == 6
            for server in masters:
                for key in server.execute("KEYS", "*"):
                    server.execute("XADD", key, "2-2", "signal", "x")
            await until(lambda: set(recorder.changes) == {1, 2, 3, 4, 5, 6})
            masters[2].kill()
            await until(lambda: not servers.is_up)


@pytest.mark.slow
async def test_replica_promoted_by_sentinel_is_followed() -> None:
    with running_sentinel() as (master, replica, sentinel):
        async with running(f"redis+sentinel://127.0.0.1:{sentinel.port}/updates") as (servers, recorder):
            await until(lambda: servers.is_up)
            await until(lambda: b"slave0" in _raw_info(sentinel))
            master.kill()
            await until(lambda: recorder.interruptions >= 3 and servers.is_up)
            replica.execute("XADD", stream_key(9), "1-1", "signal", "x")
            await until(lambda: 9 in recorder.changes)


def _raw_info(sentinel: RedisServer) -> bytes:
    """Not empty if Sentinel has found the replica."""
    found = sentinel.execute("SENTINEL", "REPLICAS", "updates")
    return b"slave0" if found else b""


def test_slots_of_keys_equal_those_of_redis() -> None:
    for device_id in (0, 1, 7, 4711, 2**63 - 1):
        assert slot_of(stream_key(device_id)) == key_slot(stream_key(device_id))
