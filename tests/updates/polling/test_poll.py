import asyncio
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from restante.core.cursor import parse_cursor
from restante.core.errors import TooManyRequests
from restante.database.database import Database
from restante.delivery.log import log
from restante.updates.polling.poll_boost import PollBoost
from tests.conftest import START_MS, ManualClock
from tests.delivery.busy_database import hold_readers
from tests.updates.poll_harness import (
    DEVICE,
    OTHER_DEVICE,
    UpdatesHarness,
    header,
    poll_options,
    subjects_of,
)


@pytest.fixture
async def harness(database: Database) -> UpdatesHarness:
    return UpdatesHarness(database)


async def test_device_without_signals_gets_the_first_cursor(harness: UpdatesHarness) -> None:
    response = await harness.start(None, waits=False).response()
    assert (response.status, response.body) == (204, b"")
    assert dict(response.headers).keys() == {b"etag", b"cache-control", b"x-poll-interval"}
    assert (header(response, b"etag"), header(response, b"cache-control")) == (b"0-0", b"no-store")


async def test_signals_are_delivered_with_the_cursor_of_the_last(harness: UpdatesHarness) -> None:
    newest = await harness.publish(1, 2)
    response = await harness.start(b"0-0", waits=False).response()
    assert json.loads(response.body) == {
        "data": {
            "cursor": newest.decode(),
            "signals": [
                {"type": "x", "ts_ms": 1, "ref": {"about": 1}},
                {"type": "x", "ts_ms": 2, "ref": {"about": 2}},
            ],
        }
    }
    assert header(response, b"etag") == newest
    assert header(response, b"content-type") == b"application/json"
    assert header(response, b"cache-control") == b"no-store"


async def test_limit_delivers_the_oldest_first_and_the_rest_next_time(harness: UpdatesHarness) -> None:
    await harness.publish(*range(5))
    seen, cursor = [], b"0-0"
    for _ in range(3):
        response = await harness.start(cursor, limit=2, waits=False).response()
        seen += subjects_of(response)
        cursor = header(response, b"etag")
    assert seen == [0, 1, 2, 3, 4]
    assert (await harness.start(cursor, waits=False).response()).status == 204


async def test_poll_without_a_cursor_gets_the_newest(harness: UpdatesHarness) -> None:
    newest = await harness.publish(*range(30))
    response = await harness.start(None, limit=3, waits=False).response()
    assert subjects_of(response) == [27, 28, 29]
    assert header(response, b"etag") == newest


async def test_expired_cursor_gets_recovery_parameters(
    harness: UpdatesHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "TRIM_SLACK", 0)
    newest = await harness.publish(*range(5), keep=2)
    for cursor, reason in ((b"0-0", "cursor_trimmed"), (newest + b"0", "cursor_unknown")):
        response = await harness.start(cursor, waits=True).response()
        assert response.status == 409
        assert json.loads(response.body)["error"] == {
            "code": 40901,
            "what": "Cursor expired. Reset required.",
            "params": {
                "action": "full_resync",
                "reason": reason,
                "reset_cursor": newest.decode(),
                "earliest_retained_id": f"{START_MS}-4",
            },
        }
    assert harness.poll.counters.cursor_expired == 2
    assert harness.waiting() == []


async def test_idle_poll_is_answered_from_memory(harness: UpdatesHarness) -> None:
    cursor = await harness.publish(1)
    release_readers = hold_readers(harness.database)
    call = harness.start(cursor, waits=False)
    assert call.status == 204
    interval_seconds = int(header(call.replied.result(), b"x-poll-interval"))
    assert harness.poll.admit_idle(DEVICE, cursor) == interval_seconds
    assert harness.poll.admit_idle(DEVICE, b"0-0") is None
    assert harness.poll.admit_idle(OTHER_DEVICE, b"0-0") is None
    assert harness.poll.counters.idle == 2
    release_readers()


async def test_parked_poll_gets_a_published_signal_without_a_read(harness: UpdatesHarness) -> None:
    call = await harness.parked(await harness.publish(1))
    release_readers = hold_readers(harness.database)
    newest = await harness.publish(2)
    assert await call.signals() == [2]
    assert header(call.replied.result(), b"etag") == newest
    assert harness.waiting() == []
    release_readers()


