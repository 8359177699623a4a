import asyncio
import json
import random
from typing import Any

import pytest

from restante.core.cursor import parse_cursor
from restante.core.errors import TooManyRequests
from restante.database.database import Database
from restante.database.errors import DatabaseUnavailable
from restante.delivery import log
from restante.updates.poll import PollOptions
from restante.updates.rollout import Rollout
from restante.web.answer import Answer
from tests.conftest import START_MS, ManualClock
from tests.delivery.holding import hold_readers
from tests.delivery.rows import signal
from tests.updates.polling import DEVICE, NEIGHBOUR, QUICK, HeldReader, Post, about, header


@pytest.fixture
async def post(database: Database) -> Post:
    return Post(database)


@pytest.fixture
async def held(database: Database) -> tuple[Post, HeldReader]:
    reader = HeldReader(database)
    return Post(database, QUICK, reader), reader


async def test_a_device_that_never_had_a_signal_is_told_the_first_cursor(post: Post) -> None:
    answer = await post.start(None, waits=False).answer()
    assert (answer.status, answer.body) == (204, b"")
    assert dict(answer.headers).keys() == {b"etag", b"cache-control", b"x-poll-interval"}
    assert (header(answer, b"etag"), header(answer, b"cache-control")) == (b"0-0", b"no-store")


async def test_signals_are_given_with_the_cursor_of_the_last(post: Post) -> None:
    newest = await post.publish(1, 2)
    answer = await post.start(b"0-0", waits=False).answer()
    assert json.loads(answer.body) == {
        "data": {
            "cursor": newest.decode(),
            "signals": [
                {"type": "x", "ts_ms": 1, "ref": {"about": 1}},
                {"type": "x", "ts_ms": 2, "ref": {"about": 2}},
            ],
        }
    }
    assert header(answer, b"etag") == newest
    assert header(answer, b"content-type") == b"application/json"
    assert header(answer, b"cache-control") == b"no-store"


async def test_a_limit_gives_the_oldest_first_and_the_rest_next_time(post: Post) -> None:
    await post.publish(*range(5))
    seen, cursor = [], b"0-0"
    for _ in range(3):
        answer = await post.start(cursor, limit=2, waits=False).answer()
        seen += about(answer)
        cursor = header(answer, b"etag")
    assert seen == [0, 1, 2, 3, 4]
    assert (await post.start(cursor, waits=False).answer()).status == 204


async def test_without_a_cursor_the_newest_are_given(post: Post) -> None:
    newest = await post.publish(*range(30))
    answer = await post.start(None, limit=3, waits=False).answer()
    assert about(answer) == [27, 28, 29]
    assert header(answer, b"etag") == newest


async def test_an_expired_cursor_is_told_how_to_recover(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "TRIM_SLACK", 0)
    newest = await post.publish(*range(5), keep=2)
    for cursor, reason in ((b"0-0", "cursor_trimmed"), (newest + b"0", "cursor_unknown")):
        answer = await post.start(cursor, waits=True).answer()
        assert answer.status == 409
        assert json.loads(answer.body)["error"] == {
            "code": 40901,
            "what": "Cursor expired. Reset required.",
            "params": {
                "action": "full_resync",
                "reason": reason,
                "reset_cursor": newest.decode(),
                "earliest_retained_id": f"{START_MS}-4",
            },
        }
    assert post.poll.totals.cursor_expired == 2
    assert post.waiting() == []


async def test_an_idle_poll_is_answered_from_memory(post: Post) -> None:
    cursor = await post.publish(1)
    go_on = hold_readers(post.database)
    client = post.start(cursor, waits=False)
    assert client.status == 204
    sent = b"".join(b"%b: %b\r\n" % pair for pair in client.answered.result().headers)
    answer = post.poll.idle_answer(DEVICE, cursor, b"date: now\r\n")
    assert answer == b"HTTP/1.1 204 No Content\r\ndate: now\r\n" + sent + b"\r\n"
    assert post.poll.idle_answer(DEVICE, b"0-0", b"") is None
    assert post.poll.idle_answer(NEIGHBOUR, b"0-0", b"") is None
    assert post.poll.totals.idle == 2
    go_on()


async def test_what_a_read_found_is_remembered(held: tuple[Post, HeldReader]) -> None:
    post, reader = held
    post.is_listening = False
    cursor = await post.publish(1)
    for _ in range(3):
        assert (await post.start(cursor, waits=False).answer()).status == 204
    assert reader.reads == 1


async def test_a_parked_poll_is_woken_with_the_news_and_reads_nothing(post: Post) -> None:
    client = await post.parked(await post.publish(1))
    go_on = hold_readers(post.database)
    newest = await post.publish(2)
    assert await client.signals() == [2]
    assert header(client.answered.result(), b"etag") == newest
    assert post.waiting() == []
    go_on()


