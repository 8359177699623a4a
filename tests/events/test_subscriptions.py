"""Subscriptions: one for each client, nobody else's to change, and what they mean for pushing."""

from collections.abc import Callable
from functools import partial

import pytest

from restante.core.errors import NotFound
from restante.database.database import Database
from restante.events import subscriptions
from restante.events.subscriptions import AlreadySubscribed, Subscription, Wish
from tests.events.pushing import add_client, add_event, event_of, receiver_of

URL = "https://tpp.example/hook"
POLLING = Wish(None, "4.0", None)
NOTIFIED = Wish(URL, "4.0", ("urn:uk:org:openbanking:events:resource-update",))


@pytest.fixture
def client(database: Database) -> int:
    return add_client(database)


def create(database: Database, client: int, wish: Wish = POLLING) -> Subscription:
    return database.write_now(subscriptions.create, client, wish)


@pytest.mark.parametrize("wish", [POLLING, NOTIFIED])
def test_what_was_created_is_found(database: Database, client: int, wish: Wish) -> None:
    created = create(database, client, wish)
    assert created[1:] == wish
    assert len(created.public_id) <= 40
    assert database.read_now(subscriptions.find, client) == created
    assert database.read_now(subscriptions.find, add_client(database)) is None


def test_a_second_one_is_refused_and_the_first_stays(database: Database, client: int) -> None:
    created = create(database, client)
    with pytest.raises(AlreadySubscribed):
        create(database, client, NOTIFIED)
    assert database.read_now(subscriptions.find, client) == created
    assert receiver_of(database, client) == {}


def test_a_callback_makes_a_receiver_and_without_it_there_is_none(database: Database, client: int) -> None:
    created = create(database, client, NOTIFIED)
    assert receiver_of(database, client)["url"] == URL
    database.write_now(subscriptions.replace, client, created.public_id, POLLING)
    assert receiver_of(database, client) == {}
    replaced = database.write_now(subscriptions.replace, client, created.public_id, NOTIFIED)
    assert replaced == created
    assert receiver_of(database, client)["url"] == URL


def test_other_changes_leave_the_receiver_as_it_is(database: Database, client: int) -> None:
    created = create(database, client, NOTIFIED)
    jti = add_event(database, client)
    before = event_of(database, jti)["push_at"], receiver_of(database, client)
    database.write_now(subscriptions.replace, client, created.public_id, NOTIFIED._replace(version="4.1"))
    assert (event_of(database, jti)["push_at"], receiver_of(database, client)) == before


def test_a_deleted_one_is_gone_and_another_can_be_made(database: Database, client: int) -> None:
    created = create(database, client, NOTIFIED)
    database.write_now(subscriptions.delete, client, created.public_id)
    assert database.read_now(subscriptions.find, client) is None
    assert receiver_of(database, client) == {}
    assert create(database, client).public_id != created.public_id


def test_anothers_looks_as_an_absent_one(database: Database, client: int) -> None:
    anothers = create(database, add_client(database), NOTIFIED).public_id
    said = set()
    for public_id in (anothers, "absent"):
        attempts: list[Callable[[], object]] = [
            partial(database.write_now, subscriptions.replace, client, public_id, POLLING),
            partial(database.write_now, subscriptions.delete, client, public_id),
        ]
        for attempt in attempts:
            with pytest.raises(NotFound) as refused:
                attempt()
            said.add(refused.value.message)
    assert len(said) == 1
