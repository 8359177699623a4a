"""Pushing, put together: its routes, and what it hears."""

import pytest

from restante.core.push_outcome import PushRules
from restante.database.database import Database
from restante.database.writer import ForeignCommit
from restante.events import receivers
from restante.events.inbox import InboxChanged
from restante.events.push import PushOptions
from restante.events.push_parts import EventPush
from restante.events.receivers import PushDue
from restante.identity.master_key import MasterKey
from tests.events.pushing import add_client


@pytest.fixture
def push(database: Database) -> EventPush:
    options = PushOptions(rules=PushRules(circuit_failures=1))
    return EventPush(database, MasterKey(bytes(32)), options, ["", "/base"], None)


def test_subscriptions_are_at_both_bases(push: EventPush) -> None:
    paths = {route.path for route in push.routes()}
    assert {"/event-subscriptions", "/base/event-subscriptions"} <= paths
    assert len(push.routes()) == 8


@pytest.mark.parametrize(("event", "is_heard"), [(PushDue(), True), (ForeignCommit(), True), (InboxChanged(1), False)])
def test_what_may_have_to_be_pushed_rings(push: EventPush, event: object, is_heard: bool) -> None:
    rung: list[str] = []
    push.pusher.ring = lambda: rung.append("rung")
    push.hear(event)
    assert bool(rung) is is_heard


def test_open_circuits_are_counted(database: Database, push: EventPush) -> None:
    client = add_client(database)
    database.write_now(receivers.put, client, "open-banking", "https://tpp.example/")
    assert database.read_now(push.open_circuits) == 0
    push.close()
