"""The poll for events, without HTTP: what is answered from memory, who waits and who is woken, what is said once."""

import asyncio
import json

import pytest

from restante.core.errors import TooManyRequests
from restante.database.database import Database
from restante.database.sqlite import SqliteEngine
from restante.events.inbox import InboxChanged, InboxOptions
from restante.events.parts import EventsOptions
from restante.events.poll import IDLE, PollOptions
from tests.conftest import ManualClock
from tests.events import bank
from tests.events.bank import Customer
from tests.events.polling import Desk

WINDOW = EventsOptions(poll=PollOptions(inbox=InboxOptions(redelivery_after_ms=60_000)))


@pytest.fixture
def client(database: Database) -> Customer:
    return database.write_now(bank.add_client)


async def test_an_idle_poll_does_no_work_once_it_is_known(database: Database, client: Customer) -> None:
    desk = Desk(database)
    assert await desk.ask(client.id).answer() == IDLE
    writes = database.writes
    again = desk.ask(client.id)
    assert again.is_answered
    assert database.writes == writes
    assert desk.poll.is_idle_at_once(client.id)
    assert desk.parts.totals.idle == 3


async def test_what_arrives_ends_what_is_known(database: Database, client: Customer) -> None:
    desk = Desk(database)
    await desk.ask(client.id).answer()
    await database.write(bank.put_ready, client.id, "a")
    async with asyncio.timeout(10):
        while client.id in desk.poll.bell.empty:
            await asyncio.sleep(0.001)
    assert not desk.poll.is_idle_at_once(client.id)
    assert await desk.ask(client.id).sets() == ["a"]


async def test_a_waiting_poll_is_woken(database: Database, client: Customer) -> None:
    desk = Desk(database)
    asked = [desk.ask(client.id, waits=True) for _ in range(2)]
    for each in asked:
        await each.until_parked()
    await database.write(bank.put_ready, client.id, "a")
    assert [await each.sets() for each in asked] == [["a"], ["a"]]
    assert desk.poll.bell.waiting_count == 0


async def test_with_a_window_only_one_is_handed_it_and_the_other_waits_on(database: Database, client: Customer) -> None:
    desk = Desk(database, WINDOW)
    asked = [desk.ask(client.id, waits=True) for _ in range(2)]
    for each in asked:
        await each.until_parked()
    await database.write(bank.put_ready, client.id, "a")
    async with asyncio.timeout(10):
        while sum(each.is_answered for each in asked) < 1 or desk.poll.bell.waiting_count != 1:
            await asyncio.sleep(0.001)
    [waiting] = [each for each in asked if not each.is_answered]
    desk.poll.expire(waiting.parked)
    assert await waiting.body() == {"sets": {}, "moreAvailable": True}


async def test_a_waiting_poll_is_woken_when_the_window_ends(engine: SqliteEngine, clock: ManualClock) -> None:
    database = Database(engine)
    client = database.write_now(bank.add_client)
    options = EventsOptions(poll=PollOptions(inbox=InboxOptions(redelivery_after_ms=1)))
    desk = Desk(database, options)
    await database.write(bank.put_ready, client.id, "a")
    assert await desk.ask(client.id).sets() == ["a"]
    asked = desk.ask(client.id, waits=True)
    await asked.until_parked()
    clock.advance(1)
    assert await asked.sets() == ["a"]
    database.close()


async def test_a_wait_that_is_over_is_told_what_is_there(database: Database, client: Customer) -> None:
    desk = Desk(database)
    idle = desk.ask(client.id, waits=True)
    await idle.until_parked()
    desk.poll.expire(idle.parked)
    assert await idle.answer() == IDLE
    await database.write(bank.put_unsigned, client.id, "a")
    desk.poll.bell.ring(client.id)
    unsigned = desk.ask(client.id, waits=True)
    await unsigned.until_parked()
    desk.poll.expire(unsigned.parked)
    assert await unsigned.body() == {"sets": {}, "moreAvailable": True}


async def test_what_is_said_while_waiting_is_said_before_and_once(database: Database, client: Customer) -> None:
    desk = Desk(database)
    await database.write(bank.put_ready, client.id, "a")
    asked = desk.ask(client.id, waits=True, ack=("a",))
    await asked.until_parked()
    assert bank.status_of(database, "a") == "acknowledged"
    assert desk.parts.totals.acknowledged == 1
    await database.write(bank.put_ready, client.id, "b")
    assert await asked.sets() == ["b"]
    assert desk.parts.totals.acknowledged == 1


async def test_who_hangs_up_is_not_handed_anything_but_has_said_what_it_said(
    database: Database, client: Customer
) -> None:
    desk = Desk(database, WINDOW)
    await database.write(bank.put_ready, client.id, "a", "b")
    gone = desk.ask(client.id, ack=("a",))
    desk.poll.abandon(gone.parked)
    silent = desk.ask(client.id)
    desk.poll.abandon(silent.parked)
    # Nobody's window holds it back.
    assert await desk.ask(client.id).sets() == ["b"]
    assert bank.status_of(database, "a") == "acknowledged"
    assert not gone.is_answered


