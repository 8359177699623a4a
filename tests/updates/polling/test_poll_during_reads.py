"""The poll of device updates while a read of the log is under way: the reader delays its result until `resume`."""

import asyncio

import pytest

from restante.database.database import Database
from restante.database.errors import DatabaseUnavailable
from tests.defaults import append_signals
from tests.delivery.rows import signal
from tests.updates.poll_harness import (
    DEVICE,
    OTHER_DEVICE,
    QUICK,
    PausedReader,
    UpdatesHarness,
    header,
)


@pytest.fixture
def reader(database: Database) -> PausedReader:
    return PausedReader(database)


@pytest.fixture
async def harness(database: Database, reader: PausedReader) -> UpdatesHarness:
    return UpdatesHarness(database, QUICK, reader)


async def test_tail_found_by_a_read_is_remembered(harness: UpdatesHarness, reader: PausedReader) -> None:
    harness.handles_commits = False
    cursor = await harness.publish(1)
    for _ in range(3):
        assert (await harness.start(cursor, waits=False).response()).status == 204
    assert reader.reads == 1


async def test_signal_published_during_a_read_is_read_by_a_waiting_poll(
    harness: UpdatesHarness,
    reader: PausedReader,
) -> None:
    reader.is_paused = True
    call = harness.start(b"0-0")
    await harness.publish(1)
    reader.resume()
    assert not call.is_finished
    assert harness.waiting() == []
    reader.resume()
    assert await call.signals() == [1]


async def test_signal_published_during_a_read_is_left_for_the_next_poll_without_a_wait(
    harness: UpdatesHarness,
    reader: PausedReader,
) -> None:
    reader.is_paused = True
    call = harness.start(b"0-0", waits=False)
    newest = await harness.publish(1)
    reader.resume()
    assert call.status == 204
    assert header(call.replied.result(), b"etag") == b"0-0"
    assert harness.poll.waiters.known[DEVICE] == newest
    again = harness.start(b"0-0", waits=False)
    reader.resume()
    assert await again.signals() == [1]


async def test_signal_that_a_read_has_found_is_not_delivered_twice(harness: UpdatesHarness) -> None:
    harness.handles_commits = False
    published = await harness.database.write(append_signals, DEVICE, [signal(1)])
    cursor = str(published.head.newest).encode()
    call = await harness.parked(cursor)
    # The commit event arrives only now, though the read has found its signal.
    harness.poll.published_here(published)
    await asyncio.sleep(0.01)
    assert not call.is_finished
    harness.handles_commits = True
    await harness.publish(2)
    assert await call.signals() == [2]


async def test_knowledge_dropped_during_a_read_is_not_restored_by_it(
    harness: UpdatesHarness,
    reader: PausedReader,
) -> None:
    reader.is_paused = True
    call = harness.start(b"0-0")
    await harness.publish(1)
    # The published tail is dropped again: the older result of the read must not count as the newest.
    harness.poll.waiters.forget_all()
    reader.resume()
    assert harness.poll.waiters.known == {}
    assert harness.waiting() == []
    reader.resume()
    assert await call.signals() == [1]


async def test_knowledge_dropped_during_a_read_delays_parking_by_one_read(
    harness: UpdatesHarness,
    reader: PausedReader,
) -> None:
    reader.is_paused = True
    call = harness.start(b"0-0")
    harness.poll.waiters.forget_all()
    reader.resume()
    assert harness.waiting() == []
    reader.resume()
    assert harness.waiting() == [call.parked]
    assert harness.poll.waiters.known == {DEVICE: b"0-0"}


@pytest.mark.parametrize("has_new_signal", [False, True])
async def test_wait_that_expires_during_a_read_gets_its_result(
    harness: UpdatesHarness, reader: PausedReader, has_new_signal: bool
) -> None:
    if has_new_signal:
        harness.handles_commits = False
        await harness.publish(1)
    reader.is_paused = True
    call = harness.start(b"0-0")
    harness.expire(call)
    assert not call.is_finished
    reader.resume()
    assert call.status == (200 if has_new_signal else 204)
    assert harness.waiting() == []


async def test_wait_that_expires_during_a_read_causes_no_second_read(
    harness: UpdatesHarness,
    reader: PausedReader,
) -> None:
    reader.is_paused = True
    call = harness.start(b"0-0")
    await harness.publish(1)
    harness.expire(call)
    reader.resume()
    assert call.status == 204
    assert reader.paused == []


async def test_poll_that_disconnects_during_a_read_is_neither_answered_nor_parked(
    harness: UpdatesHarness,
    reader: PausedReader,
) -> None:
    for instead in (None, DatabaseUnavailable("disconnected")):
        reader.is_paused = True
        call = harness.start(b"0-0")
        harness.disconnect(call)
        reader.resume(instead)
        assert not call.is_finished
        assert harness.poll.parked_count == 0


async def test_close_answers_all_polls_and_parks_none(harness: UpdatesHarness, reader: PausedReader) -> None:
    waiting = [await harness.parked(), await harness.parked(), await harness.parked(device=OTHER_DEVICE)]
    reader.is_paused = True
    reading, twice = harness.start(None), harness.start(None)
    harness.poll.close()
    assert [call.status for call in waiting] == [204, 204, 204]
    harness.poll.waiters.forget_all()
    reader.resume()
    reader.resume()
    assert (reading.status, twice.status) == (204, 204)
    late = harness.start(None)
    reader.resume()
    assert late.status == 204
    known = harness.start(b"0-0")
    assert known.status == 204
    assert harness.poll.parked_count == 0


async def test_unreadable_log_is_a_503_with_a_retry_time(
    harness: UpdatesHarness,
    reader: PausedReader,
) -> None:
    reader.is_paused = True
    call = harness.start(b"0-0")
    reader.resume(DatabaseUnavailable("disk full at sector 7"))
    response = await call.response()
    assert response.status == 503
    assert 1 <= int(header(response, b"retry-after")) <= 6
    assert b"sector" not in response.body
    assert harness.waiting() == []


@pytest.mark.parametrize("ended_by", ["publish", "close", "read"])
async def test_failing_reply_does_not_affect_other_polls(
    harness: UpdatesHarness, reader: PausedReader, ended_by: str
) -> None:
    def broken(_result: object) -> None:
        raise RuntimeError("the transport is closed")

    reader.is_paused = ended_by == "read"
    calls = [harness.start(b"0-0", device=device) for device in (DEVICE, DEVICE, OTHER_DEVICE)]
    assert calls[0].parked is not None
    calls[0].parked.reply = broken
    if ended_by == "publish":
        harness.handles_commits = False
        for device in (DEVICE, OTHER_DEVICE):
            harness.poll.published_here(await harness.database.write(append_signals, device, [signal("new")]))
        assert [await call.signals() for call in calls[1:]] == [["new"], ["new"]]
    elif ended_by == "close":
        harness.poll.close()
        assert [call.status for call in calls[1:]] == [204, 204]
    else:
        reader.resume(DatabaseUnavailable("disconnected"))
        assert [call.status for call in calls[1:]] == [503, 503]
    assert harness.poll.parked_count == 0
