"""The push component: routes, commit events and metrics."""

import pytest

from restante.database.commit_events import ForeignCommit
from restante.database.database import Database
from restante.events.inbox.inbox import InboxChanged
from restante.events.push import receivers
from restante.events.push.component import PushComponent
from restante.events.push.receivers import PushDue
from restante.identity.master_key import MasterKey
from tests.components import handle, metric_values
from tests.events.default_options import api_paths, push_options, push_rules, subscription_options
from tests.events.push_fixture import add_client


@pytest.fixture
def push(database: Database) -> PushComponent:
    options = push_options(rules=push_rules(circuit_failures=1))
    return PushComponent(database, MasterKey(bytes(32)), options, subscription_options(database))


def test_subscription_routes_are_at_every_base(push: PushComponent) -> None:
    paths = {route.path for route in push.routes()}
    assert {f"{base.path}/event-subscriptions" for base in api_paths().bases()} <= paths
    assert len(push.routes()) == 12


@pytest.mark.parametrize(("event", "is_woken"), [(PushDue(), True), (ForeignCommit(), True), (InboxChanged(1), False)])
def test_only_push_commit_events_wake_the_pusher(push: PushComponent, event: object, is_woken: bool) -> None:
    calls: list[str] = []
    push.pusher.wake = lambda: calls.append("wake")
    handle(push, event)
    assert bool(calls) is is_woken


async def test_open_circuits_are_zero_for_a_new_receiver(database: Database, push: PushComponent) -> None:
    client = add_client(database)
    database.write_now(receivers.set_receiver, client, "open-banking", "https://tpp.example/")
    await push.read_metrics()
    assert metric_values(push)["restante_event_circuits_open",] == 0
    await push.finish()
