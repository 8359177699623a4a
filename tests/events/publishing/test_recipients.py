import pytest

from restante.core.errors import BadInput, NotFound
from restante.database.database import Database
from restante.database.writer.batching import Failed
from restante.events.publishing.recipients import Recipient, RecipientReader, TargetedEvent
from restante.events.publishing.token_claims import CheckedEvent, checked_event
from tests.events import inbox_fixture
from tests.events.publish_fixture import SESSION_REVOKED, SUB, add_stream, set_subject_preference, subscribe

A, B = "urn:example:a", "urn:example:b"
ADA = {"format": "email", "email": "ada@example.com"}


def event_of(*types: str, sub: str | None = SUB, sub_id: dict[str, str] | None = None) -> CheckedEvent:
    return checked_event({name: {} for name in types}, "t", 1, sub, sub_id)


def recipients_of(database: Database, client_id: str | None, event: CheckedEvent) -> list[Recipient]:
    parts = database.read_now(
        lambda conn: list(RecipientReader(conn, [client_id]).parts([TargetedEvent(client_id, event)]))
    )
    recipients = []
    for (found,) in parts:
        if isinstance(found, Failed):
            raise found.error
        recipients += found.recipients
    return recipients


def types_by_client(database: Database, event: CheckedEvent) -> dict[str, list[str]]:
    return {each.client_id: each.types for each in recipients_of(database, None, event)}


def test_client_without_subscription_receives_all_types(database: Database) -> None:
    tpp = database.write_now(inbox_fixture.add_client)
    found = recipients_of(database, tpp.client_id, event_of(A, B))
    assert found == [Recipient(tpp.id, tpp.client_id, [A, B], None)]


def test_subscription_lists_types_or_means_all(database: Database) -> None:
    some, every, other = (database.write_now(inbox_fixture.add_client) for _ in range(3))
    subscribe(database, some.id, f'["{B}", "urn:example:c"]')
    subscribe(database, every.id, None)
    subscribe(database, other.id, '["urn:example:c"]')
    assert types_by_client(database, event_of(A, B)) == {some.client_id: [B], every.client_id: [A, B]}
    assert recipients_of(database, other.client_id, event_of(A)) == []


def test_suspended_client_still_receives_events(database: Database) -> None:
    tpp = database.write_now(inbox_fixture.add_client)
    database.write_now(inbox_fixture.suspend, tpp.id)
    assert types_by_client(database, event_of(A)) == {tpp.client_id: [A]}


def test_unknown_client_is_not_found(database: Database) -> None:
    with pytest.raises(NotFound):
        recipients_of(database, "nobody", event_of(A))


def test_stream_receives_its_requested_types(database: Database) -> None:
    receiver = database.write_now(inbox_fixture.add_client)
    stream = add_stream(database, receiver.id, f'["{SESSION_REVOKED}", "{A}"]')
    found = recipients_of(database, receiver.client_id, event_of(A, B, SESSION_REVOKED))
    assert found == [Recipient(receiver.id, receiver.client_id, [A, SESSION_REVOKED], stream)]


@pytest.mark.parametrize(("status", "is_recipient"), [("enabled", True), ("paused", True), ("disabled", False)])
def test_paused_stream_receives_events_and_disabled_stream_does_not(
    database: Database, status: str, is_recipient: bool
) -> None:
    receiver = database.write_now(inbox_fixture.add_client)
    add_stream(database, receiver.id, f'["{SESSION_REVOKED}"]', status=status)
    assert bool(types_by_client(database, event_of(SESSION_REVOKED))) is is_recipient


def test_stream_receives_only_subjects_it_follows(database: Database) -> None:
    all_but, only = (database.write_now(inbox_fixture.add_client) for _ in range(2))
    set_subject_preference(database, add_stream(database, all_but.id, f'["{SESSION_REVOKED}"]'), ADA, is_added=False)
    set_subject_preference(database, add_stream(database, only.id, f'["{SESSION_REVOKED}"]', all_subjects=False), ADA)
    assert set(types_by_client(database, event_of(SESSION_REVOKED, sub_id=ADA))) == {only.client_id}
    assert set(types_by_client(database, event_of(SESSION_REVOKED))) == {all_but.client_id}


def test_event_without_sub_goes_to_streams_only(database: Database) -> None:
    tpp, receiver = (database.write_now(inbox_fixture.add_client) for _ in range(2))
    add_stream(database, receiver.id, f'["{SESSION_REVOKED}"]')
    event = event_of(SESSION_REVOKED, sub=None, sub_id=ADA)
    assert set(types_by_client(database, event)) == {receiver.client_id}
    with pytest.raises(BadInput) as refused:
        recipients_of(database, tpp.client_id, event)
    assert refused.value.field == "sub"