async def test_a_parked_poll_is_not_woken_by_anothers_news(post: Post) -> None:
    client = await post.parked()
    other = await post.parked(device=NEIGHBOUR)
    await post.publish(1, device=NEIGHBOUR)
    assert await other.signals() == [1]
    assert not client.is_answered


async def test_what_is_published_together_is_told_together(database: Database) -> None:
    # Long enough for three commits on a busy machine.
    post = Post(database, PollOptions(coalesce_seconds=2.0))
    client = await post.parked()
    for one in (1, 2, 3):
        await post.publish(one)
    assert await client.signals() == [1, 2, 3]


async def test_a_woken_poll_gets_no_more_than_its_limit_and_the_rest_next_time(post: Post) -> None:
    client = await post.parked(limit=2)
    await post.publish(1, 2, 3)
    answer = await client.answer()
    assert about(answer) == [1, 2]
    assert await post.start(header(answer, b"etag")).signals() == [3]


async def test_a_wait_that_is_over_is_a_204_with_the_cursor(post: Post) -> None:
    cursor = await post.publish(1)
    client = await post.parked(cursor)
    post.expire(client)
    assert client.status == 204
    assert header(client.answered.result(), b"etag") == cursor
    # Neither a second end of the wait, nor a hang-up, nor news changes that.
    post.expire(client)
    post.abandon(client)
    await post.publish(2)
    assert post.waiting() == []


async def test_whoever_hung_up_is_not_answered(post: Post) -> None:
    client = await post.parked()
    post.abandon(client)
    assert post.poll.bell.waiting_count == 0
    await post.publish(1)
    post.expire(client)
    assert not client.is_answered


async def test_news_in_the_coalescing_moment_of_one_who_hung_up_reaches_who_came_after(
    database: Database,
) -> None:
    post = Post(database, PollOptions(coalesce_seconds=0.05))
    gone = await post.parked()
    await post.publish(1)
    post.abandon(gone)
    cursor = await post.publish(2)
    client = await post.parked(cursor)
    await post.publish(3)
    assert await client.signals() == [3]


async def test_news_heard_during_a_read_is_read_by_who_waits(held: tuple[Post, HeldReader]) -> None:
    post, reader = held
    reader.holding = True
    client = post.start(b"0-0")
    await post.publish(1)
    reader.let_go()
    assert not client.is_answered
    assert post.waiting() == []
    reader.let_go()
    assert await client.signals() == [1]


async def test_news_heard_during_a_read_is_left_for_the_next_poll_of_who_does_not_wait(
    held: tuple[Post, HeldReader],
) -> None:
    post, reader = held
    reader.holding = True
    client = post.start(b"0-0", waits=False)
    newest = await post.publish(1)
    reader.let_go()
    assert client.status == 204
    assert header(client.answered.result(), b"etag") == b"0-0"
    assert post.poll.bell.known[DEVICE] == newest
    again = post.start(b"0-0", waits=False)
    reader.let_go()
    assert await again.signals() == [1]


async def test_news_that_a_read_has_seen_already_is_not_told_twice(held: tuple[Post, HeldReader]) -> None:
    post, _ = held
    post.is_listening = False
    published = await post.database.write(log.append, DEVICE, [signal(1)])
    cursor = str(published.head.newest).encode()
    client = await post.parked(cursor)
    # The commit is heard only now, though the read saw what it brought.
    post.poll.hear(published)
    await asyncio.sleep(0.01)
    assert not client.is_answered
    post.is_listening = True
    await post.publish(2)
    assert await client.signals() == [2]


async def test_knowledge_dropped_during_a_read_is_not_put_back_by_it(held: tuple[Post, HeldReader]) -> None:
    post, reader = held
    reader.holding = True
    client = post.start(b"0-0")
    await post.publish(1)
    # What was heard is dropped again: the read, which is older, must not pass for the newest.
    post.poll.bell.forget_all()
    reader.let_go()
    assert post.poll.bell.known == {}
    assert post.waiting() == []
    reader.let_go()
    assert await client.signals() == [1]


async def test_knowledge_dropped_during_a_read_delays_parking_by_one_read(held: tuple[Post, HeldReader]) -> None:
    post, reader = held
    reader.holding = True
    client = post.start(b"0-0")
    post.poll.bell.forget_all()
    reader.let_go()
    assert post.waiting() == []
    reader.let_go()
    assert post.waiting() == [client.parked]
    assert post.poll.bell.known == {DEVICE: b"0-0"}


