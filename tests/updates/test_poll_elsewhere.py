"""What a poll makes of news that came another way than from its own commits, one after another."""

import pytest

from restante.core.cursor import Position, parse_cursor
from restante.database.database import Database
from restante.delivery.log import Published
from tests.updates.polling import DEVICE, NEIGHBOUR, QUICK, HeldReader, Post


@pytest.fixture
async def held(database: Database) -> tuple[Post, HeldReader]:
    reader = HeldReader(database)
    post = Post(database, QUICK, reader)
    # As another node's commits are: nothing of them is heard here but what a test says.
    post.is_listening = False
    return post, reader


async def test_who_waits_reads_and_who_does_not_is_remembered_only(held: tuple[Post, HeldReader]) -> None:
    post, reader = held
    waiting = await post.parked(b"0-0")
    idle = post.start(b"0-0", waits=False, device=NEIGHBOUR)
    assert idle.status == 204
    reads = reader.reads
    newest, others = await post.publish(1, 2), await post.publish(3, device=NEIGHBOUR)
    post.poll.moved(DEVICE, parse_cursor(newest.decode()))
    post.poll.moved(NEIGHBOUR, parse_cursor(others.decode()))
    assert await waiting.signals() == [1, 2]
    assert reader.reads == reads + 1
    assert post.poll.bell.known == {DEVICE: newest, NEIGHBOUR: others}


async def test_of_a_device_that_never_called_nothing_is_remembered(held: tuple[Post, HeldReader]) -> None:
    post, _ = held
    post.poll.moved(DEVICE, Position(1, 1))
    assert post.poll.bell.known == {}


async def test_a_read_that_began_before_the_news_does_not_teach_what_it_found(held: tuple[Post, HeldReader]) -> None:
    post, reader = held
    reader.holding = True
    client = post.start(b"0-0", waits=True)
    newest = await post.publish(1)
    post.poll.moved(DEVICE, parse_cursor(newest.decode()))
    reader.let_go()
    assert not client.is_answered
    reader.holding = False
    reader.let_go()
    assert await client.signals() == [1]
    assert post.poll.bell.known == {DEVICE: newest}
    # When all reads have come back, nothing is kept of their having been.
    post.poll.bell.forget_all()
    post.poll.moved(DEVICE, Position(1, 1))
    assert post.poll.bell.known == {}


async def test_news_that_the_poll_has_already_is_no_news(held: tuple[Post, HeldReader]) -> None:
    post, reader = held
    newest = await post.publish(1)
    client = await post.parked(newest)
    reads = reader.reads
    post.poll.moved(DEVICE, parse_cursor(newest.decode()))
    assert reader.reads == reads
    assert not client.is_answered


async def test_commits_heard_in_another_order_are_read_in_the_right_one(held: tuple[Post, HeldReader]) -> None:
    post, _ = held
    client = await post.parked(b"0-0")
    heard: list[Published] = []
    post.database.on_commit(lambda announced: heard.extend(each for each in announced if isinstance(each, Published)))
    for about in (1, 2, 3):
        await post.publish(about)
    first, second, third = heard
    for published in (first, third, second):
        post.poll.hear(published)
    assert await client.signals() == [1, 2, 3]
