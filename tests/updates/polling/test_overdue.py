"""When a device counts as overdue: by the interval that the server answered, true under jitter."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restante.core.pacing import overdue_after_seconds, poll_interval_seconds
from restante.database.database import Database
from restante.updates.polling.poll_boost import PollBoost
from tests.updates.poll_harness import DEVICE, UpdatesHarness, poll_options

OLD_CURSOR = b"0000000000001-1"
START = 1_800_000_000.0


@given(
    device_id=st.integers(1, 10**9),
    seen=st.floats(START, START + 86_400),
    base=st.integers(1, 3600),
    jitter=st.floats(0.5, 1.5),
    wait=st.floats(0, 30),
)
def test_device_that_follows_the_advice_is_never_overdue(
    device_id: int, seen: float, base: int, jitter: float, wait: float
) -> None:
    """However it spreads its polls by half an interval, or waits for up to half a minute, and however late the server
    writes its time."""
    advised = poll_interval_seconds(device_id, seen, base)
    next_poll = max(advised * jitter, advised + wait) if wait > advised / 2 else advised * jitter
    assert next_poll + 59 < overdue_after_seconds(advised)


@given(advised=st.integers(0, 5400))
def test_absence_is_noticed_within_two_intervals_and_two_minutes(advised: int) -> None:
    assert overdue_after_seconds(advised) <= 2 * advised + 120


async def test_overdue_follows_from_the_interval_of_the_response(database: Database) -> None:
    harness = UpdatesHarness(database, poll_options(interval_seconds=300, boost_interval_seconds=15))
    harness.poll.tick(START)
    advised = harness.poll.interval_seconds(DEVICE, OLD_CURSOR)
    assert advised >= 150
    assert harness.poll.overdue_at(DEVICE, START, OLD_CURSOR) == START + overdue_after_seconds(advised)
    fresh = b"%d-1" % int(START * 1000)
    assert harness.poll.interval_seconds(DEVICE, fresh) <= 22
    assert harness.poll.overdue_at(DEVICE, START, fresh) < START + 120


async def test_poll_boost_that_began_after_a_poll_does_not_count_for_it(database: Database) -> None:
    harness = UpdatesHarness(database, poll_options(interval_seconds=300, boost_interval_seconds=300))
    harness.poll.tick(START)
    before = harness.poll.overdue_at(DEVICE, START, OLD_CURSOR)
    harness.poll.boost = PollBoost(START + 600, 10)
    harness.poll.tick(START + 10)
    assert harness.poll.overdue_at(DEVICE, START, OLD_CURSOR) == before
    assert harness.poll.overdue_at(DEVICE, START + 10, OLD_CURSOR) <= START + 10 + overdue_after_seconds(15)


@pytest.mark.parametrize("waits", [True, False])
async def test_idle_polls_write_nothing(database: Database, waits: bool) -> None:
    harness = UpdatesHarness(database, poll_options(burst=1000))
    cursor = await harness.publish("one")
    first = harness.start(cursor, waits=False)
    await first.response()
    before = database.writes
    for _ in range(20):
        harness.poll.admit(DEVICE)
        if waits:
            harness.expire(await harness.parked(cursor))
        else:
            assert harness.poll.admit_idle(DEVICE, cursor) is not None
    assert database.writes == before
    assert harness.poll.presence.confirmed == {DEVICE: cursor}


async def test_poll_that_waits_is_seen_until_its_end(database: Database) -> None:
    harness = UpdatesHarness(database)
    harness.poll.tick(START)
    cursor = await harness.publish("one")
    harness.poll.admit(DEVICE)
    client = await harness.parked(cursor)
    harness.poll.tick(START + 30)
    harness.expire(client)
    assert harness.poll.presence.seen == {DEVICE: START + 30}


async def test_delivered_signals_are_not_confirmed_before_the_next_poll(database: Database) -> None:
    harness = UpdatesHarness(database)
    first = await harness.publish("one")
    client = await harness.parked(first)
    second = await harness.publish("two")
    assert await client.signals() == ["two"]
    assert harness.poll.presence.confirmed == {DEVICE: first}
    await harness.start(second, waits=False).response()
    assert harness.poll.presence.confirmed == {DEVICE: second}
