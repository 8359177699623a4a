"""The Shared Signals component: routes, commit events and closing."""

import pytest

from restante.database.commit_events import ForeignCommit
from restante.database.database import Database
from restante.delivery.presence import Presence
from restante.events.counters import EventCounters
from restante.events.inbox.inbox import InboxChanged
from restante.events.inbox.inbox_retention import write_last_poll
from restante.events.ssf.component import SharedSignalsComponent
from restante.identity.callers import ClientRevoked
from tests.components import handle
from tests.events.client_app import KEY, receiver_client
from tests.events.default_options import poll_options, shared_signals_options


@pytest.fixture
def component(database: Database) -> SharedSignalsComponent:
    presence = Presence(database, write_last_poll)
    return SharedSignalsComponent(
        database, KEY, receiver_client(), presence, EventCounters(), poll_options(), shared_signals_options()
    )


def test_each_stream_route_is_declared_once(component: SharedSignalsComponent) -> None:
    routes = {(route.method, route.path) for route in component.routes()}
    assert len(routes) == len(component.routes()) == 14
    assert ("POST", "/ssf/streams/{stream_id}/poll") in routes
    assert ("GET", "/.well-known/ssf-configuration") in routes


@pytest.mark.parametrize("event", [InboxChanged(1), ForeignCommit()])
async def test_commit_event_drops_the_known_empty_inbox(component: SharedSignalsComponent, event: object) -> None:
    waiters = component.poll.waiters
    waiters.learn_empty(1, waiters.last_notified(1))
    assert 1 in waiters.empty
    handle(component, event)
    assert 1 not in waiters.empty


async def test_component_handles_revoked_client_tick_and_close(component: SharedSignalsComponent) -> None:
    handle(component, ClientRevoked(1))
    component.tick(5.0)
    assert component.poll.now == 5.0
    component.close()
    assert component.poll.parked_count == 0
