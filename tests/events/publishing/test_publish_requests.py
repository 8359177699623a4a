from typing import Any

import msgspec
import pytest

from restante.core.decoding import decode_json
from restante.core.errors import BadInput
from restante.database.database import Database
from restante.database.paging import PageRequest
from restante.events.publishing import event_audit
from restante.events.publishing.publish_requests import PUBLISHING, PublishBody, PublishRequest
from restante.events.publishing.publishing import Publisher
from restante.identity.idempotency import IdempotentResult, KeyReused
from tests.events import inbox_fixture
from tests.events.publish_fixture import SUB, UPDATED, inbox_rows

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
