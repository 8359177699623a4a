import json
from typing import Any

import pytest

from restante.database.database import Database
from restante.events import event_audit
from restante.identity import api_keys
from restante.identity.callers import Role
from restante.web.paging import Window
from tests.events import bank
from tests.events.bank import Customer
from tests.events.event_desk import EventDesk, refused_at
from tests.events.publishers import SUB, UPDATED, rows, subscribe


@pytest.fixture
def desk(database: Database) -> EventDesk:
    return EventDesk(database)


@pytest.fixture
def tpp(database: Database) -> Customer:
    return database.write_now(bank.add_client, "tpp")


async def test_publish_and_look_at_it(desk: EventDesk, database: Database, tpp: Customer) -> None:
    answer = await desk.publish(client_id="tpp", txn="t-1", toe=7)
    assert (answer.status_code, list(answer.json())) == (201, ["jti"])
    jti = answer.json()["jti"]
    shown = (await desk.call("GET", f"/admin/events/{jti}", role=Role.viewer)).json()
    assert (shown["client_id"], shown["status"], shown["claims"]["toe"]) == (tpp.client_id, "unsigned", 7)
    [recorded] = database.read_now(event_audit.list_page, "tpp", Window(10, 0)).items
    assert (recorded.actor, json.loads(bytes(recorded.detail))["txn"]) == ("key:admin", "t-1")
    assert json.loads(bytes(recorded.detail))["key_id"] in [
        key.id for key in database.read_now(api_keys.list_all) if key.name == "admin"
    ]
    listed = (await desk.call("GET", "/admin/events?client_id=tpp&status=unsigned", role=Role.viewer)).json()
    assert [event["jti"] for event in listed["items"]] == [jti]


async def test_all_subscribers(desk: EventDesk, database: Database, tpp: Customer) -> None:
    other = database.write_now(bank.add_client)
    subscribe(database, other.id, '["urn:example:other"]')
    answer = await desk.publish(all_subscribers=True)
    assert (answer.status_code, len(answer.json()["jtis"])) == (201, 1)
    assert (await desk.publish(client_id=other.client_id)).json() == {"jtis": []}
    assert [row["client"] for row in rows(database)] == [tpp.id]


async def test_an_idempotency_key(desk: EventDesk, database: Database, tpp: Customer) -> None:
    body = {"client_id": tpp.client_id, "sub": SUB, "events": UPDATED}
    key = {"idempotency-key": "k-1"}
    first, again = [await desk.call("POST", "/admin/events", body, headers=key) for _ in range(2)]
    assert (first.json(), again.status_code) == (again.json(), 201)
    assert [each.headers.get("idempotency-replayed") for each in (first, again)] == [None, "true"]
    assert len(rows(database)) == 1
    reused = await desk.call("POST", "/admin/events", {**body, "txn": "x"}, headers=key)
    assert refused_at(reused) == (422, "Header.Invalid", "Idempotency-Key")
    bad = await desk.call("POST", "/admin/events", body, headers={"idempotency-key": "x" * 256})
    assert refused_at(bad)[0] == 400


@pytest.mark.parametrize(
    ("changed", "refusal"),
    [
        ({}, (400, "Field.Invalid", "client_id")),
        ({"client_id": "tpp", "all_subscribers": True}, (400, "Field.Invalid", "client_id")),
        ({"client_id": ""}, (400, "Field.Invalid", "client_id")),
        ({"client_id": "nobody"}, (404, "Resource.NotFound", None)),
        ({"client_id": "tpp", "events": ...}, (400, "Field.Missing", "events")),
        ({"client_id": "tpp", "events": {}}, (400, "Field.Invalid", "events")),
        ({"client_id": "tpp", "events": {"x": {}}}, (400, "Field.Invalid", "events.x")),
        ({"client_id": "tpp", "sub": ...}, (400, "Field.Missing", "sub")),
        ({"client_id": "tpp", "sub": "no uri"}, (400, "Field.Invalid", "sub")),
        ({"client_id": "tpp", "toe": -1}, (400, "Field.Invalid", "toe")),
        ({"client_id": "tpp", "toe": 1.5}, (400, "Field.Invalid", "toe")),
        ({"client_id": "tpp", "txn": ""}, (400, "Field.Invalid", "txn")),
        ({"client_id": "tpp", "jti": "own"}, (400, "Field.Unexpected", "jti")),
        ({"client_id": "tpp", "sub_id": {"format": "email"}}, (400, "Field.Invalid", "sub_id.email")),
    ],
)
async def test_bad_requests_change_nothing(
    desk: EventDesk, database: Database, tpp: Customer, changed: dict[str, Any], refusal: tuple[int, str, str | None]
) -> None:
    assert refused_at(await desk.publish(**changed)) == refusal
    assert rows(database) == []
    assert tpp.id


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"events": NaN}', b'{"events": {"urn:x:y": {"n": 1e999}}}'])
async def test_what_is_no_json_is_refused(desk: EventDesk, content: bytes) -> None:
    assert (await desk.call("POST", "/admin/events", content=content)).status_code == 400


async def test_release_and_drop(desk: EventDesk, database: Database, tpp: Customer) -> None:
    database.write_now(bank.put_ready, tpp.id, "a", "b", "c", "d")
    database.write_now(bank.call_wrong, tpp.id, dict.fromkeys("abcd", ("jwtIss", "no")))
    released = await desk.call("POST", "/admin/events/a/release", role=Role.operator)
    dropped = await desk.call("POST", "/admin/events/b/drop", role=Role.operator)
    assert (released.json()["status"], dropped.json()["status"]) == ("ready", "dropped")
    again = await desk.call("POST", "/admin/events/a/release")
    assert again.status_code == 409
    assert refused_at(await desk.call("POST", "/admin/events/nothing/drop"))[0] == 404
    assert (await desk.call("POST", "/admin/events/clients/tpp/release")).json() == {"count": 2}
    assert (await desk.call("POST", "/admin/events/clients/tpp/drop")).json() == {"count": 0}
    assert refused_at(await desk.call("POST", "/admin/events/clients/nobody/drop"))[0] == 404


async def test_how_clients_stand(desk: EventDesk, database: Database, tpp: Customer) -> None:
    database.write_now(bank.put_ready, tpp.id, "a", "b")
    database.write_now(bank.call_wrong, tpp.id, {"a": ("jwtIss", "no")})
    listed = (await desk.call("GET", "/admin/events/clients", role=Role.viewer)).json()
    assert [(each["client_id"], each["waiting"], each["errored"]) for each in listed["items"]] == [("tpp", 1, 1)]
    shown = (await desk.call("GET", "/admin/events/clients/tpp", role=Role.viewer)).json()
    assert shown["reasons"] == [{"err": "jwtIss", "count": 1, "newest_description": "no"}]
    assert (await desk.call("GET", "/admin/events/clients/nobody")).status_code == 404


@pytest.mark.parametrize("query", ["status=odd", "limit=0", "after=x", "client_id=a&client_id=b"])
async def test_bad_queries(desk: EventDesk, query: str) -> None:
    assert refused_at(await desk.call("GET", f"/admin/events?{query}"))[0] == 400


async def test_who_may(desk: EventDesk, tpp: Customer) -> None:
    body = {"client_id": tpp.client_id, "sub": SUB, "events": UPDATED}
    assert (await desk.call("POST", "/admin/events", body, role=Role.operator)).status_code == 201
    assert (await desk.call("POST", "/admin/events", body, role=Role.viewer)).status_code == 403
    assert (await desk.call("GET", "/admin/events", role=None)).status_code == 401