@pytest.mark.parametrize("with_news", [False, True])
async def test_a_wait_that_is_over_during_a_read_is_answered_by_the_read(
    held: tuple[Post, HeldReader], with_news: bool
) -> None:
    post, reader = held
    if with_news:
        post.is_listening = False
        await post.publish(1)
    reader.holding = True
    client = post.start(b"0-0")
    post.expire(client)
    assert not client.is_answered
    reader.let_go()
    assert client.status == (200 if with_news else 204)
    assert post.waiting() == []


async def test_a_wait_that_is_over_during_a_read_is_not_read_for_again(held: tuple[Post, HeldReader]) -> None:
    post, reader = held
    reader.holding = True
    client = post.start(b"0-0")
    await post.publish(1)
    post.expire(client)
    reader.let_go()
    assert client.status == 204
    assert reader.held == []


async def test_one_who_hung_up_during_a_read_is_neither_answered_nor_parked(
    held: tuple[Post, HeldReader],
) -> None:
    post, reader = held
    for instead in (None, DatabaseUnavailable("gone")):
        reader.holding = True
        client = post.start(b"0-0")
        post.abandon(client)
        reader.let_go(instead)
        assert not client.is_answered
        assert post.poll.bell.waiting_count == 0


async def test_closing_answers_everyone_and_parks_nobody(held: tuple[Post, HeldReader]) -> None:
    post, reader = held
    waiting = [await post.parked(), await post.parked(), await post.parked(device=NEIGHBOUR)]
    reader.holding = True
    reading, twice = post.start(None), post.start(None)
    post.poll.close()
    assert [client.status for client in waiting] == [204, 204, 204]
    post.poll.bell.forget_all()
    reader.let_go()
    reader.let_go()
    assert (reading.status, twice.status) == (204, 204)
    late = post.start(None)
    reader.let_go()
    assert late.status == 204
    known = post.start(b"0-0")
    assert known.status == 204
    assert post.poll.bell.waiting_count == 0


async def test_closing_in_a_coalescing_moment_answers_once(database: Database) -> None:
    post = Post(database, PollOptions(coalesce_seconds=0.01))
    client = await post.parked()
    await post.publish(1)
    post.poll.close()
    assert client.status == 204
    await asyncio.sleep(0.02)
    assert await post.start(header(client.answered.result(), b"etag")).signals() == [1]


async def test_a_log_that_cannot_be_read_is_a_503_that_says_when_to_come_back(
    held: tuple[Post, HeldReader],
) -> None:
    post, reader = held
    reader.holding = True
    client = post.start(b"0-0")
    reader.let_go(DatabaseUnavailable("disk full at sector 7"))
    answer = await client.answer()
    assert answer.status == 503
    assert 1 <= int(header(answer, b"retry-after")) <= 6
    assert b"sector" not in answer.body
    assert post.waiting() == []


async def test_polls_of_one_device_each_go_by_their_own_cursor(post: Post) -> None:
    first = await post.publish(1)
    second = await post.publish(2)
    at_tail = await post.parked(second)
    assert await post.start(first).signals() == [2]
    assert await post.start(b"0-0").signals() == [1, 2]
    other = await post.parked(second)
    await post.publish(3)
    assert (await at_tail.signals(), await other.signals()) == ([3], [3])


async def test_one_parked_before_news_that_was_missed_is_given_that_too(post: Post) -> None:
    client = await post.parked()
    post.is_listening = False
    missed = await post.publish(1)
    later = await post.parked(missed)
    post.is_listening = True
    await post.publish(2)
    assert await client.signals() == [1, 2]
    assert await later.signals() == [2]


async def test_looking_again_finds_what_was_missed_and_leaves_the_others_parked(post: Post) -> None:
    missing, idle = await post.parked(), await post.parked(device=NEIGHBOUR)
    post.is_listening = False
    await post.publish(1)
    post.poll.look_again()
    assert await missing.signals() == [1]
    while idle.parked not in post.waiting(NEIGHBOUR):
        await asyncio.sleep(0)
    assert not idle.is_answered
    post.is_listening = True
    await post.publish(2, device=NEIGHBOUR)
    assert await idle.signals() == [2]


@pytest.mark.parametrize("ends_with", ["news", "closing", "a read"])
async def test_one_that_cannot_be_told_costs_the_others_nothing(held: tuple[Post, HeldReader], ends_with: str) -> None:
    def broken(_answer: Answer) -> None:
        raise RuntimeError("the transport is closed")

    post, reader = held
    reader.holding = ends_with == "a read"
    clients = [post.start(b"0-0", device=device) for device in (DEVICE, DEVICE, NEIGHBOUR)]
    assert clients[0].parked is not None
    clients[0].parked.reply = broken
    if ends_with == "news":
        post.is_listening = False
        for device in (DEVICE, NEIGHBOUR):
            post.poll.hear(await post.database.write(log.append, device, [signal("news")]))
        assert [await client.signals() for client in clients[1:]] == [["news"], ["news"]]
    elif ends_with == "closing":
        post.poll.close()
        assert [client.status for client in clients[1:]] == [204, 204]
    else:
        reader.let_go(DatabaseUnavailable("gone"))
        assert [client.status for client in clients[1:]] == [503, 503]
    assert post.poll.bell.waiting_count == 0


