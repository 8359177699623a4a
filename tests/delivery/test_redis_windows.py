"""Rate windows in a real Redis: what is written there, and what is read back whatever became of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from restante.delivery import redis_windows
from restante.delivery.redis_address import parse_redis_url
from restante.delivery.redis_servers import RedisServers
from restante.delivery.redis_windows import RedisWindows, held_key, window_key
from restante.delivery.window_copies import HandOut, Held, Queue, Window
from tests.services.redis import RedisServer, running_cluster, until

NOW_MS = 1_800_000_000_000
WINDOW = Window(7, "MINER_RESTART", 60_000)
KEY = window_key(7, "MINER_RESTART")
SITE = Queue(7, None)
HELD = Held(42, NOW_MS + 25_000, 3, ("MINER_RESTART",))


@asynccontextmanager
async def running(url: str) -> AsyncIterator[RedisWindows]:
    servers = RedisServers(parse_redis_url(url))
    task = asyncio.ensure_future(servers.run())
    await until(lambda: servers.is_up)
    try:
        yield RedisWindows(servers)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def windows(empty_redis: RedisServer) -> AsyncIterator[RedisWindows]:
    async with running(empty_redis.url) as windows:
        yield windows


async def keep(windows: RedisWindows, *handed_out: HandOut, held: Held | None = None, queue: Queue = SITE) -> None:
    windows.keep(list(handed_out), queue, held, NOW_MS)
    await windows.settled()


def at(seconds: float, name: str, window: Window = WINDOW) -> HandOut:
    return HandOut(window, NOW_MS + int(seconds * 1000), name)


async def test_hand_outs_are_kept_where_the_contract_says(windows: RedisWindows, empty_redis: RedisServer) -> None:
    await keep(windows, at(0, "cmd_a:1"), at(1, "cmd_b:1"))
    assert KEY == b"ratelimit:7:MINER_RESTART"
    kept = empty_redis.ask("ZRANGE", KEY, 0, -1, "WITHSCORES")
    assert kept == [[b"cmd_a:1", NOW_MS], [b"cmd_b:1", NOW_MS + 1000]]
    assert 0 < empty_redis.ask("PTTL", KEY) <= 61_000


async def test_a_window_is_counted_by_what_is_in_it(windows: RedisWindows) -> None:
    assert await windows.fillings([WINDOW], NOW_MS) == [None]
    await keep(windows, at(0, "a"), at(10, "b"))
    await keep(windows, at(10, "b"), at(20, "c"))
    assert await windows.fillings([WINDOW], NOW_MS + 20_000) == [(3, NOW_MS)]
    assert await windows.fillings([WINDOW], NOW_MS + 59_999) == [(3, NOW_MS)]
    # The oldest leaves at its moment, not after it.
    assert await windows.fillings([WINDOW], NOW_MS + 60_000) == [(2, NOW_MS + 10_000)]


async def test_what_a_clock_far_ahead_has_left_does_not_count(windows: RedisWindows) -> None:
    await keep(windows, at(3600, "ahead"))
    assert await windows.fillings([WINDOW], NOW_MS) == [None]


async def test_old_hand_outs_are_removed(windows: RedisWindows, empty_redis: RedisServer) -> None:
    await keep(windows, at(0, "old"))
    await keep(windows, at(60, "new"))
    assert empty_redis.ask("ZCARD", KEY) == 1


async def test_what_was_found_is_told_until_it_is_over(windows: RedisWindows, empty_redis: RedisServer) -> None:
    zone = Queue(7, 3)
    await keep(windows, held=HELD)
    await keep(windows, held=Held(43, NOW_MS + 10**6, 1, ("A", "B")), queue=zone)
    await keep(windows, held=Held(44, NOW_MS, 1, ("A",)), queue=Queue(8, None))
    assert await windows.held_at([SITE, zone, Queue(8, None), Queue(7, 4)]) == [
        HELD,
        Held(43, NOW_MS + 10**6, 1, ("A", "B")),
        None,
        None,
    ]
    assert 0 < empty_redis.ask("PTTL", held_key(SITE)) <= 25_000
    assert 0 < empty_redis.ask("PTTL", held_key(zone)) <= redis_windows.HELD_MS_MAX


@pytest.mark.parametrize("written", [b"", b"[1]", b"\xff", b'{"horizon": 1}'])
async def test_what_somebody_else_wrote_is_not_taken_for_ours(
    windows: RedisWindows, empty_redis: RedisServer, written: bytes
) -> None:
    empty_redis.ask("SET", held_key(SITE), written)
    empty_redis.ask("SET", KEY, written)
    assert await windows.held_at([SITE]) == [None]
    assert await windows.fillings([WINDOW], NOW_MS) == [None]
    await keep(windows, at(0, "a"), held=HELD)
    assert await windows.held_at([SITE]) == [HELD]


async def test_without_redis_nothing_is_kept_and_nothing_known(redis_alone: RedisServer) -> None:
    async with running(redis_alone.url) as windows:
        redis_alone.kill()
        await until(lambda: not windows.is_up)
        await keep(windows, at(0, "a"), held=HELD)
        assert await windows.held_at([SITE]) == [None]
        assert await windows.fillings([WINDOW], NOW_MS) == [None]
        redis_alone.start()
        await until(lambda: windows.is_up)
        assert await windows.held_at([SITE]) == [None]


async def test_too_many_that_wait_are_left_out(windows: RedisWindows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redis_windows, "HAND_OUTS_WAITING_MAX", 2)
    windows.keep([at(0, "a"), at(0, "b")], SITE, None, NOW_MS)
    windows.keep([at(0, "c")], SITE, None, NOW_MS)
    await windows.settled()
    assert await windows.fillings([WINDOW], NOW_MS) == [(2, NOW_MS)]


async def test_in_a_cluster_every_key_is_found_where_it_belongs() -> None:
    with running_cluster() as servers:
        async with running(f"redis+cluster://127.0.0.1:{servers[0].port}") as windows:
            several = [Window(site, kind, 60_000) for site in range(1, 20) for kind in ("A", "B")]
            queues = [Queue(site, None) for site in range(1, 20)]
            for queue in queues:
                windows.keep(
                    [at(0, f"{each.kind}", each) for each in several if each[0] == queue[0]], queue, HELD, NOW_MS
                )
            await windows.settled()
            assert await windows.fillings(several, NOW_MS) == [(1, NOW_MS)] * len(several)
            assert await windows.held_at(queues) == [HELD] * len(queues)
            assert all(server.ask("DBSIZE") > 0 for server in servers)
