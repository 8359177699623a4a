"""Subscriptions: one for each client, changed only by that client, and their effect on push."""

import dataclasses
from collections.abc import Callable
from functools import partial

import pytest

from restante.core.errors import NotFound
from restante.database.database import Database
from restante.events.push import subscriptions
from restante.events.push.subscriptions import AlreadySubscribed, Subscription, SubscriptionRequest
from tests.events.push_fixture import add_client, add_event, event_of, receiver_of

URL = "https://tpp.example/hook"
POLLING = SubscriptionRequest(None, "4.0", None)
PUSHED = SubscriptionRequest(URL, "4.0", ("urn:uk:org:openbanking:events:resource-update",))


@pytest.fixture
def client(database: Database) -> int:
    return add_client(database)


def create(database: Database, client: int, request: SubscriptionRequest = POLLING) -> Subscription:
    return database.write_now(subscriptions.create, client, request)


@pytest.mark.parametrize("requested", [POLLING, PUSHED])
def test_created_subscription_is_found(database: Database, client: int, requested: SubscriptionRequest) -> None:
    created = create(database, client, requested)
    assert dataclasses.asdict(created) == {"public_id": created.public_id, **dataclasses.asdict(requested)}
    assert len(created.public_id) <= 40
    assert database.read_now(subscriptions.find, client) == created
    assert database.read_now(subscriptions.find, add_client(database)) is None


def test_second_subscription_is_refused(database: Database, client: int) -> None:
    created = create(database, client)
    with pytest.raises(AlreadySubscribed):
        create(database, client, PUSHED)
    assert database.read_now(subscriptions.find, client) == created
    assert receiver_of(database, client) == {}


def test_callback_url_sets_and_removes_the_receiver(database: Database, client: int) -> None:
    created = create(database, client, PUSHED)
    assert receiver_of(database, client)["url"] == URL
    database.write_now(subscriptions.replace, client, created.public_id, POLLING)
    assert receiver_of(database, client) == {}
    replaced = database.write_now(subscriptions.replace, client, created.public_id, PUSHED)
    assert replaced == created
    assert receiver_of(database, client)["url"] == URL


def test_other_changes_do_not_touch_the_receiver(database: Database, client: int) -> None:
    created = create(database, client, PUSHED)
    jti = add_event(database, client)
    before = event_of(database, jti)["push_at"], receiver_of(database, client)
    database.write_now(subscriptions.replace, client, created.public_id, dataclasses.replace(PUSHED, version="4.1"))
    assert (event_of(database, jti)["push_at"], receiver_of(database, client)) == before


def test_deleted_subscription_can_be_created_again(database: Database, client: int) -> None:
    created = create(database, client, PUSHED)
    database.write_now(subscriptions.delete, client, created.public_id)
    assert database.read_now(subscriptions.find, client) is None
    assert receiver_of(database, client) == {}
    assert create(database, client).public_id != created.public_id


def test_missing_and_foreign_subscription_raise_the_same_error(database: Database, client: int) -> None:
    anothers = create(database, add_client(database), PUSHED).public_id
    messages = set()
    for public_id in (anothers, "absent"):
        attempts: list[Callable[[], object]] = [
            partial(database.write_now, subscriptions.replace, client, public_id, POLLING),
            partial(database.write_now, subscriptions.delete, client, public_id),
        ]
        for attempt in attempts:
            with pytest.raises(NotFound) as refused:
                attempt()
            messages.add(refused.value.message)
    assert len(messages) == 1