async def test_a_poll_that_is_not_polite_is_refused_and_not_noted_as_seen(database: Database) -> None:
    post = Post(database, PollOptions(burst=3, rate_per_second=0.001, retry_after_spread_seconds=0))
    assert [post.poll.admit(DEVICE) for _ in range(3)] == [None, None, None]
    assert post.poll.admit(NEIGHBOUR) is None
    assert post.poll._presence.seen.keys() == {DEVICE, NEIGHBOUR}
    post.poll._presence.seen.clear()
    refusal = post.poll.admit(DEVICE)
    assert isinstance(refusal, TooManyRequests)
    assert refusal.retry_after_seconds == pytest.approx(1000, abs=2)
    assert post.poll._presence.seen == {}
    assert post.poll.totals.rate_limited == 1


async def test_the_interval_is_the_base_or_the_rollouts_while_the_newest_signal_is_young(post: Post) -> None:
    options = post.poll.options
    cursor = await post.publish(1)
    for after_seconds, base in ((0, 15), (599, 15), (601, 300)):
        post.poll.tick(START_MS / 1000 + after_seconds)
        answer = await post.start(cursor, waits=False).answer()
        assert base / 2 - 1 <= int(header(answer, b"x-poll-interval")) <= base * 1.5
    assert (options.rollout_interval_seconds, options.interval_seconds) == (15, 300)
    # A device that has no signals has no young one.
    assert int(header(await post.start(b"0-0", waits=False, device=NEIGHBOUR).answer(), b"x-poll-interval")) > 100


async def test_a_rollout_asks_everybody_to_come_sooner_until_it_is_over(post: Post) -> None:
    post.poll.tick(START_MS / 1000)
    post.poll.rollout = Rollout(interval_seconds=4, until=START_MS / 1000 + 60)
    assert post.poll.interval_seconds(DEVICE, b"0-0") <= 6
    post.poll.tick(START_MS / 1000 + 60)
    assert post.poll.rollout is None
    assert post.poll.interval_seconds(DEVICE, b"0-0") > 100


async def test_totals_count_what_was_answered(post: Post) -> None:
    client = await post.parked()
    await post.publish(1, 2)
    await client.signals()
    post.expire(await post.parked(header(client.answered.result(), b"etag")))
    totals = post.poll.totals
    assert (totals.parked, totals.with_signals, totals.signals, totals.idle) == (2, 1, 2, 1)


async def test_more_devices_than_are_remembered_wait_and_are_woken_all_the_same(database: Database) -> None:
    post = Post(database, PollOptions(coalesce_seconds=0.0, recipients_max=3))
    clients = {device: post.start(None, device=device) for device in range(1, 21)}
    while post.poll.bell.waiting_count < 20:
        await asyncio.sleep(0)
    for device in clients:
        await post.publish(device, device=device)
    for device, client in clients.items():
        assert await client.signals() == [device]


async def test_whatever_the_order_of_things_every_client_sees_every_signal_once(
    database: Database, clock: ManualClock
) -> None:
    post = Post(database, PollOptions(coalesce_seconds=0.001, recipients_max=2))
    dice = random.Random(5)
    devices, total = (1, 2, 3), 40

    async def follow(device: int, limit: int) -> list[Any]:
        seen: list[Any] = []
        cursor = b"0-0"
        while len(seen) < total:
            client = post.start(cursor, limit=limit, waits=dice.random() < 0.7, device=device)
            for _ in range(dice.randrange(4)):
                await asyncio.sleep(0)
            if dice.random() < 0.2:
                post.abandon(client)
                continue
            if dice.random() < 0.2:
                post.expire(client)
            answer = await client.answer()
            assert parse_cursor(header(answer, b"etag").decode()) >= parse_cursor(cursor.decode())
            cursor = header(answer, b"etag")
            seen += about(answer) if answer.status == 200 else []
        return seen

    async def publish(device: int) -> None:
        number = 0
        while number < total:
            piece = range(number, min(total, number + dice.randrange(1, 5)))
            number = piece.stop
            clock.advance(dice.choice((-1, 0, 1)))
            await post.publish(*piece, device=device)
            if dice.random() < 0.1:
                post.poll.look_again()

    following = [follow(device, limit) for device in devices for limit in (1, 3, 100)]
    everything = asyncio.gather(*following, *(publish(device) for device in devices))
    for seen in (await asyncio.wait_for(everything, 30))[: len(following)]:
        assert seen == list(range(total))
    assert post.poll.bell.waiting_count == 0
