import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from restante.core.cursor import START, Position
from restante.core.errors import CursorExpired
from restante.database.database import Database
from restante.delivery import log
from restante.delivery.log import Reading
from restante.delivery.log_reader import ReadResult
from restante.delivery.redis_reader import RedisReader
from tests.delivery.rows import signal
from tests.delivery.test_redis_log import Streams
from tests.services.redis import RedisServer

SOON = 30.0
DEVICE = 1


class Reads:
    def __init__(self, streams: Streams) -> None:
        self.streams = streams
        self.known: dict[int, bytes] = {}
        self.reader = RedisReader(streams.database, streams.log)
        self.reader.known = self.known

    def know(self) -> None:
        head = self.streams.database.read_now(log.read_head, DEVICE)
        self.known[DEVICE] = str(head.newest).encode()

    async def __call__(self, cursor: Position | None, limit: int = 10) -> ReadResult:
        answered: asyncio.Future[ReadResult] = asyncio.get_running_loop().create_future()
        self.reader.read(DEVICE, cursor, limit, answered.set_result)
        return await asyncio.wait_for(answered, SOON)

    async def abouts(self, cursor: Position | None, limit: int = 10) -> list[Any]:
        reading = await self(cursor, limit)
        assert isinstance(reading, Reading), reading
        return [json.loads(entry.json)["ref"]["about"] for entry in reading.entries]


@pytest.fixture
async def reads(database: Database, empty_redis: RedisServer) -> AsyncIterator[Reads]:
    streams = await Streams(database, empty_redis.url).up()
    yield Reads(streams)
    await streams.end()


@pytest.mark.parametrize("is_known", [False, True])
async def test_what_the_stream_proves_comes_from_it(reads: Reads, is_known: bool) -> None:
    published = await reads.streams.copy(DEVICE, *range(5))
    if is_known:
        reads.know()
    assert await reads.abouts(published.entries[2].position) == [3, 4]
    assert await reads.abouts(None, 2) == [3, 4]
    assert reads.streams.log.totals.hits == 2


async def test_what_it_does_not_prove_comes_from_the_record(reads: Reads, empty_redis: RedisServer) -> None:
    published = await reads.streams.copy(DEVICE, *range(5))
    empty_redis.ask("FLUSHALL")
    assert await reads.abouts(published.entries[2].position) == [3, 4]
    assert await reads.abouts(START) == [0, 1, 2, 3, 4]
    assert reads.streams.log.totals.hits == 0


async def test_where_the_log_stands_is_enough_for_some(reads: Reads) -> None:
    assert await reads.abouts(None) == []
    assert await reads.abouts(START) == []
    published = await reads.streams.copy(DEVICE, "a")
    newest = published.head.newest
    assert await reads.abouts(newest) == []
    unknown = await reads(Position(newest.ms, newest.n + 1))
    assert isinstance(unknown, CursorExpired)
    assert unknown.params["reason"] == "cursor_unknown"
    assert reads.streams.log.totals.hits == reads.streams.log.totals.misses == 0


async def test_a_trimmed_cursor_expires_as_without_redis(reads: Reads, database: Database) -> None:
    for start in range(0, 1200, 100):
        published = database.write_now(
            log.append, DEVICE, [signal(about, ts_ms=start + about) for about in range(100)], 50
        )
        reads.streams.log.copy(published)
    await reads.streams.log.settled()
    reads.know()
    for cursor in (START, Position(1, 1)):
        expired = await reads(cursor)
        assert isinstance(expired, CursorExpired)
        with pytest.raises(CursorExpired) as as_without:
            database.read_now(log.read, DEVICE, cursor, 10)
        assert expired.params == as_without.value.params


async def test_memory_that_is_behind_refuses_nobody(reads: Reads) -> None:
    """Another server has published, and a device that was told there comes here before we were."""
    await reads.streams.copy(DEVICE, "a")
    reads.know()
    second = await reads.streams.copy(DEVICE, "b")
    assert await reads.abouts(second.head.newest) == []


async def test_with_redis_away_everything_comes_from_the_record(reads: Reads, database: Database) -> None:
    published = await reads.streams.copy(DEVICE, "a", "b")
    reads.streams.log.servers.is_up = False
    assert await reads.abouts(published.entries[0].position) == ["b"]
    assert reads.streams.log.totals.fallbacks == 1
    reads.streams.log.servers.is_up = True


async def test_a_database_that_fails_is_told_to_each(reads: Reads, database: Database) -> None:
    database.close()
    answers = await asyncio.gather(reads(START), reads(None))
    assert all(isinstance(answer, Exception) for answer in answers)


async def test_a_fault_of_the_streams_costs_no_answer(reads: Reads, monkeypatch: pytest.MonkeyPatch) -> None:
    published = await reads.streams.copy(DEVICE, "a", "b")

    async def fail(_wanted: object) -> None:
        raise RuntimeError("unforeseen")

    monkeypatch.setattr(reads.streams.log, "read", fail)
    assert await reads.abouts(published.entries[0].position) == ["b"]
