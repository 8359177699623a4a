"""The poll for events without HTTP: what is answered from memory, which polls wait, which are woken."""

import asyncio
import json

import pytest

from restante.core.errors import TooManyRequests
from restante.database.database import Database
from restante.database.sqlite import SqliteEngine
from restante.events.inbox.inbox import InboxChanged
from restante.events.inbox.poll import IDLE
from restante.events.response_format import RESPONSE_FORMAT
from tests.components import handle
from tests.conftest import ManualClock
from tests.events import inbox_fixture
from tests.events.default_options import events_options, inbox_options, poll_options
from tests.events.inbox_fixture import PollingClient
from tests.events.poll_harness import EventsHarness

IDLE_RESPONSE = RESPONSE_FORMAT.success(IDLE)
WINDOW = events_options(poll=poll_options(inbox=inbox_options(redelivery_after_ms=60_000)))


async def test_idle_poll_does_no_io_once_known(database: Database, client: PollingClient) -> None:
    harness = EventsHarness(database)
    assert await harness.start(client.id).response() == IDLE_RESPONSE
    writes = database.writes
    again = harness.start(client.id)
    assert again.is_finished
    assert database.writes == writes
    assert harness.poll.admit_idle(client.id)
    assert harness.component.counters.idle == 3


async def test_new_event_ends_the_known_emptiness(database: Database, client: PollingClient) -> None:
    harness = EventsHarness(database)
    await harness.start(client.id).response()
    await database.write(inbox_fixture.put_ready, client.id, "a")
    async with asyncio.timeout(10):
        while client.id in harness.poll.waiters.empty:
            await asyncio.sleep(0.001)
    assert not harness.poll.admit_idle(client.id)
    assert await harness.start(client.id).sets() == ["a"]


async def test_new_event_wakes_all_parked_polls(database: Database, client: PollingClient) -> None:
    harness = EventsHarness(database)
    call = [harness.start(client.id, waits=True) for _ in range(2)]
    for each in call:
        await each.until_parked()
    await database.write(inbox_fixture.put_ready, client.id, "a")
    assert [await each.sets() for each in call] == [["a"], ["a"]]
    assert harness.poll.parked_count == 0


async def test_delivery_window_gives_the_event_to_one_poll_and_the_other_stays_parked(
    database: Database, client: PollingClient
) -> None:
    harness = EventsHarness(database, WINDOW)
    call = [harness.start(client.id, waits=True) for _ in range(2)]
    for each in call:
        await each.until_parked()
    await database.write(inbox_fixture.put_ready, client.id, "a")
    async with asyncio.timeout(10):
        while sum(each.is_finished for each in call) < 1 or harness.poll.parked_count != 1:
            await asyncio.sleep(0.001)
    [waiting] = [each for each in call if not each.is_finished]
    harness.poll.expire(waiting.parked)
    assert await waiting.body() == {"sets": {}, "moreAvailable": True}


async def test_end_of_the_window_wakes_a_parked_poll(engine: SqliteEngine, clock: ManualClock) -> None:
    database = Database(engine)
    client = database.write_now(inbox_fixture.add_client)
    options = events_options(poll=poll_options(inbox=inbox_options(redelivery_after_ms=1)))
    harness = EventsHarness(database, options)
    await database.write(inbox_fixture.put_ready, client.id, "a")
    assert await harness.start(client.id).sets() == ["a"]
    call = harness.start(client.id, waits=True)
    await call.until_parked()
    clock.advance(1)
    assert await call.sets() == ["a"]
    database.close()


async def test_expired_wait_gets_the_current_state(database: Database, client: PollingClient) -> None:
    harness = EventsHarness(database)
    idle = harness.start(client.id, waits=True)
    await idle.until_parked()
    harness.poll.expire(idle.parked)
    assert await idle.response() == IDLE_RESPONSE
    await database.write(inbox_fixture.put_unsigned, client.id, "a")
    harness.poll.waiters.notify(client.id)
    unsigned = harness.start(client.id, waits=True)
    await unsigned.until_parked()
    harness.poll.expire(unsigned.parked)
    assert await unsigned.body() == {"sets": {}, "moreAvailable": True}


async def test_acknowledgement_of_a_waiting_poll_is_applied_first_and_once(
    database: Database, client: PollingClient
) -> None:
    harness = EventsHarness(database)
    await database.write(inbox_fixture.put_ready, client.id, "a")
    call = harness.start(client.id, waits=True, ack=("a",))
    await call.until_parked()
    assert inbox_fixture.status_of(database, "a") == "acknowledged"
    assert harness.component.counters.acknowledged == 1
    await database.write(inbox_fixture.put_ready, client.id, "b")
    assert await call.sets() == ["b"]
    assert harness.component.counters.acknowledged == 1


async def test_disconnected_poll_gets_no_events_but_its_acknowledgements_count(
    database: Database, client: PollingClient
) -> None:
    harness = EventsHarness(database, WINDOW)
    await database.write(inbox_fixture.put_ready, client.id, "a", "b")
    disconnected = harness.start(client.id, ack=("a",))
    harness.poll.disconnect(disconnected.parked)
    silent = harness.start(client.id)
    harness.poll.disconnect(silent.parked)
    # No delivery window holds it back.
    assert await harness.start(client.id).sets() == ["b"]
    assert inbox_fixture.status_of(database, "a") == "acknowledged"
    assert not disconnected.is_finished


