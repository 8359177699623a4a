import csv
import json
from typing import Any

import pytest

from restante.database.database import Database
from restante.database.paging import PageRequest
from restante.events.publishing import event_audit
from restante.identity import api_keys
from restante.identity.callers import Role
from tests.events import inbox_fixture
from tests.events.inbox_fixture import PollingClient
from tests.events.operator_app import OperatorApp, error_of
from tests.events.publish_fixture import SUB, UPDATED, inbox_rows, subscribe


@pytest.fixture
def app(database: Database) -> OperatorApp:
    return OperatorApp(database)


@pytest.fixture
def tpp(database: Database) -> PollingClient:
    return database.write_now(inbox_fixture.add_client, "tpp")


async def test_published_event_can_be_shown_and_listed(
    app: OperatorApp, database: Database, tpp: PollingClient
) -> None:
    response = await app.publish(client_id="tpp", txn="t-1", toe=7)
    assert (response.status_code, list(response.json())) == (201, ["jti"])
    jti = response.json()["jti"]
    shown = (await app.request("GET", f"/admin/events/{jti}", role=Role.viewer)).json()
    assert (shown["client_id"], shown["status"], shown["claims"]["toe"]) == (tpp.client_id, "unsigned", 7)
    [recorded] = database.read_now(event_audit.list_page, "tpp", PageRequest(10, 0)).items
    assert (recorded.actor, json.loads(bytes(recorded.detail))["txn"]) == ("key:admin", "t-1")
    assert json.loads(bytes(recorded.detail))["key_id"] in [
        key.id for key in database.read_now(api_keys.list_all) if key.name == "admin"
    ]
    listed = (await app.request("GET", "/admin/events?client_id=tpp&status=unsigned", role=Role.viewer)).json()
    assert [event["jti"] for event in listed["items"]] == [jti]


async def test_event_for_all_subscribers_reaches_only_subscribers(
    app: OperatorApp, database: Database, tpp: PollingClient
) -> None:
    other = database.write_now(inbox_fixture.add_client)
    subscribe(database, other.id, '["urn:example:other"]')
    response = await app.publish(all_subscribers=True)
    assert (response.status_code, len(response.json()["jtis"])) == (201, 1)
    assert (await app.publish(client_id=other.client_id)).json() == {"jtis": []}
    assert [row["client"] for row in inbox_rows(database)] == [tpp.id]


async def test_idempotency_key_publishes_once(app: OperatorApp, database: Database, tpp: PollingClient) -> None:
    body = {"client_id": tpp.client_id, "sub": SUB, "events": UPDATED}
    key = {"idempotency-key": "k-1"}
    first, again = [await app.request("POST", "/admin/events", body, headers=key) for _ in range(2)]
    assert (first.json(), again.status_code) == (again.json(), 201)
    assert [each.headers.get("idempotency-replayed") for each in (first, again)] == [None, "true"]
    assert len(inbox_rows(database)) == 1
    reused = await app.request("POST", "/admin/events", {**body, "txn": "x"}, headers=key)
    assert error_of(reused) == (422, "Header.Invalid", "Idempotency-Key")
    bad = await app.request("POST", "/admin/events", body, headers={"idempotency-key": "x" * 256})
    assert error_of(bad)[0] == 400


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
async def test_invalid_request_is_refused_and_changes_nothing(
    app: OperatorApp,
    database: Database,
    tpp: PollingClient,
    changed: dict[str, Any],
    refusal: tuple[int, str, str | None],
) -> None:
    assert error_of(await app.publish(**changed)) == refusal
    assert inbox_rows(database) == []
    assert tpp.id


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"events": NaN}', b'{"events": {"urn:x:y": {"n": 1e999}}}'])
async def test_invalid_json_is_refused(app: OperatorApp, content: bytes) -> None:
    assert (await app.request("POST", "/admin/events", content=content)).status_code == 400


