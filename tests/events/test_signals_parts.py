"""Shared signals, put together: all routes are there, and news reach the poll of streams."""

import pytest

from restante.database.database import Database
from restante.database.writer import ForeignCommit
from restante.delivery.presence import Presence
from restante.events.eviction import write_last_poll
from restante.events.inbox import InboxChanged
from restante.events.poll import PollOptions
from restante.events.signals_parts import SharedSignals
from restante.events.ssf_options import SignalsOptions
from restante.events.totals import EventTotals
from restante.identity.callers import ClientRevoked
from tests.events.desk import KEY, receiver_client


@pytest.fixture
def signals(database: Database) -> SharedSignals:
    presence = Presence(database, write_last_poll)
    return SharedSignals(database, KEY, receiver_client(), presence, EventTotals(), PollOptions(), SignalsOptions())


def test_every_route_is_there(signals: SharedSignals) -> None:
    found = {(route.method, route.path) for route in signals.routes()}
    assert len(found) == len(signals.routes()) == 14
    assert ("POST", "/ssf/streams/{stream_id}/poll") in found
    assert ("GET", "/.well-known/ssf-configuration") in found


@pytest.mark.parametrize("event", [InboxChanged(1), ForeignCommit()])
async def test_news_are_no_longer_taken_for_nothing(signals: SharedSignals, event: object) -> None:
    bell = signals.poll.bell
    bell.learn_empty(1, bell.last_ring(1))
    assert 1 in bell.empty
    signals.hear(event)
    assert 1 not in bell.empty


async def test_who_is_turned_away_and_closing(signals: SharedSignals) -> None:
    signals.hear(ClientRevoked(1))
    signals.tick(5.0)
    assert signals.poll.now == 5.0
    signals.close()
    assert signals.poll.bell.waiting_count == 0