async def test_events_sent_before_are_read_without_a_write(database: Database, client: PollingClient) -> None:
    harness = EventsHarness(database)
    await database.write(inbox_fixture.put_ready, client.id, "a", "b", "c")
    assert await harness.start(client.id, 2).sets() == ["a", "b"]
    writes = database.writes
    assert await harness.start(client.id, 2).sets() == ["a", "b"]
    assert await harness.start(client.id, 1).sets() == ["a"]
    assert await harness.start(client.id, 0).body() == {"sets": {}, "moreAvailable": True}
    assert database.writes == writes
    assert await harness.start(client.id, 3).sets() == ["a", "b", "c"]
    assert database.writes == writes + 1


async def test_read_that_finds_new_events_records_them(database: Database, client: PollingClient) -> None:
    harness = EventsHarness(database)
    await database.write(inbox_fixture.put_ready, client.id, "a")
    await harness.start(client.id).sets()
    harness.poll.waiters.learn_recorded(client.id, 100, harness.poll.waiters.last_notified(client.id))
    writes = database.writes
    await database.write(inbox_fixture.put_ready, client.id, "b")
    harness.poll.waiters.learn_recorded(client.id, 100, harness.poll.waiters.last_notified(client.id))
    assert await harness.start(client.id).sets() == ["a", "b"]
    assert database.writes == writes + 2


async def test_poll_does_not_wait_if_waiting_is_disabled(database: Database, client: PollingClient) -> None:
    harness = EventsHarness(database, events_options(poll=poll_options(wait_seconds=0)))
    assert await harness.start(client.id, waits=True).response() == IDLE_RESPONSE


async def test_parked_poll_of_a_revoked_client_is_refused(database: Database, client: PollingClient) -> None:
    harness = EventsHarness(database)
    call = harness.start(client.id, waits=True)
    await call.until_parked()
    harness.poll.refuse_parked(client.id)
    assert (await call.response()).status == 401


async def test_suspended_client_is_refused(database: Database, client: PollingClient) -> None:
    harness = EventsHarness(database)
    await database.write(inbox_fixture.put_ready, client.id, "a")
    await harness.start(client.id).sets()
    await database.write(inbox_fixture.suspend, client.id)
    assert (await harness.start(client.id).response()).status == 401
    assert (await harness.start(client.id, ack=("a",)).response()).status == 401
    assert inbox_fixture.status_of(database, "a") == "ready"


async def test_unavailable_database_is_a_503(engine: SqliteEngine) -> None:
    database = Database(engine)
    client = database.write_now(inbox_fixture.add_client)
    harness = EventsHarness(database)
    await database.write(inbox_fixture.put_ready, client.id, "a")
    await harness.start(client.id).sets()
    database.close()
    assert (await harness.start(client.id).response()).status == 503
    assert (await harness.start(client.id, ack=("a",)).response()).status == 503


async def test_close_answers_parked_polls_and_parks_no_more(database: Database, client: PollingClient) -> None:
    harness = EventsHarness(database)
    call = harness.start(client.id, waits=True)
    await call.until_parked()
    harness.poll.close()
    assert await call.response() == IDLE_RESPONSE
    assert await harness.start(client.id, waits=True).response() == IDLE_RESPONSE


async def test_notification_during_a_read_is_not_missed(database: Database, client: PollingClient) -> None:
    harness = EventsHarness(database)
    call = harness.start(client.id, waits=True)
    # The read is under way; its empty result is out of date before it returns.
    database.write_now(inbox_fixture.put_ready, client.id, "a")
    assert await call.sets() == ["a"]


async def test_poll_that_is_notified_during_a_read_reads_again(database: Database, client: PollingClient) -> None:
    """The first read teaches nothing, because it may be out of date. Only a second one can show that nothing is new."""
    harness = EventsHarness(database)
    call = harness.start(client.id, waits=True)
    harness.poll.notify(client.id)
    await call.until_parked()
    assert client.id in harness.poll.waiters.empty


async def test_polls_are_counted(database: Database, client: PollingClient) -> None:
    harness = EventsHarness(database)
    await database.write(inbox_fixture.put_ready, client.id, "a", "b")
    await harness.start(client.id).sets()
    await harness.report_errors(client.id, "b").sets()
    await harness.start(client.id, 0, ack=("a",)).body()
    counters = harness.component.counters
    assert (counters.with_events, counters.acknowledge_only, counters.delivered) == (2, 1, 3)
    assert (counters.acknowledged, counters.errored) == (1, 1)


async def test_client_that_polls_too_often_gets_a_retry_time(database: Database, client: PollingClient) -> None:
    harness = EventsHarness(database, events_options(poll=poll_options(rate_per_second=0.1, burst=1)))
    harness.poll.admit(client.id)
    with pytest.raises(TooManyRequests) as refusal:
        harness.poll.admit(client.id)
    assert refusal.value.retry_after_seconds >= 10
    await harness.start(client.id).response()
    assert not harness.poll.admit_idle(client.id)
    assert harness.component.counters.rate_limited == 1


async def test_commit_event_of_another_client_wakes_no_poll(database: Database, client: PollingClient) -> None:
    harness = EventsHarness(database)
    call = harness.start(client.id, waits=True)
    await call.until_parked()
    handle(harness.component, InboxChanged(client.id + 1))
    assert harness.poll.parked_count == 1
    harness.poll.disconnect(call.parked)


def test_idle_response_is_that_of_open_banking() -> None:
    assert json.loads(IDLE_RESPONSE.body) == {"sets": {}, "moreAvailable": False}
