import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest

from restante.database.database import Database
from restante.updates.polling.redis_invalidation import RedisInvalidation
from tests.defaults import append_signals
from tests.delivery.redis.test_redis_log import CopiedLog
from tests.delivery.rows import signal
from tests.services.redis import RedisServer, until
from tests.updates.poll_harness import DEVICE, UpdatesHarness


class InvalidationHarness(NamedTuple):
    streams: CopiedLog
    harness: UpdatesHarness
    invalidation: RedisInvalidation


@pytest.fixture
async def harness(database: Database, empty_redis: RedisServer) -> AsyncIterator[InvalidationHarness]:
    streams, harness = await CopiedLog(database, empty_redis.url).up(), UpdatesHarness(database)
    invalidation = RedisInvalidation(streams.log, harness.poll)
    streams.log.servers.on_change = invalidation.handle_change
    yield InvalidationHarness(streams, harness, invalidation)
    await streams.end()


async def test_own_publish_does_not_drop_the_known_tail(harness: InvalidationHarness) -> None:
    published = await harness.streams.copy(DEVICE, "a")
    tail = str(published.head.newest).encode()
    await until(lambda: harness.harness.poll.waiters.known.get(DEVICE) == tail)
    rings = harness.streams.log.counters.invalidations
    harness.streams.log.copy(published)
    await harness.streams.copy(DEVICE, "b")
    await until(lambda: harness.streams.log.counters.invalidations > rings and harness.invalidation._task is None)
    assert harness.harness.poll.waiters.known[DEVICE] != tail


async def test_publish_of_another_server_wakes_a_parked_poll(harness: InvalidationHarness) -> None:
    cursor = await harness.harness.publish("a")
    waiting = await harness.harness.parked(cursor)
    harness.harness.handles_commits = False
    await harness.streams.copy(DEVICE, "b")
    assert await waiting.signals() == ["b"]


async def test_change_of_an_unknown_device_is_a_notification(harness: InvalidationHarness) -> None:
    before = harness.harness.poll.waiters.last_notified(99)
    harness.invalidation.handle_change(99)
    assert harness.harness.poll.waiters.last_notified(99) != before
    assert harness.invalidation._task is None


async def test_flush_makes_all_parked_polls_read_again(harness: InvalidationHarness, database: Database) -> None:
    cursor = await harness.harness.publish("a")
    waiting = await harness.harness.parked(cursor)
    harness.harness.handles_commits = False
    await asyncio.to_thread(database.write_now, append_signals, DEVICE, [signal("b")])
    harness.invalidation.handle_change(None)
    assert await waiting.signals() == ["b"]
