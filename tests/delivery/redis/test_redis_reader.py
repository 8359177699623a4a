import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from restante.core.cursor import START, Position
from restante.core.errors import CursorExpired
from restante.database.database import Database
from restante.delivery.log import log
from restante.delivery.log.log import LogSlice
from restante.delivery.log.log_reader import ReadResult
from restante.delivery.redis.redis_reader import RedisReader
from tests.defaults import append_signals
from tests.delivery.redis.test_redis_log import CopiedLog
from tests.delivery.rows import signal
from tests.services.redis import RedisServer

TIMEOUT_SECONDS = 30.0
DEVICE = 1


class DeviceReader:
    """DeviceReader the log of one device through Redis."""

    def __init__(self, copied: CopiedLog) -> None:
        self.copied = copied
        self.known: dict[int, bytes] = {}
        self.reader = RedisReader(copied.database, copied.log)
        self.reader.known = self.known

    def cache_tail(self) -> None:
        head = self.copied.database.read_now(log.read_head, DEVICE)
        self.known[DEVICE] = str(head.newest).encode()

    async def __call__(self, cursor: Position | None, limit: int = 10) -> ReadResult:
        result: asyncio.Future[ReadResult] = asyncio.get_running_loop().create_future()
        self.reader.read(DEVICE, cursor, limit, result.set_result)
        return await asyncio.wait_for(result, TIMEOUT_SECONDS)

    async def abouts(self, cursor: Position | None, limit: int = 10) -> list[Any]:
        log_slice = await self(cursor, limit)
        assert isinstance(log_slice, LogSlice), log_slice
        return [json.loads(entry.json)["ref"]["about"] for entry in log_slice.entries]


@pytest.fixture
async def reader(database: Database, empty_redis: RedisServer) -> AsyncIterator[DeviceReader]:
    copied = await CopiedLog(database, empty_redis.url).up()
    yield DeviceReader(copied)
    await copied.end()


@pytest.mark.parametrize("is_known", [False, True])
async def test_complete_read_comes_from_the_stream(reader: DeviceReader, is_known: bool) -> None:
    published = await reader.copied.copy(DEVICE, *range(5))
    if is_known:
        reader.cache_tail()
    assert await reader.abouts(published.entries[2].position) == [3, 4]
    assert await reader.abouts(None, 2) == [3, 4]
    assert reader.copied.log.counters.hits == 2


async def test_incomplete_read_comes_from_the_database(reader: DeviceReader, empty_redis: RedisServer) -> None:
    published = await reader.copied.copy(DEVICE, *range(5))
    empty_redis.execute("FLUSHALL")
    assert await reader.abouts(published.entries[2].position) == [3, 4]
    assert await reader.abouts(START) == [0, 1, 2, 3, 4]
    assert reader.copied.log.counters.hits == 0


async def test_some_results_need_only_the_head(reader: DeviceReader) -> None:
    assert await reader.abouts(None) == []
    assert await reader.abouts(START) == []
    published = await reader.copied.copy(DEVICE, "a")
    newest = published.head.newest
    assert await reader.abouts(newest) == []
    unknown = await reader(Position(newest.ms, newest.n + 1))
    assert isinstance(unknown, CursorExpired)
    assert unknown.params["reason"] == "cursor_unknown"
    assert reader.copied.log.counters.hits == reader.copied.log.counters.misses == 0


async def test_trimmed_cursor_expires_as_without_redis(reader: DeviceReader, database: Database) -> None:
    for start in range(0, 1200, 100):
        published = database.write_now(
            append_signals, DEVICE, [signal(about, ts_ms=start + about) for about in range(100)], 50
        )
        reader.copied.log.copy(published)
    await reader.copied.log.wait_until_idle()
    reader.cache_tail()
    for cursor in (START, Position(1, 1)):
        expired = await reader(cursor)
        assert isinstance(expired, CursorExpired)
        with pytest.raises(CursorExpired) as without_redis:
            database.read_now(log.read, DEVICE, cursor, 10)
        assert expired.params == without_redis.value.params


async def test_stale_cache_does_not_expire_a_valid_cursor(reader: DeviceReader) -> None:
    """Another node has published; a device that polled there polls here before this node knows it."""
    await reader.copied.copy(DEVICE, "a")
    reader.cache_tail()
    second = await reader.copied.copy(DEVICE, "b")
    assert await reader.abouts(second.head.newest) == []


async def test_reads_come_from_the_database_while_redis_is_down(reader: DeviceReader, database: Database) -> None:
    published = await reader.copied.copy(DEVICE, "a", "b")
    reader.copied.log.servers.is_up = False
    assert await reader.abouts(published.entries[0].position) == ["b"]
    assert reader.copied.log.counters.fallbacks == 1
    reader.copied.log.servers.is_up = True


async def test_database_error_reaches_every_request(reader: DeviceReader, database: Database) -> None:
    database.close()
    results = await asyncio.gather(reader(START), reader(None))
    assert all(isinstance(result, Exception) for result in results)


async def test_error_of_the_streams_falls_back_to_the_database(
    reader: DeviceReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = await reader.copied.copy(DEVICE, "a", "b")

    async def fail(_requests: object) -> None:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(reader.copied.log, "read", fail)
    assert await reader.abouts(published.entries[0].position) == ["b"]
