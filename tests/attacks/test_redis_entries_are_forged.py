"""Attack: write signals into the streams of Redis, so that devices get them instead of the true ones."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from restante.core.cursor import START
from restante.database.database import Database
from restante.delivery.redis.redis_log import EntryTags
from restante.delivery.redis.redis_servers import stream_key
from tests.delivery.redis.test_redis_log import TAGS, CopiedLog
from tests.services.redis import RedisServer

FORGED = b'{"ref":{"about":"forged"}}'


@pytest.fixture
async def copied(database: Database, empty_redis: RedisServer) -> AsyncIterator[CopiedLog]:
    copied = await CopiedLog(database, empty_redis.url).up()
    yield copied
    await copied.end()


def forged_tags(position: bytes, signal: bytes) -> list[list[bytes]]:
    """Fields after the signal: none, and tags that an attacker can make or copy."""
    return [
        [],
        [b"tag", b""],
        [b"tag", bytes(16)],
        [b"tag", EntryTags(b"x" * 32).of(1, position, FORGED)],
        [b"tag", TAGS.of(1, position, signal)],
        [b"tag", TAGS.of(2, position, FORGED)],
        [b"tag", TAGS.of(1, b"1-1", FORGED)],
        [b"tag", TAGS.of(1, position, FORGED), b"more", b"x"],
    ]


@pytest.mark.parametrize("attempt", range(8))
async def test_forged_entry_is_never_delivered_and_the_stream_is_rebuilt(
    copied: CopiedLog, empty_redis: RedisServer, attempt: int
) -> None:
    published = await copied.copy(1, "true")
    assert await copied.read(1, None) == ["true"]
    (entry,) = published.entries
    position = b"%d-%d" % entry.position
    fields = forged_tags(position, entry.json)[attempt]
    await asyncio.to_thread(empty_redis.execute, "DEL", stream_key(1))
    await asyncio.to_thread(empty_redis.execute, "XADD", stream_key(1), position, "signal", FORGED, *fields)
    assert await copied.read(1, None) is None
    assert await copied.read(1, None) == ["true"]
    assert copied.log.counters.rebuilt == 1


async def test_entries_that_were_swapped_or_moved_are_not_delivered(
    copied: CopiedLog, empty_redis: RedisServer
) -> None:
    published = await copied.copy(1, "first", "second")
    first, second = published.entries
    await asyncio.to_thread(empty_redis.execute, "DEL", stream_key(1))
    for place, content in ((first, second), (second, first)):
        tag = TAGS.of(1, b"%d-%d" % content.position, content.json)
        arguments = (b"%d-%d" % place.position, "signal", content.json, "tag", tag)
        await asyncio.to_thread(empty_redis.execute, "XADD", stream_key(1), *arguments)
    assert await copied.read(1, None) is None
    assert await copied.read(1, START) is None
    assert await copied.read(1, None) == ["first", "second"]
