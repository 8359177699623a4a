import asyncio

import pytest

from restante.database.database import Database
from restante.database.queries import Query
from restante.database.writer import ForeignCommit
from restante.delivery.retention import Retention
from restante.events import event_audit
from restante.events.inbox import InboxChanged
from restante.events.parts import DAY_SECONDS, EventsOptions
from restante.identity.callers import ClientRevoked
from tests.conftest import START_MS, ManualClock
from tests.events import bank
from tests.events.bank import Customer
from tests.events.polling import Desk

_LAST_POLL = Query("last_poll", "SELECT last_poll_at FROM event_clients WHERE id = :client")


@pytest.fixture
def client(database: Database) -> Customer:
    return database.write_now(bank.add_client)


async def test_the_endpoint_is_at_the_root_and_under_the_base(database: Database) -> None:
    parts = Desk(database).parts
    assert [route.path for route in parts.routes() if route.path.endswith("/events")][:2] == [
        "/events",
        "/open-banking/v4.0/events",
    ]
    assert [post.line for post in parts.hot_polls()] == [b"POST /events", b"POST /open-banking/v4.0/events"]


def test_without_a_base_there_is_the_root() -> None:
    assert EventsOptions(base="").bases() == [""]


@pytest.mark.parametrize("kind", ["changed", "foreign"])
async def test_news_wake_who_waits(database: Database, client: Customer, kind: str) -> None:
    desk = Desk(database)
    asked = desk.ask(client.id, waits=True)
    await asked.until_parked()
    desk.parts.hear(InboxChanged(client.id) if kind == "changed" else ForeignCommit())
    assert client.id not in desk.poll.bell.empty
    await asked.until_parked()
    desk.poll.abandon(asked.parked)


async def test_whoever_is_revoked_is_forgotten_and_turned_away(database: Database, client: Customer) -> None:
    desk = Desk(database)
    await desk.tokens.verify(client.token, None)
    asked = desk.ask(client.id, waits=True)
    await asked.until_parked()
    desk.parts.hear(ClientRevoked(client.id))
    assert desk.tokens.cached_count == 0
    assert (await asked.answer()).status == 401


async def test_the_last_poll_is_written_down_at_the_end(database: Database, client: Customer) -> None:
    desk = Desk(database)
    desk.parts.tick(START_MS / 1000)
    assert desk.poll.admit(client.id) is None
    desk.parts.close()
    await desk.parts.finish()
    row = await database.read(lambda conn: conn.one(_LAST_POLL, client=client.id))
    assert row is not None
    assert row["last_poll_at"] == START_MS


async def test_catching_up_forgets_whom_another_process_may_have_revoked(database: Database, client: Customer) -> None:
    desk = Desk(database)
    await desk.tokens.verify(client.token, None)
    await desk.parts.catch_up()
    assert desk.tokens.cached_count == 0


async def test_sweeps_and_services_are_there(database: Database) -> None:
    parts = Desk(database).parts
    assert "clients' presence" in dict(parts.services())
    assert [await asyncio.to_thread(database.write_now, sweep) for sweep in parts.sweeps()] == [0] * len(parts.sweeps())


@pytest.mark.parametrize(("days", "removed"), [(1, 1), (3, 0), (0, 0)])
async def test_what_was_done_to_events_is_swept_unless_it_is_kept_for_ever(
    database: Database, clock: ManualClock, days: int, removed: int
) -> None:
    database.write_now(event_audit.record, "me", "event.published", "a", {})
    clock.advance(2 * DAY_SECONDS)
    desk = Desk(database, EventsOptions(keep_audit_days=days))
    assert await Retention(database, desk.parts.sweeps()).run_once() == removed
