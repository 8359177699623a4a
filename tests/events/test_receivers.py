"""Receivers: put, moved, held and taken away; what that means for the events that wait for them."""

import pytest

from restante.database.database import Database
from restante.events import receivers
from restante.events.receivers import PushDue
from tests.conftest import START_MS, ManualClock
from tests.events.pushing import add_client, add_event, event_of, receiver_of

URL = "https://tpp.example/hook"


@pytest.fixture
def client(database: Database) -> int:
    return add_client(database)


@pytest.fixture
def announced(database: Database) -> list[object]:
    found: list[object] = []
    database.on_commit(found.extend)
    return found


def put(database: Database, client: int, url: str = URL) -> None:
    database.write_now(receivers.put, client, "open-banking", url)


def test_a_receiver_that_was_put_is_announced(database: Database, client: int, announced: list[object]) -> None:
    put(database, client)
    assert receiver_of(database, client)["url"] == URL
    assert announced == [PushDue()]


def test_a_receiver_that_moved_is_tried_at_once_and_without_its_old_failures(
    database: Database, client: int, clock: ManualClock
) -> None:
    put(database, client)
    jti = add_event(database, client)
    clock.advance(50)
    put(database, client, "https://new.example/")
    assert event_of(database, jti)["push_at"] == START_MS + 50_000
    state = receiver_of(database, client)
    assert (state["url"], state["failures"], state["retry_at"]) == ("https://new.example/", 0, 0)


def test_events_of_a_receiver_that_goes_are_left_to_polling(database: Database, client: int) -> None:
    put(database, client)
    jti = add_event(database, client)
    others = add_event(database, add_client(database))
    database.write_now(receivers.remove, client, "open-banking")
    assert receiver_of(database, client) == {}
    assert event_of(database, jti)["push_at"] is None
    assert event_of(database, jti)["status"] == "ready"
    assert event_of(database, others)["push_at"] is not None


def test_the_two_profiles_have_receivers_of_their_own(database: Database, client: int) -> None:
    put(database, client)
    database.write_now(receivers.put, client, "shared-signals", "https://ssf.example/", b"sealed")
    jti = add_event(database, client)
    database.write_now(receivers.remove, client, "shared-signals")
    assert receiver_of(database, client)["url"] == URL
    assert event_of(database, jti)["push_at"] is not None


def test_holding_and_letting_go(database: Database, client: int, announced: list[object]) -> None:
    put(database, client)
    announced.clear()
    database.write_now(receivers.hold, client, "open-banking", 7)
    assert receiver_of(database, client)["open_through"] == 7
    assert announced == []
    database.write_now(receivers.let_go, client, "open-banking")
    assert receiver_of(database, client)["open_through"] is None
    assert announced == [PushDue()]


def test_states_tell_how_many_wait(database: Database, client: int) -> None:
    put(database, client)
    add_event(database, client)
    add_event(database, client, is_to_be_pushed=False)
    add_event(database, client, status="unsigned")
    (state,) = database.read_now(receivers.states, client)
    assert (state.profile, state.url, state.open_through, state.failures, state.waiting) == (
        "open-banking",
        URL,
        None,
        0,
        1,
    )
    assert database.read_now(receivers.states, add_client(database)) == []