async def test_signal_of_another_device_does_not_wake_a_parked_poll(harness: UpdatesHarness) -> None:
    call = await harness.parked()
    other = await harness.parked(device=OTHER_DEVICE)
    await harness.publish(1, device=OTHER_DEVICE)
    assert await other.signals() == [1]
    assert not call.is_finished


async def test_signals_published_together_are_delivered_together(database: Database) -> None:
    # Long enough for three commits on a busy machine.
    harness = UpdatesHarness(database, poll_options(coalesce_seconds=2.0))
    call = await harness.parked()
    for one in (1, 2, 3):
        await harness.publish(one)
    assert await call.signals() == [1, 2, 3]


async def test_woken_poll_gets_its_limit_and_the_rest_next_time(harness: UpdatesHarness) -> None:
    call = await harness.parked(limit=2)
    await harness.publish(1, 2, 3)
    response = await call.response()
    assert subjects_of(response) == [1, 2]
    assert await harness.start(header(response, b"etag")).signals() == [3]


async def test_expired_wait_is_a_204_with_the_cursor(harness: UpdatesHarness) -> None:
    cursor = await harness.publish(1)
    call = await harness.parked(cursor)
    harness.expire(call)
    assert call.status == 204
    assert header(call.replied.result(), b"etag") == cursor
    # Neither a second expiry, nor a disconnect, nor a publish changes that.
    harness.expire(call)
    harness.disconnect(call)
    await harness.publish(2)
    assert harness.waiting() == []


async def test_disconnected_poll_is_not_answered(harness: UpdatesHarness) -> None:
    call = await harness.parked()
    harness.disconnect(call)
    assert harness.poll.parked_count == 0
    await harness.publish(1)
    harness.expire(call)
    assert not call.is_finished


async def test_signal_in_the_coalescing_interval_of_a_disconnected_poll_does_not_disturb_the_next(
    database: Database,
) -> None:
    harness = UpdatesHarness(database, poll_options(coalesce_seconds=0.05))
    disconnected = await harness.parked()
    await harness.publish(1)
    harness.disconnect(disconnected)
    cursor = await harness.publish(2)
    call = await harness.parked(cursor)
    await harness.publish(3)
    assert await call.signals() == [3]


