"""Polls whose signals are published by other nodes, or whose commit events arrive out of order."""

import pytest

from restante.core.cursor import Position, parse_cursor
from restante.database.database import Database
from restante.delivery.log.log import SignalsPublished
from tests.updates.poll_harness import DEVICE, OTHER_DEVICE, QUICK, PausedReader, UpdatesHarness


@pytest.fixture
async def paused(database: Database) -> tuple[UpdatesHarness, PausedReader]:
    reader = PausedReader(database)
    harness = UpdatesHarness(database, QUICK, reader)
    # As with commits of another node: the poll gets only the commit events that a test passes on.
    harness.handles_commits = False
    return harness, reader


async def test_foreign_publication_is_read_for_parked_polls_and_noted_for_others(
    paused: tuple[UpdatesHarness, PausedReader],
) -> None:
    harness, reader = paused
    waiting = await harness.parked(b"0-0")
    idle = harness.start(b"0-0", waits=False, device=OTHER_DEVICE)
    assert idle.status == 204
    reads = reader.reads
    newest, others = await harness.publish(1, 2), await harness.publish(3, device=OTHER_DEVICE)
    harness.poll.published_elsewhere(DEVICE, parse_cursor(newest.decode()))
    harness.poll.published_elsewhere(OTHER_DEVICE, parse_cursor(others.decode()))
    assert await waiting.signals() == [1, 2]
    assert reader.reads == reads + 1
    assert harness.poll.waiters.known == {DEVICE: newest, OTHER_DEVICE: others}


async def test_foreign_publication_for_unknown_device_is_not_noted(paused: tuple[UpdatesHarness, PausedReader]) -> None:
    harness, _ = paused
    harness.poll.published_elsewhere(DEVICE, Position(1, 1))
    assert harness.poll.waiters.known == {}


async def test_read_begun_before_a_foreign_publication_is_not_cached(
    paused: tuple[UpdatesHarness, PausedReader],
) -> None:
    harness, reader = paused
    reader.is_paused = True
    client = harness.start(b"0-0", waits=True)
    newest = await harness.publish(1)
    harness.poll.published_elsewhere(DEVICE, parse_cursor(newest.decode()))
    reader.resume()
    assert not client.is_finished
    reader.is_paused = False
    reader.resume()
    assert await client.signals() == [1]
    assert harness.poll.waiters.known == {DEVICE: newest}
    # When all reads have returned, nothing about them is kept.
    harness.poll.waiters.forget_all()
    harness.poll.published_elsewhere(DEVICE, Position(1, 1))
    assert harness.poll.waiters.known == {}


async def test_known_position_causes_no_read(paused: tuple[UpdatesHarness, PausedReader]) -> None:
    harness, reader = paused
    newest = await harness.publish(1)
    client = await harness.parked(newest)
    reads = reader.reads
    harness.poll.published_elsewhere(DEVICE, parse_cursor(newest.decode()))
    assert reader.reads == reads
    assert not client.is_finished


async def test_publications_out_of_order_are_delivered_in_order(paused: tuple[UpdatesHarness, PausedReader]) -> None:
    harness, _ = paused
    client = await harness.parked(b"0-0")
    publications: list[SignalsPublished] = []
    harness.database.on_commit(
        lambda events: publications.extend(each for each in events if isinstance(each, SignalsPublished))
    )
    for about in (1, 2, 3):
        await harness.publish(about)
    first, second, third = publications
    for published in (first, third, second):
        harness.poll.published_here(published)
    assert await client.signals() == [1, 2, 3]
