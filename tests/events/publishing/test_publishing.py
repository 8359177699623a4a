import json

import pytest

from restante.core.errors import BadInput, NotFound
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.paging import PageRequest
from restante.events.publishing import event_audit, publishing
from restante.events.publishing.publishing import EventsToSign, Publisher
from tests.conftest import START_MS
from tests.events import inbox_fixture
from tests.events.publish_fixture import SESSION_REVOKED, SUB, UPDATED, add_stream, event_request, inbox_rows, publish


def collect_commit_events(database: Database) -> list[object]:
    commit_events: list[object] = []
    database.on_commit(commit_events.extend)
    return commit_events


def test_published_event_is_stored_unsigned(database: Database) -> None:
    tpp = database.write_now(inbox_fixture.add_client)
    commit_events = collect_commit_events(database)
    [jti] = publish(database, tpp.client_id, txn="t-1", toe=7)
    [row] = inbox_rows(database)
    assert (row["client"], row["jti"], row["txn"], row["status"]) == (tpp.id, jti, "t-1", "unsigned")
    assert (row["profile"], row["kid"], json.loads(row["event_types"])) == ("open-banking", None, list(UPDATED))
    assert json.loads(row["text"]) == {
        "iat": START_MS // 1000,
        "jti": jti,
        "sub": SUB,
        "aud": tpp.client_id,
        "txn": "t-1",
        "toe": 7,
        "events": UPDATED,
    }
    assert commit_events == [EventsToSign(1)]


def test_missing_fields_are_generated(database: Database) -> None:
    tpp = database.write_now(inbox_fixture.add_client)
    jtis = {publish(database, tpp.client_id)[0] for _ in range(3)}
    assert len(jtis) == 3
    claims = [json.loads(row["text"]) for row in inbox_rows(database)]
    assert {each["toe"] for each in claims} == {START_MS // 1000}
    assert len({each["txn"] for each in claims}) == 3


def test_event_for_all_subscribers_has_one_txn(database: Database) -> None:
    clients = [database.write_now(inbox_fixture.add_client) for _ in range(3)]
    jtis = publish(database)
    found = inbox_rows(database)
    assert [row["jti"] for row in found] == jtis
    assert [row["client"] for row in found] == [client.id for client in clients]
    assert len({row["txn"] for row in found}) == 1


def test_shared_signals_receiver_gets_one_token_per_event(database: Database) -> None:
    receiver = database.write_now(inbox_fixture.add_client)
    stream = add_stream(database, receiver.id, f'["{SESSION_REVOKED}", "urn:example:a"]')
    jtis = publish(database, receiver.client_id, events={SESSION_REVOKED: {}, "urn:example:a": {}, "urn:example:b": {}})
    found = inbox_rows(database)
    assert [row["jti"] for row in found] == jtis
    assert [list(json.loads(row["text"])["events"]) for row in found] == [[SESSION_REVOKED], ["urn:example:a"]]
    assert {(row["profile"], row["stream"]) for row in found} == {("shared-signals", stream)}


def test_event_without_recipients_is_accepted(database: Database) -> None:
    commit_events = collect_commit_events(database)
    assert publish(database) == []
    assert commit_events == []


def test_request_names_one_client_or_all(database: Database) -> None:
    tpp = database.write_now(inbox_fixture.add_client)
    for client_id, is_for_all in ((tpp.client_id, True), (None, False)):
        with pytest.raises(BadInput) as refused:
            publish(database, client_id, all_subscribers=is_for_all)
        assert refused.value.field == "client_id"
    with pytest.raises(NotFound):
        publish(database, "nobody")
    assert inbox_rows(database) == []


def test_event_is_published_only_if_the_callers_transaction_commits(database: Database) -> None:
    tpp = database.write_now(inbox_fixture.add_client)
    commit_events = collect_commit_events(database)

    def business(conn: Connection) -> None:
        publishing.publish(conn, event_request(tpp.client_id))
        raise RuntimeError("the caller failed")

    with pytest.raises(RuntimeError):
        database.write_now(business)
    assert (inbox_rows(database), commit_events) == ([], [])


def test_publisher_is_recorded_with_the_txn(database: Database) -> None:
    tpp = database.write_now(inbox_fixture.add_client)
    for by in (Publisher("key:core", 7), Publisher("ada"), None):
        database.write_now(publishing.publish, event_request(tpp.client_id, txn="t-1"), by)
    newest, first = database.read_now(event_audit.list_page, tpp.client_id, PageRequest(10, 0)).items
    assert (first.actor, first.event) == ("key:core", "event.published")
    assert json.loads(bytes(first.detail)) == {"txn": "t-1", "types": list(UPDATED), "tokens": 1, "key_id": 7}
    assert newest.actor == "ada"
    assert "key_id" not in json.loads(bytes(newest.detail))
