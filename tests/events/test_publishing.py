import json

import pytest

from restante.core.errors import BadInput, NotFound
from restante.database.connection import Connection
from restante.database.database import Database
from restante.events import event_audit, publishing
from restante.events.publishing import EventsToSign, Publisher
from restante.web.paging import Window
from tests.conftest import START_MS
from tests.events import bank
from tests.events.publishers import SIGNAL, SUB, UPDATED, add_stream, publish, rows, wish


def announced(database: Database) -> list[object]:
    heard: list[object] = []
    database.on_commit(heard.extend)
    return heard


def test_an_event_is_left_to_be_signed(database: Database) -> None:
    tpp = database.write_now(bank.add_client)
    heard = announced(database)
    [jti] = publish(database, tpp.client_id, txn="t-1", toe=7)
    [row] = rows(database)
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
    assert heard == [EventsToSign(1)]


def test_what_is_not_given_is_made(database: Database) -> None:
    tpp = database.write_now(bank.add_client)
    names = {publish(database, tpp.client_id)[0] for _ in range(3)}
    assert len(names) == 3
    told = [json.loads(row["text"]) for row in rows(database)]
    assert {each["toe"] for each in told} == {START_MS // 1000}
    assert len({each["txn"] for each in told}) == 3


def test_all_subscribers_are_told_under_one_transaction(database: Database) -> None:
    clients = [database.write_now(bank.add_client) for _ in range(3)]
    jtis = publish(database)
    found = rows(database)
    assert [row["jti"] for row in found] == jtis
    assert [row["client"] for row in found] == [client.id for client in clients]
    assert len({row["txn"] for row in found}) == 1


def test_a_receiver_of_shared_signals_gets_a_token_for_each_event(database: Database) -> None:
    receiver = database.write_now(bank.add_client)
    stream = add_stream(database, receiver.id, f'["{SIGNAL}", "urn:example:a"]')
    jtis = publish(database, receiver.client_id, events={SIGNAL: {}, "urn:example:a": {}, "urn:example:b": {}})
    found = rows(database)
    assert [row["jti"] for row in found] == jtis
    assert [list(json.loads(row["text"])["events"]) for row in found] == [[SIGNAL], ["urn:example:a"]]
    assert {(row["profile"], row["stream"]) for row in found} == {("shared-signals", stream)}


def test_nobody_to_tell_is_no_mistake(database: Database) -> None:
    heard = announced(database)
    assert publish(database) == []
    assert heard == []


def test_one_client_or_all(database: Database) -> None:
    tpp = database.write_now(bank.add_client)
    for client_id, is_for_all in ((tpp.client_id, True), (None, False)):
        with pytest.raises(BadInput) as refused:
            publish(database, client_id, all_subscribers=is_for_all)
        assert refused.value.field == "client_id"
    with pytest.raises(NotFound):
        publish(database, "nobody")
    assert rows(database) == []


def test_it_is_published_with_what_the_caller_commits_or_not_at_all(database: Database) -> None:
    tpp = database.write_now(bank.add_client)
    heard = announced(database)

    def business(conn: Connection) -> None:
        publishing.publish(conn, wish(tpp.client_id))
        raise RuntimeError("the caller's own trouble")

    with pytest.raises(RuntimeError):
        database.write_now(business)
    assert (rows(database), heard) == ([], [])


def test_who_published_is_recorded_under_the_transaction(database: Database) -> None:
    tpp = database.write_now(bank.add_client)
    for by in (Publisher("key:core", 7), Publisher("ada"), None):
        database.write_now(publishing.publish, wish(tpp.client_id, txn="t-1"), by)
    newest, first = database.read_now(event_audit.list_page, tpp.client_id, Window(10, 0)).items
    assert (first.actor, first.event) == ("key:core", "event.published")
    assert json.loads(bytes(first.detail)) == {"txn": "t-1", "types": list(UPDATED), "tokens": 1, "key_id": 7}
    assert newest.actor == "ada"
    assert "key_id" not in json.loads(bytes(newest.detail))
