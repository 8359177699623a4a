import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from itertools import count
from typing import Any

import pytest

from restante.core.cursor import START, Position
from restante.database.database import Database
from restante.delivery.log import log
from restante.delivery.log.log import SignalsPublished
from restante.delivery.log.signals import Signal
from restante.delivery.redis.redis_address import parse_redis_url
from restante.delivery.redis.redis_log import EntryTags, RedisLog, StreamRequest, rebuild_command
from restante.delivery.redis.redis_servers import RedisServers, stream_key
from tests.defaults import append_signals
from tests.delivery.rows import signal
from tests.services.redis import RedisServer, running_cluster, until

TAGS = EntryTags(bytes(32))


class CopiedLog:
    """A log and its copy in Redis."""

    def __init__(self, database: Database, url: str) -> None:
        self.database = database
        self._times = count()
        self.log = RedisLog(RedisServers(parse_redis_url(url)), database, TAGS)
        self._task = asyncio.ensure_future(self.log.servers.run())

    def _signals(self, abouts: Iterable[Any]) -> list[Signal]:
        # Each with its own timestamp: collisions are not tested here.
        return [signal(about, ts_ms=next(self._times)) for about in abouts]

    async def up(self) -> "CopiedLog":
        await until(lambda: self.log.servers.is_up)
        return self

    async def end(self) -> None:
        await self.log.wait_until_idle()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def publish(self, device_id: int, *abouts: Any) -> SignalsPublished:
        return self.database.write_now(append_signals, device_id, self._signals(abouts))

    async def copy(self, device_id: int, *abouts: Any) -> SignalsPublished:
        # Awaited: the event loop must serve the connection meanwhile.
        published = await self.database.write(append_signals, device_id, self._signals(abouts))
        self.log.copy(published)
        await self.log.wait_until_idle()
        return published

    async def read(self, device_id: int, cursor: Position | None, limit: int = 10) -> list[Any] | None:
        tail = self.database.read_now(log.read_head, device_id).newest
        (log_slice,) = await self.log.read([StreamRequest(device_id, cursor, tail, limit)])
        await self.log.wait_until_idle()
        if log_slice is None:
            return None
        assert log_slice.head.newest == tail
        return [json.loads(entry.json)["ref"]["about"] for entry in log_slice.entries]


@pytest.fixture
async def copied(database: Database, empty_redis: RedisServer) -> AsyncIterator[CopiedLog]:
    copied = await CopiedLog(database, empty_redis.url).up()
    yield copied
    await copied.end()


def ids(server: RedisServer, device_id: int) -> list[str]:
    return [identifier.decode() for identifier, _ in server.execute("XRANGE", stream_key(device_id), "-", "+")]


async def test_signals_are_copied_with_their_positions(copied: CopiedLog, empty_redis: RedisServer) -> None:
    first = await copied.copy(1, "a", "b")
    second = await copied.copy(1, "c")
    positions = [str(entry.position) for published in (first, second) for entry in published.entries]
    assert ids(empty_redis, 1) == positions
    (_, fields) = empty_redis.execute("XRANGE", stream_key(1), "-", "+")[0]
    entry = first.entries[0]
    assert fields == {b"signal": entry.json, b"tag": TAGS.of(1, str(entry.position).encode(), entry.json)}


async def test_signals_copied_twice_are_stored_once(copied: CopiedLog, empty_redis: RedisServer) -> None:
    published = await copied.copy(1, "a", "b")
    copied.log.copy(published)
    await copied.log.wait_until_idle()
    assert len(ids(empty_redis, 1)) == 2


async def test_entries_after_the_cursor_are_read(copied: CopiedLog) -> None:
    published = await copied.copy(1, *range(10))
    at = [entry.position for entry in published.entries]
    assert await copied.read(1, at[6]) == [7, 8, 9]
    assert await copied.read(1, at[0], limit=3) == [1, 2, 3]
    assert await copied.read(1, None, limit=3) == [7, 8, 9]
    assert await copied.read(1, None, limit=20) == list(range(10))
    assert copied.log.counters.hits == 4


async def test_start_and_unknown_cursors_are_left_to_the_database(copied: CopiedLog) -> None:
    published = await copied.copy(1, *range(3))
    assert await copied.read(1, START) is None
    second = published.entries[1].position
    assert await copied.read(1, Position(second.ms - 1, second.n)) is None


