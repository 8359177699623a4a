from typing import Any

import msgspec
import pytest

from restante.core.decoding import decode_json
from restante.core.errors import BadInput, NotFound
from restante.database.database import Database
from restante.database.paging import PageRequest
from restante.events.publishing import event_audit, recipients
from restante.events.publishing.publish_requests import PUBLISHING, PublishBody, PublishRequest
from restante.events.publishing.publishing import Publication, Publisher, publish_all
from restante.identity.idempotency import IdempotentResult, KeyReused
from tests.events import inbox_fixture
from tests.events.publish_fixture import SUB, UPDATED, event_request, inbox_rows

ADA = Publisher("ada")


def publish(database: Database, body: dict[str, Any], key: str | None = None) -> IdempotentResult:
    decoded = decode_json(msgspec.json.encode({"sub": SUB, "events": UPDATED, **body}), PublishBody)
    return database.run_batched_now(PUBLISHING, PublishRequest(decoded, ADA, key))


def test_one_client_gets_jti_and_all_subscribers_get_jtis(database: Database) -> None:
    tpp, _other = (database.write_now(inbox_fixture.add_client) for _ in range(2))
    one = msgspec.json.decode(publish(database, {"client_id": tpp.client_id}).json)
    every = msgspec.json.decode(publish(database, {"all_subscribers": True}).json)
    assert [one] == [{"jti": inbox_rows(database)[0]["jti"]}]
    assert every == {"jtis": [row["jti"] for row in inbox_rows(database)[1:]]}


def test_event_is_published_once_for_an_idempotency_key(database: Database) -> None:
    tpp = database.write_now(inbox_fixture.add_client)
    first, again = (publish(database, {"client_id": tpp.client_id}, "k") for _ in range(2))
    assert (first.json, first.is_replayed, again.is_replayed) == (again.json, False, True)
    assert len(inbox_rows(database)) == 1
    assert len(database.read_now(event_audit.list_page, None, PageRequest(10, 0)).items) == 1
    with pytest.raises(KeyReused):
        publish(database, {"client_id": tpp.client_id, "txn": "other"}, "k")


def test_integer_beyond_64_bits_is_refused(database: Database) -> None:
    raw = b'{"sub": "https://a.example", "all_subscribers": true, "events": {"urn:x:y": {"n": 36893488147419103232}}}'
    with pytest.raises(BadInput) as refused:
        database.run_batched_now(PUBLISHING, PublishRequest(decode_json(raw, PublishBody), ADA, "k"))
    assert refused.value.field == "events.urn:x:y.n"


def test_event_to_more_clients_than_a_page_reaches_each_of_them_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recipients, "PAGE_CLIENTS", 2)
    clients = [database.write_now(inbox_fixture.add_client) for _ in range(5)]
    jtis = msgspec.json.decode(publish(database, {"all_subscribers": True}).json)["jtis"]
    rows = inbox_rows(database)
    assert [(row["client"], row["jti"]) for row in rows] == list(zip([each.id for each in clients], jtis, strict=True))


@pytest.mark.parametrize("page_clients", [1, 2, 3, 100])
def test_events_published_together_keep_their_order_for_each_client(
    database: Database, monkeypatch: pytest.MonkeyPatch, page_clients: int
) -> None:
    monkeypatch.setattr(recipients, "PAGE_CLIENTS", page_clients)
    first, second, third = (database.write_now(inbox_fixture.add_client) for _ in range(3))
    targets = [None, second.client_id, "nobody", None, third.client_id]
    publications = [
        Publication(event_request(client_id, txn=f"t{number}"), ADA) for number, client_id in enumerate(targets)
    ]
    outcomes = database.write_now(publish_all, publications)
    assert [len(each) if isinstance(each, list) else type(each.error) for each in outcomes] == [3, 1, NotFound, 3, 1]
    rows = inbox_rows(database)
    by_client = {each.id: [row["txn"] for row in rows if row["client"] == each.id] for each in (first, second, third)}
    assert by_client == {first.id: ["t0", "t3"], second.id: ["t0", "t1", "t3"], third.id: ["t0", "t3", "t4"]}
    actions = database.read_now(event_audit.list_page, None, PageRequest(10, 0)).items
    assert [msgspec.json.decode(action.detail)["tokens"] for action in reversed(actions)] == [3, 1, 3, 1]
