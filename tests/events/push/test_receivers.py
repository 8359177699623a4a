"""Setting, moving, pausing and removing receivers, and the effect on waiting events."""

import pytest

from restante.database.database import Database
from restante.events.push import receivers
from restante.events.push.receivers import PushDue
from tests.conftest import START_MS, ManualClock
from tests.events.push_fixture import add_client, add_event, event_of, receiver_of

URL = "https://tpp.example/hook"


@pytest.fixture
def client(database: Database) -> int:
    return add_client(database)


@pytest.fixture
def commit_events(database: Database) -> list[object]:
    found: list[object] = []
    database.on_commit(found.extend)
    return found


def set_receiver(database: Database, client: int, url: str = URL) -> None:
    database.write_now(receivers.set_receiver, client, "open-banking", url)


def test_setting_a_receiver_publishes_push_due(database: Database, client: int, commit_events: list[object]) -> None:
    set_receiver(database, client)
    assert receiver_of(database, client)["url"] == URL
    assert commit_events == [PushDue()]


def test_receiver_with_a_new_url_is_tried_at_once_without_failures(
    database: Database, client: int, clock: ManualClock
) -> None:
    set_receiver(database, client)
    jti = add_event(database, client)
    clock.advance(50)
    set_receiver(database, client, "https://new.example/")
    assert event_of(database, jti)["push_at"] == START_MS + 50_000
    state = receiver_of(database, client)
    assert (state["url"], state["failures"], state["retry_at"]) == ("https://new.example/", 0, 0)


def test_events_of_a_removed_receiver_are_left_to_polling(database: Database, client: int) -> None:
    set_receiver(database, client)
    jti = add_event(database, client)
    others = add_event(database, add_client(database))
    database.write_now(receivers.remove_receiver, client, "open-banking")
    assert receiver_of(database, client) == {}
    assert event_of(database, jti)["push_at"] is None
    assert event_of(database, jti)["status"] == "ready"
    assert event_of(database, others)["push_at"] is not None


def test_each_profile_has_its_own_receiver(database: Database, client: int) -> None:
    set_receiver(database, client)
    database.write_now(receivers.set_receiver, client, "shared-signals", "https://ssf.example/", b"sealed")
    jti = add_event(database, client)
    database.write_now(receivers.remove_receiver, client, "shared-signals")
    assert receiver_of(database, client)["url"] == URL
    assert event_of(database, jti)["push_at"] is not None


def test_receiver_is_paused_and_resumed(database: Database, client: int, commit_events: list[object]) -> None:
    set_receiver(database, client)
    commit_events.clear()
    database.write_now(receivers.pause, client, "open-banking", 7)
    assert receiver_of(database, client)["open_through"] == 7
    assert commit_events == []
    database.write_now(receivers.resume, client, "open-banking")
    assert receiver_of(database, client)["open_through"] is None
    assert commit_events == [PushDue()]


def test_states_count_waiting_events(database: Database, client: int) -> None:
    set_receiver(database, client)
    add_event(database, client)
    add_event(database, client, is_to_be_pushed=False)
    add_event(database, client, status="unsigned")
    (state,) = database.read_now(receivers.list_states, client)
    assert (state.profile, state.url, state.open_through, state.failures, state.waiting) == (
        "open-banking",
        URL,
        None,
        0,
        1,
    )
    assert database.read_now(receivers.list_states, add_client(database)) == []