async def test_missing_stream_is_not_used_and_is_rebuilt(copied: CopiedLog, empty_redis: RedisServer) -> None:
    published = await copied.copy(1, *range(5))
    before = ids(empty_redis, 1)
    empty_redis.execute("FLUSHALL")
    cursor = published.entries[1].position
    assert await copied.read(1, cursor) is None
    assert ids(empty_redis, 1) == before
    assert await copied.read(1, cursor) == [2, 3, 4]
    assert (copied.log.counters.misses, copied.log.counters.rebuilt) == (1, 1)


async def test_stale_stream_is_not_used_and_is_rebuilt(copied: CopiedLog) -> None:
    published = await copied.copy(1, *range(5))
    copied.publish(1, "not copied")
    assert await copied.read(1, published.entries[2].position) is None
    assert await copied.read(1, published.entries[2].position) == [3, 4, "not copied"]


async def test_signals_that_do_not_follow_start_the_stream_anew(copied: CopiedLog, empty_redis: RedisServer) -> None:
    first = await copied.copy(1, "a")
    copied.publish(1, "not copied")
    third = await copied.copy(1, "c")
    assert ids(empty_redis, 1) == [str(third.head.newest)]
    assert await copied.read(1, first.head.newest) is None
    assert await copied.read(1, first.head.newest) == ["not copied", "c"]


async def test_missing_entry_is_detected(copied: CopiedLog, empty_redis: RedisServer) -> None:
    published = await copied.copy(1, *range(6))
    at = [entry.position for entry in published.entries]
    empty_redis.execute("XDEL", stream_key(1), str(at[3]))
    assert await copied.read(1, at[1]) is None


async def test_history_undone_by_a_restore_is_not_read(copied: CopiedLog, empty_redis: RedisServer) -> None:
    """The stream continues the log from before the restore; the log has continued differently."""
    published = await copied.copy(1, "a")
    ms, n = published.head.newest
    for number in range(1, 8):
        position, undone = f"{ms}-{n + number}".encode(), b'{"ref":{"about":"undone"}}'
        tag = TAGS.of(1, position, undone)
        empty_redis.execute("XADD", stream_key(1), position, "signal", undone, "tag", tag)
    after = copied.publish(1, *range(5))
    assert after.head.newest.n == n + 5
    assert await copied.read(1, published.head.newest, limit=2) is None
    # The new signal does not follow the last entry of the stream, which is therefore started anew.
    await copied.copy(1, "new")
    assert await copied.read(1, published.head.newest, limit=2) is None
    assert await copied.read(1, published.head.newest, limit=2) == [0, 1]


async def test_stream_length_is_bounded(copied: CopiedLog, empty_redis: RedisServer) -> None:
    for _ in range(13):
        await copied.copy(1, *range(100))
    assert 1000 <= len(ids(empty_redis, 1)) < 1200


async def test_late_rebuild_does_not_undo_newer_copies(copied: CopiedLog, empty_redis: RedisServer) -> None:
    await copied.copy(1, "a")
    older = copied.database.read_now(log.read, 1, None, 10).entries
    newer = await copied.copy(1, "b")
    command = rebuild_command(1, older, TAGS)
    assert await copied.log.servers.execute([(stream_key(1), command)]) == [0]
    assert ids(empty_redis, 1)[-1] == str(newer.head.newest)


async def test_without_redis_nothing_is_copied_or_read(
    copied: CopiedLog, own_redis: RedisServer, database: Database
) -> None:
    lost = await CopiedLog(database, own_redis.url).up()
    own_redis.kill()
    await until(lambda: not lost.log.servers.is_up)
    published = await lost.copy(2, "a", "b")
    assert await lost.read(2, published.entries[0].position) is None
    assert (lost.log.counters.copied, lost.log.counters.fallbacks) == (0, 1)
    own_redis.start()
    await until(lambda: lost.log.servers.is_up)
    assert await lost.read(2, published.entries[0].position) is None
    assert await lost.read(2, published.entries[0].position) == ["b"]
    await lost.end()


@pytest.mark.slow
async def test_streams_are_distributed_over_the_cluster(database: Database) -> None:
    with running_cluster() as masters:
        url = f"redis+cluster://127.0.0.1:{masters[0].port}"
        copied = await CopiedLog(database, url).up()
        published = [copied.publish(device_id, *range(3)) for device_id in range(1, 31)]
        for each in published:
            copied.log.copy(each)
        await copied.log.wait_until_idle()
        assert all(server.execute("DBSIZE") > 0 for server in masters)
        requests = [StreamRequest(each.device_id, each.entries[0].position, each.head.newest, 10) for each in published]
        slices = await copied.log.read(requests)
        assert [log_slice and len(log_slice.entries) for log_slice in slices] == [2] * 30
        await copied.end()
