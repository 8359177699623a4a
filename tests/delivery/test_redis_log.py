import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from itertools import count
from typing import Any

import pytest

from restante.core.cursor import START, Position
from restante.database.database import Database
from restante.delivery import log
from restante.delivery.log import Published
from restante.delivery.redis_address import parse_redis_url
from restante.delivery.redis_log import RedisLog, StreamRead, rebuild_command
from restante.delivery.redis_servers import RedisServers, stream_key
from restante.delivery.signals import Signal
from tests.delivery.rows import signal
from tests.services.redis import RedisServer, running_cluster, until


class Streams:
    """A log and its copy in Redis."""

    def __init__(self, database: Database, url: str) -> None:
        self.database = database
        self._times = count()
        self.log = RedisLog(RedisServers(parse_redis_url(url)), database)
        self._task = asyncio.ensure_future(self.log.servers.run())

    def _signals(self, abouts: Iterable[Any]) -> list[Signal]:
        # Each of a time of its own: looking for a free one is not what is tested here.
        return [signal(about, ts_ms=next(self._times)) for about in abouts]

    async def up(self) -> "Streams":
        await until(lambda: self.log.servers.is_up)
        return self

    async def end(self) -> None:
        await self.log.settled()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def publish(self, device_id: int, *abouts: Any) -> Published:
        return self.database.write_now(log.append, device_id, self._signals(abouts))

    async def copy(self, device_id: int, *abouts: Any) -> Published:
        # Not waited for in the event loop, which has a connection to look after.
        published = await self.database.write(log.append, device_id, self._signals(abouts))
        self.log.copy(published)
        await self.log.settled()
        return published

    async def read(self, device_id: int, cursor: Position | None, limit: int = 10) -> list[Any] | None:
        tail = self.database.read_now(log.read_head, device_id).newest
        (reading,) = await self.log.read([StreamRead(device_id, cursor, tail, limit)])
        await self.log.settled()
        if reading is None:
            return None
        assert reading.head.newest == tail
        return [json.loads(entry.json)["ref"]["about"] for entry in reading.entries]


@pytest.fixture
async def streams(database: Database, empty_redis: RedisServer) -> AsyncIterator[Streams]:
    streams = await Streams(database, empty_redis.url).up()
    yield streams
    await streams.end()


def ids(server: RedisServer, device_id: int) -> list[str]:
    return [identifier.decode() for identifier, _ in server.ask("XRANGE", stream_key(device_id), "-", "+")]


async def test_signals_are_copied_under_their_own_positions(streams: Streams, empty_redis: RedisServer) -> None:
    first = await streams.copy(1, "a", "b")
    second = await streams.copy(1, "c")
    positions = [str(entry.position) for published in (first, second) for entry in published.entries]
    assert ids(empty_redis, 1) == positions
    (_, fields) = empty_redis.ask("XRANGE", stream_key(1), "-", "+")[0]
    assert fields == {b"signal": first.entries[0].json}


async def test_what_is_copied_twice_is_there_once(streams: Streams, empty_redis: RedisServer) -> None:
    published = await streams.copy(1, "a", "b")
    streams.log.copy(published)
    await streams.log.settled()
    assert len(ids(empty_redis, 1)) == 2


async def test_what_follows_the_cursor_is_read(streams: Streams) -> None:
    published = await streams.copy(1, *range(10))
    at = [entry.position for entry in published.entries]
    assert await streams.read(1, at[6]) == [7, 8, 9]
    assert await streams.read(1, at[0], limit=3) == [1, 2, 3]
    assert await streams.read(1, None, limit=3) == [7, 8, 9]
    assert await streams.read(1, None, limit=20) == list(range(10))
    assert streams.log.totals.hits == 4


async def test_the_beginning_and_strange_cursors_are_left_to_the_record(streams: Streams) -> None:
    published = await streams.copy(1, *range(3))
    assert await streams.read(1, START) is None
    second = published.entries[1].position
    assert await streams.read(1, Position(second.ms - 1, second.n)) is None


async def test_a_stream_that_is_gone_proves_nothing_and_is_rebuilt(streams: Streams, empty_redis: RedisServer) -> None:
    published = await streams.copy(1, *range(5))
    before = ids(empty_redis, 1)
    empty_redis.ask("FLUSHALL")
    cursor = published.entries[1].position
    assert await streams.read(1, cursor) is None
    assert ids(empty_redis, 1) == before
    assert await streams.read(1, cursor) == [2, 3, 4]
    assert (streams.log.totals.misses, streams.log.totals.rebuilt) == (1, 1)