async def test_close_in_a_coalescing_interval_answers_once(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = UpdatesHarness(database, poll_options(coalesce_seconds=0.01))
    call = await harness.parked()
    end_interval: list[Callable[[], None]] = []
    with monkeypatch.context() as patch:
        # The interval ends when the test says so.
        patch.setattr(asyncio.get_running_loop(), "call_later", lambda _delay, call: end_interval.append(call))
        await harness.publish(1)
    harness.poll.close()
    assert call.status == 204
    for end in end_interval:
        end()
    assert await harness.start(header(call.replied.result(), b"etag")).signals() == [1]


async def test_polls_of_one_device_have_their_own_cursors(harness: UpdatesHarness) -> None:
    first = await harness.publish(1)
    second = await harness.publish(2)
    at_tail = await harness.parked(second)
    assert await harness.start(first).signals() == [2]
    assert await harness.start(b"0-0").signals() == [1, 2]
    other = await harness.parked(second)
    await harness.publish(3)
    assert (await at_tail.signals(), await other.signals()) == ([3], [3])


async def test_poll_parked_before_a_missed_publish_gets_that_signal_too(harness: UpdatesHarness) -> None:
    call = await harness.parked()
    harness.handles_commits = False
    missed = await harness.publish(1)
    later = await harness.parked(missed)
    harness.handles_commits = True
    await harness.publish(2)
    assert await call.signals() == [1, 2]
    assert await later.signals() == [2]


async def test_notify_all_delivers_missed_signals_and_leaves_other_polls_parked(harness: UpdatesHarness) -> None:
    missed, idle = await harness.parked(), await harness.parked(device=OTHER_DEVICE)
    harness.handles_commits = False
    await harness.publish(1)
    harness.poll.notify_all()
    assert await missed.signals() == [1]
    while idle.parked not in harness.waiting(OTHER_DEVICE):
        await asyncio.sleep(0)
    assert not idle.is_finished
    harness.handles_commits = True
    await harness.publish(2, device=OTHER_DEVICE)
    assert await idle.signals() == [2]


async def test_rate_limited_poll_is_refused_and_not_recorded_as_seen(database: Database) -> None:
    harness = UpdatesHarness(database, poll_options(burst=3, rate_per_second=0.001, retry_after_spread_seconds=0))
    for device_id in (DEVICE, DEVICE, DEVICE, OTHER_DEVICE):
        harness.poll.admit(device_id)
    assert harness.poll.presence.seen.keys() == {DEVICE, OTHER_DEVICE}
    harness.poll.presence.seen.clear()
    with pytest.raises(TooManyRequests) as refusal:
        harness.poll.admit(DEVICE)
    assert refusal.value.retry_after_seconds == pytest.approx(1000, abs=2)
    assert harness.poll.presence.seen == {}
    assert harness.poll.counters.rate_limited == 1


async def test_interval_is_shorter_while_the_newest_signal_is_young(
    harness: UpdatesHarness,
) -> None:
    options = harness.poll.options
    cursor = await harness.publish(1)
    for after_seconds, base in ((0, 15), (599, 15), (601, 300)):
        harness.poll.tick(START_MS / 1000 + after_seconds)
        response = await harness.start(cursor, waits=False).response()
        assert base / 2 - 1 <= int(header(response, b"x-poll-interval")) <= base * 1.5
    assert (options.boost_interval_seconds, options.interval_seconds) == (15, 300)
    # A device without signals has no young one.
    assert (
        int(header(await harness.start(b"0-0", waits=False, device=OTHER_DEVICE).response(), b"x-poll-interval")) > 100
    )


async def test_poll_boost_shortens_every_interval_until_it_ends(harness: UpdatesHarness) -> None:
    harness.poll.tick(START_MS / 1000)
    harness.poll.boost = PollBoost(interval_seconds=4, until=START_MS / 1000 + 60)
    assert harness.poll.interval_seconds(DEVICE, b"0-0") <= 6
    harness.poll.tick(START_MS / 1000 + 60)
    assert harness.poll.boost is None
    assert harness.poll.interval_seconds(DEVICE, b"0-0") > 100


async def test_counters_count_results(harness: UpdatesHarness) -> None:
    call = await harness.parked()
    await harness.publish(1, 2)
    await call.signals()
    harness.expire(await harness.parked(header(call.replied.result(), b"etag")))
    counters = harness.poll.counters
    assert (counters.parked, counters.with_signals, counters.signals, counters.idle) == (2, 1, 2, 1)


async def test_more_devices_than_are_remembered_are_woken(database: Database) -> None:
    harness = UpdatesHarness(database, poll_options(coalesce_seconds=0.0, recipients_max=3))
    calls = {device: harness.start(None, device=device) for device in range(1, 21)}
    while harness.poll.parked_count < 20:
        await asyncio.sleep(0)
    for device in calls:
        await harness.publish(device, device=device)
    for device, call in calls.items():
        assert await call.signals() == [device]


async def test_every_client_gets_every_signal_once_in_any_order_of_events(
    database: Database, clock: ManualClock
) -> None:
    harness = UpdatesHarness(database, poll_options(coalesce_seconds=0.001, recipients_max=2))
    rng = random.Random(5)
    devices, total = (1, 2, 3), 40

    async def follow(device: int, limit: int) -> list[Any]:
        seen: list[Any] = []
        cursor = b"0-0"
        while len(seen) < total:
            call = harness.start(cursor, limit=limit, waits=rng.random() < 0.7, device=device)
            for _ in range(rng.randrange(4)):
                await asyncio.sleep(0)
            if rng.random() < 0.2:
                harness.disconnect(call)
                continue
            if rng.random() < 0.2:
                harness.expire(call)
            response = await call.response()
            assert parse_cursor(header(response, b"etag").decode()) >= parse_cursor(cursor.decode())
            cursor = header(response, b"etag")
            seen += subjects_of(response) if response.status == 200 else []
        return seen

    async def publish(device: int) -> None:
        number = 0
        while number < total:
            piece = range(number, min(total, number + rng.randrange(1, 5)))
            number = piece.stop
            clock.advance(rng.choice((-1, 0, 1)))
            await harness.publish(*piece, device=device)
            if rng.random() < 0.1:
                harness.poll.notify_all()

    following = [follow(device, limit) for device in devices for limit in (1, 3, 100)]
    everything = asyncio.gather(*following, *(publish(device) for device in devices))
    for seen in (await asyncio.wait_for(everything, 30))[: len(following)]:
        assert seen == list(range(total))
    assert harness.poll.parked_count == 0
