import pytest

from restante.core.errors import BadInput, NotFound
from restante.database.database import Database
from restante.database.hot import Failed
from restante.events.claims import Event, checked_event
from restante.events.recipients import Asked, Clients, Recipient
from tests.events import bank
from tests.events.publishers import SIGNAL, SUB, add_stream, follow, subscribe

A, B = "urn:example:a", "urn:example:b"
ADA = {"format": "email", "email": "ada@example.com"}


def event_of(*types: str, sub: str | None = SUB, sub_id: dict[str, str] | None = None) -> Event:
    return checked_event({name: {} for name in types}, "t", 1, sub, sub_id)


def recipients_of(database: Database, client_id: str | None, event: Event) -> list[Recipient]:
    (found,) = database.read_now(lambda conn: Clients(conn, [client_id]).address([Asked(client_id, event)]))
    if isinstance(found, Failed):
        raise found.error
    return found.recipients


def told(database: Database, event: Event) -> dict[str, list[str]]:
    return {each.client_id: each.types for each in recipients_of(database, None, event)}


def test_without_a_subscription_a_client_is_sent_everything(database: Database) -> None:
    tpp = database.write_now(bank.add_client)
    found = recipients_of(database, tpp.client_id, event_of(A, B))
    assert found == [Recipient(tpp.id, tpp.client_id, [A, B], None)]


def test_a_subscription_names_types_or_stands_for_all(database: Database) -> None:
    some, every, other = (database.write_now(bank.add_client) for _ in range(3))
    subscribe(database, some.id, f'["{B}", "urn:example:c"]')
    subscribe(database, every.id, None)
    subscribe(database, other.id, '["urn:example:c"]')
    assert told(database, event_of(A, B)) == {some.client_id: [B], every.client_id: [A, B]}
    assert recipients_of(database, other.client_id, event_of(A)) == []


def test_a_suspended_client_is_sent_as_before(database: Database) -> None:
    tpp = database.write_now(bank.add_client)
    database.write_now(bank.suspend, tpp.id)
    assert told(database, event_of(A)) == {tpp.client_id: [A]}


def test_an_unknown_client_is_not_found(database: Database) -> None:
    with pytest.raises(NotFound):
        recipients_of(database, "nobody", event_of(A))


def test_a_stream_is_sent_what_it_requested(database: Database) -> None:
    receiver = database.write_now(bank.add_client)
    stream = add_stream(database, receiver.id, f'["{SIGNAL}", "{A}"]')
    found = recipients_of(database, receiver.client_id, event_of(A, B, SIGNAL))
    assert found == [Recipient(receiver.id, receiver.client_id, [A, SIGNAL], stream)]


@pytest.mark.parametrize(("status", "is_told"), [("enabled", True), ("paused", True), ("disabled", False)])
def test_a_paused_stream_keeps_events_and_a_disabled_one_does_not(
    database: Database, status: str, is_told: bool
) -> None:
    receiver = database.write_now(bank.add_client)
    add_stream(database, receiver.id, f'["{SIGNAL}"]', status=status)
    assert bool(told(database, event_of(SIGNAL))) is is_told


def test_a_stream_may_follow_some_subjects_only(database: Database) -> None:
    all_but, only = (database.write_now(bank.add_client) for _ in range(2))
    follow(database, add_stream(database, all_but.id, f'["{SIGNAL}"]'), ADA, is_added=False)
    follow(database, add_stream(database, only.id, f'["{SIGNAL}"]', all_subjects=False), ADA)
    assert set(told(database, event_of(SIGNAL, sub_id=ADA))) == {only.client_id}
    assert set(told(database, event_of(SIGNAL))) == {all_but.client_id}


def test_an_event_without_a_sub_is_for_streams_alone(database: Database) -> None:
    tpp, receiver = (database.write_now(bank.add_client) for _ in range(2))
    add_stream(database, receiver.id, f'["{SIGNAL}"]')
    event = event_of(SIGNAL, sub=None, sub_id=ADA)
    assert set(told(database, event)) == {receiver.client_id}
    with pytest.raises(BadInput) as refused:
        recipients_of(database, tpp.client_id, event)
    assert refused.value.field == "sub"