async def test_errored_events_are_released_and_dropped(
    app: OperatorApp, database: Database, tpp: PollingClient
) -> None:
    database.write_now(inbox_fixture.put_ready, tpp.id, "a", "b", "c", "d")
    database.write_now(inbox_fixture.report_errors, tpp.id, dict.fromkeys("abcd", ("jwtIss", "no")))
    released = await app.request("POST", "/admin/events/a/release", role=Role.operator)
    dropped = await app.request("POST", "/admin/events/b/drop", role=Role.operator)
    assert (released.json()["status"], dropped.json()["status"]) == ("ready", "dropped")
    again = await app.request("POST", "/admin/events/a/release")
    assert again.status_code == 409
    assert error_of(await app.request("POST", "/admin/events/nothing/drop"))[0] == 404
    assert (await app.request("POST", "/admin/events/clients/tpp/release")).json() == {"count": 2}
    assert (await app.request("POST", "/admin/events/clients/tpp/drop")).json() == {"count": 0}
    assert error_of(await app.request("POST", "/admin/events/clients/nobody/drop"))[0] == 404


async def test_client_status_is_listed_and_shown(app: OperatorApp, database: Database, tpp: PollingClient) -> None:
    database.write_now(inbox_fixture.put_ready, tpp.id, "a", "b")
    database.write_now(inbox_fixture.report_errors, tpp.id, {"a": ("jwtIss", "no")})
    listed = (await app.request("GET", "/admin/events/clients", role=Role.viewer)).json()
    assert [(each["client_id"], each["waiting"], each["errored"]) for each in listed["items"]] == [("tpp", 1, 1)]
    shown = (await app.request("GET", "/admin/events/clients/tpp", role=Role.viewer)).json()
    assert shown["reasons"] == [{"err": "jwtIss", "count": 1, "newest_description": "no"}]
    assert (await app.request("GET", "/admin/events/clients/nobody")).status_code == 404


@pytest.mark.parametrize("query", ["status=odd", "limit=0", "after=x", "client_id=a&client_id=b"])
async def test_invalid_query_is_refused(app: OperatorApp, query: str) -> None:
    assert error_of(await app.request("GET", f"/admin/events?{query}"))[0] == 400


async def test_events_are_filtered_counted_and_exported(
    app: OperatorApp, database: Database, tpp: PollingClient
) -> None:
    database.write_now(inbox_fixture.put_ready, tpp.id, "a", "b", "c")
    database.write_now(inbox_fixture.deliver, tpp.id, "a", "b", "c")
    database.write_now(inbox_fixture.report_errors, tpp.id, {"b": ("jwtIss", "no")})
    for query, expected in (
        ("err=jwtIss", ["b"]),
        ("client_id=tpp&err=jwtIss&status=errored", ["b"]),
        ("profile=open-banking", ["c", "b", "a"]),
        ("profile=shared-signals&client_id=tpp", []),
        ("client_id=tpp&status=ready&until=9999-01-01T00:00:00Z", ["c", "a"]),
        ("since=9999-01-01T00:00:00Z", []),
    ):
        listed = (await app.request("GET", f"/admin/events?{query}")).json()
        assert [event["jti"] for event in listed["items"]] == expected, query
    counts = (await app.request("GET", "/admin/events/counts?client_id=tpp", role=Role.viewer)).json()
    assert counts["total"] == {"value": 3, "is_exact": True}
    assert (counts["states"]["errored"]["value"], counts["states"]["ready"]["value"]) == (1, 2)
    exported = await app.request("GET", "/admin/events/export?client_id=tpp", role=Role.viewer)
    lines = list(csv.DictReader(exported.text.removeprefix("\ufeff").splitlines()))
    assert [line["jti"] for line in lines] == ["c", "b", "a"]
    as_json = await app.request("GET", "/admin/events/export?format=json&status=errored")
    assert [event["jti"] for event in as_json.json()] == ["b"]
    for part in ("", "/counts", "/export"):
        refused = await app.request("GET", f"/admin/events{part}?client=tpp")
        assert (refused.status_code, "did you mean 'client_id'?" in refused.text) == (400, True), refused.text


async def test_roles_limit_access(app: OperatorApp, tpp: PollingClient) -> None:
    body = {"client_id": tpp.client_id, "sub": SUB, "events": UPDATED}
    assert (await app.request("POST", "/admin/events", body, role=Role.operator)).status_code == 201
    assert (await app.request("POST", "/admin/events", body, role=Role.viewer)).status_code == 403
    assert (await app.request("GET", "/admin/events", role=None)).status_code == 401
