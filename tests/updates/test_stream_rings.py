import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest

from restante.database.database import Database
from restante.delivery import log
from restante.updates.stream_rings import StreamRings
from tests.delivery.rows import signal
from tests.delivery.test_redis_log import Streams
from tests.services.redis import RedisServer, until
from tests.updates.polling import DEVICE, Post


class Ringing(NamedTuple):
    streams: Streams
    post: Post
    rings: StreamRings


@pytest.fixture
async def ringing(database: Database, empty_redis: RedisServer) -> AsyncIterator[Ringing]:
    streams, post = await Streams(database, empty_redis.url).up(), Post(database)
    rings = StreamRings(streams.log, post.poll)
    streams.log.servers.on_ring = rings.hear
    yield Ringing(streams, post, rings)
    await streams.end()


async def test_what_was_heard_already_is_no_news(ringing: Ringing) -> None:
    published = await ringing.streams.copy(DEVICE, "a")
    tail = str(published.head.newest).encode()
    await until(lambda: ringing.post.poll.bell.known.get(DEVICE) == tail)
    rings = ringing.streams.log.totals.rings
    ringing.streams.log.copy(published)
    await ringing.streams.copy(DEVICE, "b")
    await until(lambda: ringing.streams.log.totals.rings > rings and ringing.rings._task is None)
    assert ringing.post.poll.bell.known[DEVICE] != tail


async def test_what_another_published_wakes_who_waits(ringing: Ringing) -> None:
    cursor = await ringing.post.publish("a")
    waiting = await ringing.post.parked(cursor)
    ringing.post.is_listening = False
    await ringing.streams.copy(DEVICE, "b")
    assert await waiting.signals() == ["b"]


async def test_a_stream_of_a_device_nobody_knows_is_forgotten_again(ringing: Ringing) -> None:
    before = ringing.post.poll.bell.stamp(99)
    ringing.rings.hear(99)
    assert ringing.post.poll.bell.stamp(99) != before
    assert ringing.rings._task is None


async def test_after_a_flush_everybody_looks_again(ringing: Ringing, database: Database) -> None:
    cursor = await ringing.post.publish("a")
    waiting = await ringing.post.parked(cursor)
    ringing.post.is_listening = False
    await asyncio.to_thread(database.write_now, log.append, DEVICE, [signal("b")])
    ringing.rings.hear(None)
    assert await waiting.signals() == ["b"]