async def test_what_was_handed_out_before_is_read_and_nothing_is_written(database: Database, client: Customer) -> None:
    desk = Desk(database)
    await database.write(bank.put_ready, client.id, "a", "b", "c")
    assert await desk.ask(client.id, 2).sets() == ["a", "b"]
    writes = database.writes
    assert await desk.ask(client.id, 2).sets() == ["a", "b"]
    assert await desk.ask(client.id, 1).sets() == ["a"]
    assert await desk.ask(client.id, 0).body() == {"sets": {}, "moreAvailable": True}
    assert database.writes == writes
    assert await desk.ask(client.id, 3).sets() == ["a", "b", "c"]
    assert database.writes == writes + 1


async def test_a_look_that_finds_news_writes_them_down(database: Database, client: Customer) -> None:
    desk = Desk(database)
    await database.write(bank.put_ready, client.id, "a")
    await desk.ask(client.id).sets()
    desk.poll.bell.learn_recorded(client.id, 100, desk.poll.bell.last_ring(client.id))
    writes = database.writes
    await database.write(bank.put_ready, client.id, "b")
    desk.poll.bell.learn_recorded(client.id, 100, desk.poll.bell.last_ring(client.id))
    assert await desk.ask(client.id).sets() == ["a", "b"]
    assert database.writes == writes + 2


async def test_nothing_waits_where_waiting_is_off(database: Database, client: Customer) -> None:
    desk = Desk(database, EventsOptions(poll=PollOptions(wait_seconds=0)))
    assert await desk.ask(client.id, waits=True).answer() == IDLE


async def test_a_client_that_loses_access_is_turned_away(database: Database, client: Customer) -> None:
    desk = Desk(database)
    asked = desk.ask(client.id, waits=True)
    await asked.until_parked()
    desk.poll.turn_away(client.id)
    assert (await asked.answer()).status == 401


async def test_a_suspended_client_is_refused(database: Database, client: Customer) -> None:
    desk = Desk(database)
    await database.write(bank.put_ready, client.id, "a")
    await desk.ask(client.id).sets()
    await database.write(bank.suspend, client.id)
    assert (await desk.ask(client.id).answer()).status == 401
    assert (await desk.ask(client.id, ack=("a",)).answer()).status == 401
    assert bank.status_of(database, "a") == "ready"


async def test_a_database_that_is_gone_is_a_503(engine: SqliteEngine) -> None:
    database = Database(engine)
    client = database.write_now(bank.add_client)
    desk = Desk(database)
    await database.write(bank.put_ready, client.id, "a")
    await desk.ask(client.id).sets()
    database.close()
    assert (await desk.ask(client.id).answer()).status == 503
    assert (await desk.ask(client.id, ack=("a",)).answer()).status == 503


async def test_closing_answers_everybody_and_nobody_waits_any_more(database: Database, client: Customer) -> None:
    desk = Desk(database)
    asked = desk.ask(client.id, waits=True)
    await asked.until_parked()
    desk.poll.close()
    assert await asked.answer() == IDLE
    assert await desk.ask(client.id, waits=True).answer() == IDLE


async def test_a_ring_during_a_look_is_not_missed(database: Database, client: Customer) -> None:
    desk = Desk(database)
    asked = desk.ask(client.id, waits=True)
    # The look is under way: what it finds, nothing, is out of date before it returns.
    database.write_now(bank.put_ready, client.id, "a")
    assert await asked.sets() == ["a"]


async def test_polls_are_counted(database: Database, client: Customer) -> None:
    desk = Desk(database)
    await database.write(bank.put_ready, client.id, "a", "b")
    await desk.ask(client.id).sets()
    await desk.complain(client.id, "b").sets()
    await desk.ask(client.id, 0, ack=("a",)).body()
    totals = desk.parts.totals
    assert (totals.with_events, totals.acknowledge_only, totals.delivered) == (2, 1, 3)
    assert (totals.acknowledged, totals.errored) == (1, 1)


async def test_a_client_that_polls_too_often_is_told_when_to_come_back(database: Database, client: Customer) -> None:
    desk = Desk(database, EventsOptions(poll=PollOptions(rate_per_second=0.1, burst=1)))
    assert desk.poll.admit(client.id) is None
    refusal = desk.poll.admit(client.id)
    assert isinstance(refusal, TooManyRequests)
    assert refusal.retry_after_seconds >= 10
    await desk.ask(client.id).answer()
    assert not desk.poll.is_idle_at_once(client.id)
    assert desk.parts.totals.rate_limited == 1


async def test_an_announcement_for_another_client_wakes_nobody(database: Database, client: Customer) -> None:
    desk = Desk(database)
    asked = desk.ask(client.id, waits=True)
    await asked.until_parked()
    desk.parts.hear(InboxChanged(client.id + 1))
    assert desk.poll.bell.waiting_count == 1
    desk.poll.abandon(asked.parked)


def test_the_idle_answer_is_open_bankings() -> None:
    assert json.loads(IDLE.body) == {"sets": {}, "moreAvailable": False}
