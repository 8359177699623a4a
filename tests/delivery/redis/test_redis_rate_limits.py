"""Rate windows in a real Redis: what is written, and what is read back after losses and foreign writes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from restante.delivery.redis import redis_rate_limits
from restante.delivery.redis.rate_limit_mirror import (
    DispatchRecord,
    MirroredLimit,
    QueueSnapshot,
    SiteQueue,
    WindowUsage,
)
from restante.delivery.redis.redis_address import parse_redis_url
from restante.delivery.redis.redis_rate_limits import RedisRateLimits, snapshot_key, window_key
from restante.delivery.redis.redis_servers import RedisServers
from tests.services.redis import RedisServer, running_cluster, until

NOW_MS = 1_800_000_000_000
WINDOW = MirroredLimit(7, "MINER_RESTART", 60_000)
KEY = window_key(7, "MINER_RESTART")
SITE = SiteQueue(7, None)
SNAPSHOT = QueueSnapshot(42, NOW_MS + 25_000, 3, ("MINER_RESTART",))


@asynccontextmanager
async def running(url: str) -> AsyncIterator[RedisRateLimits]:
    servers = RedisServers(parse_redis_url(url))
    task = asyncio.ensure_future(servers.run())
    await until(lambda: servers.is_up)
    try:
        yield RedisRateLimits(servers)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def windows(empty_redis: RedisServer) -> AsyncIterator[RedisRateLimits]:
    async with running(empty_redis.url) as windows:
        yield windows


async def record(
    windows: RedisRateLimits,
    *dispatched: DispatchRecord,
    snapshot: QueueSnapshot | None = None,
    queue: SiteQueue = SITE,
) -> None:
    windows.record(list(dispatched), queue, snapshot, NOW_MS)
    await windows.wait_until_idle()


def at(seconds: float, name: str, window: MirroredLimit = WINDOW) -> DispatchRecord:
    return DispatchRecord(window, NOW_MS + int(seconds * 1000), name)


async def test_dispatches_are_stored_under_the_specified_key(
    windows: RedisRateLimits, empty_redis: RedisServer
) -> None:
    await record(windows, at(0, "cmd_a:1"), at(1, "cmd_b:1"))
    assert KEY == b"ratelimit:7:MINER_RESTART"
    stored = empty_redis.execute("ZRANGE", KEY, 0, -1, "WITHSCORES")
    assert stored == [[b"cmd_a:1", NOW_MS], [b"cmd_b:1", NOW_MS + 1000]]
    assert 0 < empty_redis.execute("PTTL", KEY) <= 61_000


async def test_usage_counts_dispatches_within_the_window(windows: RedisRateLimits) -> None:
    assert await windows.read_usage([WINDOW], NOW_MS) == [None]
    await record(windows, at(0, "a"), at(10, "b"))
    await record(windows, at(10, "b"), at(20, "c"))
    assert await windows.read_usage([WINDOW], NOW_MS + 20_000) == [WindowUsage(3, NOW_MS)]
    assert await windows.read_usage([WINDOW], NOW_MS + 59_999) == [WindowUsage(3, NOW_MS)]
    # The oldest leaves exactly at the end of its window.
    assert await windows.read_usage([WINDOW], NOW_MS + 60_000) == [WindowUsage(2, NOW_MS + 10_000)]


async def test_dispatch_of_a_clock_far_ahead_is_not_counted(windows: RedisRateLimits) -> None:
    await record(windows, at(3600, "ahead"))
    assert await windows.read_usage([WINDOW], NOW_MS) == [None]


async def test_old_dispatches_are_removed(windows: RedisRateLimits, empty_redis: RedisServer) -> None:
    await record(windows, at(0, "old"))
    await record(windows, at(60, "new"))
    assert empty_redis.execute("ZCARD", KEY) == 1


async def test_snapshot_is_read_until_it_expires(windows: RedisRateLimits, empty_redis: RedisServer) -> None:
    zone = SiteQueue(7, 3)
    await record(windows, snapshot=SNAPSHOT)
    await record(windows, snapshot=QueueSnapshot(43, NOW_MS + 10**6, 1, ("A", "B")), queue=zone)
    await record(windows, snapshot=QueueSnapshot(44, NOW_MS, 1, ("A",)), queue=SiteQueue(8, None))
    assert await windows.read_snapshots([SITE, zone, SiteQueue(8, None), SiteQueue(7, 4)]) == [
        SNAPSHOT,
        QueueSnapshot(43, NOW_MS + 10**6, 1, ("A", "B")),
        None,
        None,
    ]
    assert 0 < empty_redis.execute("PTTL", snapshot_key(SITE)) <= 25_000
    assert 0 < empty_redis.execute("PTTL", snapshot_key(zone)) <= redis_rate_limits.SNAPSHOT_MS_MAX


@pytest.mark.parametrize("written", [b"", b"[1]", b"\xff", b'{"horizon": 1}'])
async def test_foreign_values_are_ignored(windows: RedisRateLimits, empty_redis: RedisServer, written: bytes) -> None:
    empty_redis.execute("SET", snapshot_key(SITE), written)
    empty_redis.execute("SET", KEY, written)
    assert await windows.read_snapshots([SITE]) == [None]
    assert await windows.read_usage([WINDOW], NOW_MS) == [None]
    await record(windows, at(0, "a"), snapshot=SNAPSHOT)
    assert await windows.read_snapshots([SITE]) == [SNAPSHOT]


async def test_without_redis_nothing_is_recorded_or_known(own_redis: RedisServer) -> None:
    async with running(own_redis.url) as windows:
        own_redis.kill()
        await until(lambda: not windows.is_up)
        await record(windows, at(0, "a"), snapshot=SNAPSHOT)
        assert await windows.read_snapshots([SITE]) == [None]
        assert await windows.read_usage([WINDOW], NOW_MS) == [None]
        own_redis.start()
        await until(lambda: windows.is_up)
        assert await windows.read_snapshots([SITE]) == [None]


async def test_full_queue_drops_dispatches(windows: RedisRateLimits, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_rate_limits, "DISPATCHES_QUEUED_MAX", 2)
    windows.record([at(0, "a"), at(0, "b")], SITE, None, NOW_MS)
    windows.record([at(0, "c")], SITE, None, NOW_MS)
    await windows.wait_until_idle()
    assert await windows.read_usage([WINDOW], NOW_MS) == [WindowUsage(2, NOW_MS)]


async def test_keys_are_distributed_over_the_cluster() -> None:
    with running_cluster() as servers:
        async with running(f"redis+cluster://127.0.0.1:{servers[0].port}") as windows:
            several = [MirroredLimit(site, kind, 60_000) for site in range(1, 20) for kind in ("A", "B")]
            queues = [SiteQueue(site, None) for site in range(1, 20)]
            for queue in queues:
                windows.record(
                    [at(0, f"{each.kind}", each) for each in several if each.site_id == queue.site_id],
                    queue,
                    SNAPSHOT,
                    NOW_MS,
                )
            await windows.wait_until_idle()
            assert await windows.read_usage(several, NOW_MS) == [WindowUsage(1, NOW_MS)] * len(several)
            assert await windows.read_snapshots(queues) == [SNAPSHOT] * len(queues)
            assert all(server.execute("DBSIZE") > 0 for server in servers)