async def test_a_stream_that_is_behind_proves_nothing_and_is_rebuilt(streams: Streams) -> None:
    published = await streams.copy(1, *range(5))
    streams.publish(1, "not copied")
    assert await streams.read(1, published.entries[2].position) is None
    assert await streams.read(1, published.entries[2].position) == [3, 4, "not copied"]


async def test_what_does_not_follow_starts_the_stream_anew(streams: Streams, empty_redis: RedisServer) -> None:
    first = await streams.copy(1, "a")
    streams.publish(1, "not copied")
    third = await streams.copy(1, "c")
    assert ids(empty_redis, 1) == [str(third.head.newest)]
    assert await streams.read(1, first.head.newest) is None
    assert await streams.read(1, first.head.newest) == ["not copied", "c"]


async def test_entries_missing_in_the_middle_are_noticed(streams: Streams, empty_redis: RedisServer) -> None:
    published = await streams.copy(1, *range(6))
    at = [entry.position for entry in published.entries]
    empty_redis.ask("XDEL", stream_key(1), str(at[3]))
    assert await streams.read(1, at[1]) is None


async def test_a_history_that_was_undone_is_not_read(streams: Streams, empty_redis: RedisServer) -> None:
    """A backup was restored: the stream goes on where the log did, before; the log has gone on otherwise."""
    published = await streams.copy(1, "a")
    ms, n = published.head.newest
    for number in range(1, 8):
        empty_redis.ask("XADD", stream_key(1), f"{ms}-{n + number}", "signal", '{"ref":{"about":"undone"}}')
    after = streams.publish(1, *range(5))
    assert after.head.newest.n == n + 5
    assert await streams.read(1, published.head.newest, limit=2) is None
    # What was published meanwhile is the log's: the rest of the stream does not follow it, and is dropped.
    await streams.copy(1, "new")
    assert await streams.read(1, published.head.newest, limit=2) is None
    assert await streams.read(1, published.head.newest, limit=2) == [0, 1]


async def test_streams_are_bounded(streams: Streams, empty_redis: RedisServer) -> None:
    for _ in range(13):
        await streams.copy(1, *range(100))
    assert 1000 <= len(ids(empty_redis, 1)) < 1200


async def test_a_rebuild_that_comes_late_does_not_undo_what_was_copied(
    streams: Streams, empty_redis: RedisServer
) -> None:
    await streams.copy(1, "a")
    older = streams.database.read_now(log.read, 1, None, 10).entries
    newer = await streams.copy(1, "b")
    key = stream_key(1)
    assert await streams.log.servers.ask([(key, rebuild_command(key, older))]) == [0]
    assert ids(empty_redis, 1)[-1] == str(newer.head.newest)


async def test_without_redis_nothing_is_copied_and_nothing_proven(
    streams: Streams, redis_alone: RedisServer, database: Database
) -> None:
    lost = await Streams(database, redis_alone.url).up()
    redis_alone.kill()
    await until(lambda: not lost.log.servers.is_up)
    published = await lost.copy(2, "a", "b")
    assert await lost.read(2, published.entries[0].position) is None
    assert (lost.log.totals.copied, lost.log.totals.fallbacks) == (0, 1)
    redis_alone.start()
    await until(lambda: lost.log.servers.is_up)
    assert await lost.read(2, published.entries[0].position) is None
    assert await lost.read(2, published.entries[0].position) == ["b"]
    await lost.end()


@pytest.mark.slow
async def test_in_a_cluster_each_stream_lies_where_its_key_belongs(database: Database) -> None:
    with running_cluster() as masters:
        url = f"redis+cluster://127.0.0.1:{masters[0].port}"
        streams = await Streams(database, url).up()
        published = [streams.publish(device_id, *range(3)) for device_id in range(1, 31)]
        for each in published:
            streams.log.copy(each)
        await streams.log.settled()
        assert all(server.ask("DBSIZE") > 0 for server in masters)
        wanted = [StreamRead(each.device_id, each.entries[0].position, each.head.newest, 10) for each in published]
        readings = await streams.log.read(wanted)
        assert [reading and len(reading.entries) for reading in readings] == [2] * 30
        await streams.end()
