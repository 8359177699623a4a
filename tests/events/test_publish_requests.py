from typing import Any

import msgspec
import pytest

from restante.core.errors import BadInput
from restante.database.database import Database
from restante.events import event_audit
from restante.events.publish_requests import PUBLISHING, PublishBody, PublishRequest
from restante.events.publishing import Publisher
from restante.web.ask import decode_json
from restante.web.idempotency import Answered, KeyReused
from restante.web.paging import Window
from tests.events import bank
from tests.events.publishers import SUB, UPDATED, rows

ADA = Publisher("ada")


def ask(database: Database, body: dict[str, Any], key: str | None = None) -> Answered:
    decoded = decode_json(msgspec.json.encode({"sub": SUB, "events": UPDATED, **body}), PublishBody)
    return database.run_hot_now(PUBLISHING, PublishRequest(decoded, ADA, key))


def test_one_client_is_answered_with_one_name_and_several_with_their_names(database: Database) -> None:
    tpp, _other = (database.write_now(bank.add_client) for _ in range(2))
    one = msgspec.json.decode(ask(database, {"client_id": tpp.client_id}).json)
    every = msgspec.json.decode(ask(database, {"all_subscribers": True}).json)
    assert [one] == [{"jti": rows(database)[0]["jti"]}]
    assert every == {"jtis": [row["jti"] for row in rows(database)[1:]]}


def test_under_a_key_it_is_published_once(database: Database) -> None:
    tpp = database.write_now(bank.add_client)
    first, again = (ask(database, {"client_id": tpp.client_id}, "k") for _ in range(2))
    assert (first.json, first.is_replayed, again.is_replayed) == (again.json, False, True)
    assert len(rows(database)) == 1
    assert len(database.read_now(event_audit.list_page, None, Window(10, 0)).items) == 1
    with pytest.raises(KeyReused):
        ask(database, {"client_id": tpp.client_id, "txn": "other"}, "k")


def test_a_number_that_cannot_be_written_again_is_refused(database: Database) -> None:
    raw = b'{"sub": "https://a.example", "all_subscribers": true, "events": {"urn:x:y": {"n": 36893488147419103232}}}'
    with pytest.raises(BadInput) as refused:
        database.run_hot_now(PUBLISHING, PublishRequest(decode_json(raw, PublishBody), ADA, "k"))
    assert refused.value.field == "events.urn:x:y.n"
