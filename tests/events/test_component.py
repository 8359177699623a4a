import asyncio

import pytest

from restante.database.commit_events import ForeignCommit
from restante.database.database import Database
from restante.database.queries import Query
from restante.delivery.retention import Retention
from restante.events.component import DAY_SECONDS
from restante.events.inbox.inbox import InboxChanged
from restante.events.publishing import event_audit
from restante.identity.callers import ClientRevoked
from tests.components import handle
from tests.conftest import START_MS, ManualClock
from tests.events import inbox_fixture
from tests.events.default_options import events_options
from tests.events.inbox_fixture import PollingClient
from tests.events.poll_harness import EventsHarness

_LAST_POLL = Query("last_poll", "SELECT last_poll_at FROM event_clients WHERE id = :client")


@pytest.fixture
def client(database: Database) -> PollingClient:
    return database.write_now(inbox_fixture.add_client)


async def test_events_endpoint_is_at_the_root_and_under_the_base_of_each_version(database: Database) -> None:
    component = EventsHarness(database).component
    paths = ["/events", "/open-banking/v4.0/events", "/open-banking/v3.1/events"]
    assert [route.path for route in component.routes()] == paths
    assert [poll.line.decode() for poll in component.fast_polls()] == [f"POST {path}" for path in paths]


@pytest.mark.parametrize("kind", ["changed", "foreign"])
async def test_commit_event_notifies_parked_polls(database: Database, client: PollingClient, kind: str) -> None:
    harness = EventsHarness(database)
    call = harness.start(client.id, waits=True)
    await call.until_parked()
    handle(harness.component, InboxChanged(client.id) if kind == "changed" else ForeignCommit())
    assert client.id not in harness.poll.waiters.empty
    await call.until_parked()
    harness.poll.disconnect(call.parked)


async def test_revoked_client_gets_401_for_its_parked_poll(database: Database, client: PollingClient) -> None:
    harness = EventsHarness(database)
    call = harness.start(client.id, waits=True)
    await call.until_parked()
    handle(harness.component, ClientRevoked(client.id))
    assert (await call.response()).status == 401


async def test_last_poll_is_written_at_shutdown(database: Database, client: PollingClient) -> None:
    harness = EventsHarness(database)
    harness.component.tick(START_MS / 1000)
    harness.poll.admit(client.id)
    harness.component.close()
    await harness.component.finish()
    row = await database.read(lambda conn: conn.one(_LAST_POLL, client=client.id))
    assert row is not None
    assert row["last_poll_at"] == START_MS


async def test_component_has_one_service_and_sweeps_that_remove_nothing_when_empty(database: Database) -> None:
    component = EventsHarness(database).component
    assert [service.name for service in component.services()] == ["clients' presence"]
    assert [await asyncio.to_thread(database.write_now, sweep) for sweep in component.sweeps()] == [0] * len(
        component.sweeps()
    )


@pytest.mark.parametrize(("days", "removed"), [(1, 1), (3, 0), (0, 0)])
async def test_event_audit_is_swept_after_its_days_unless_kept_forever(
    database: Database, clock: ManualClock, days: int, removed: int
) -> None:
    database.write_now(event_audit.record, "me", "event.published", "a", {})
    clock.advance(2 * DAY_SECONDS)
    harness = EventsHarness(database, events_options(keep_audit_days=days))
    assert await Retention(database, harness.component.sweeps()).run_once() == removed
