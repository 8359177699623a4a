"""Event subscriptions over HTTP: the profile's own example, every status and error code, at both paths."""

from typing import Any

import pytest

from restante.database.database import Database
from restante.events.publishing import EventWish, publish
from restante.events.routes_subscriptions import SubscriptionRoutes
from tests.events.desk import BASE, Desk, DeskClient, receiver_client
from tests.events.publishers import SUB, UPDATED
from tests.events.pushing import client_id_of, receiver_of

PATHS = ["/event-subscriptions", "/open-banking/v4.0/event-subscriptions"]
URL = "https://tpp.example/open-banking/v3.1/event-notifications"
RESOURCE_UPDATE = "urn:uk:org:openbanking:events:resource-update"
POLLING = {"Data": {"Version": "4.0"}}
WHOLE = {"Data": {"CallbackUrl": URL, "Version": "4.0", "EventTypes": [RESOURCE_UPDATE]}}


@pytest.fixture
def desk(database: Database) -> Desk:
    return Desk(database, SubscriptionRoutes(database, receiver_client(), ["", "/open-banking/v4.0"], None).routes())


@pytest.fixture
def client(desk: Desk) -> DeskClient:
    return desk.new_client()


async def created(client: DeskClient, body: dict[str, Any] = POLLING) -> str:
    answer = await client.ask("POST", PATHS[0], body)
    assert answer.status_code == 201
    return str(answer.json()["Data"]["EventSubscriptionId"])


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("body", [POLLING, WHOLE])
async def test_its_whole_life(database: Database, client: DeskClient, path: str, body: dict[str, Any]) -> None:
    answer = await client.ask("POST", path, body, {"x-fapi-interaction-id": "86ebcd82-8e38-4f2d-a79c-965b41d15865"})
    assert answer.status_code == 201
    assert answer.headers["x-fapi-interaction-id"] == "86ebcd82-8e38-4f2d-a79c-965b41d15865"
    assert answer.headers["cache-control"] == "no-store"
    public_id = answer.json()["Data"]["EventSubscriptionId"]
    data = {"EventSubscriptionId": public_id, **body["Data"]}
    itself = f"{BASE}{path}/{public_id}"
    assert answer.json() == {"Data": data, "Links": {"Self": itself}, "Meta": {}}
    shown = await client.ask("GET", path)
    assert shown.status_code == 200
    assert shown.json() == {"Data": {"EventSubscription": [data]}, "Links": {"Self": BASE + path}, "Meta": {}}
    changed = {**answer.json(), "Data": {**data, "Version": "4.1"}}
    replaced = await client.ask("PUT", f"{path}/{public_id}", changed)
    assert (replaced.status_code, replaced.json()) == (200, changed)
    deleted = await client.ask("DELETE", f"{path}/{public_id}")
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert "x-fapi-interaction-id" in deleted.headers
    assert (await client.ask("GET", path)).json()["Data"] == {"EventSubscription": []}
    assert receiver_of(database, client.id) == {}


async def test_a_second_one_is_a_conflict(client: DeskClient) -> None:
    await created(client)
    answer = await client.ask("POST", PATHS[0], WHOLE)
    assert answer.status_code == 409
    assert answer.json()["Code"] == "409 Conflict"
    assert answer.json()["Errors"][0]["ErrorCode"] == "UK.OBIE.Rules.ResourceAlreadyExists"


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_anothers_and_an_absent_one_look_the_same(desk: Desk, client: DeskClient, method: str) -> None:
    anothers = await created(desk.new_client())
    answers = [
        await client.ask(method, f"{PATHS[0]}/{public_id}", POLLING if method == "PUT" else None)
        for public_id in (anothers, "absent")
    ]
    assert [answer.status_code for answer in answers] == [404, 404]
    bodies = [{**answer.json(), "Id": ""} for answer in answers]
    assert bodies[0] == bodies[1]
    assert bodies[0]["Errors"][0]["ErrorCode"] == "UK.OBIE.Resource.NotFound"


BAD: dict[str, tuple[Any, str, str]] = {
    "nothing": ({}, "UK.OBIE.Field.Missing", "Data"),
    "no version": ({"Data": {}}, "UK.OBIE.Field.Missing", "Data.Version"),
    "an empty version": ({"Data": {"Version": ""}}, "UK.OBIE.Field.Invalid", "Data.Version"),
    "a long version": ({"Data": {"Version": "1" * 11}}, "UK.OBIE.Field.Invalid", "Data.Version"),
    "a number": ({"Data": {"Version": 4}}, "UK.OBIE.Field.Invalid", "Data.Version"),
    "no type": ({"Data": {"Version": "4.0", "EventTypes": []}}, "UK.OBIE.Field.Invalid", "Data.EventTypes"),
    "a null": ({"Data": {"Version": "4.0", "EventTypes": None}}, "UK.OBIE.Field.Invalid", "Data.EventTypes"),
    "twice the same": (
        {"Data": {"Version": "4.0", "EventTypes": [RESOURCE_UPDATE] * 2}},
        "UK.OBIE.Field.Invalid",
        "Data.EventTypes",
    ),
    "a bare name": (
        {"Data": {"Version": "4.0", "EventTypes": [RESOURCE_UPDATE, "resource-update"]}},
        "UK.OBIE.Unsupported.EventType",
        "Data.EventTypes[1]",
    ),
    "plain http": (
        {"Data": {"Version": "4.0", "CallbackUrl": "http://tpp.example/"}},
        "UK.OBIE.Field.Invalid",
        "Data.CallbackUrl",
    ),
    "a private address": (
        {"Data": {"Version": "4.0", "CallbackUrl": "https://db.inside.example/"}},
        "UK.OBIE.Field.Invalid",
        "Data.CallbackUrl",
    ),
    "an address that is nowhere": (
        {"Data": {"Version": "4.0", "CallbackUrl": "https://nowhere.invalid/"}},
        "UK.OBIE.Field.Invalid",
        "Data.CallbackUrl",
    ),
    "an unknown member": ({"Data": {"Version": "4.0", "Url": URL}}, "UK.OBIE.Field.Unexpected", "Data.Url"),
    "no object": ([], "UK.OBIE.Resource.InvalidFormat", "body"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_bad_input_is_named_and_changes_nothing(client: DeskClient, name: str, method: str) -> None:
    body, code, path = BAD[name]
    public_id = await created(client, WHOLE) if method == "PUT" else None
    before = (await client.ask("GET", PATHS[0])).json()
    answer = await client.ask(method, PATHS[0] + (f"/{public_id}" if public_id else ""), body)
    assert answer.status_code == 400
    error = answer.json()["Errors"][0]
    assert (error["ErrorCode"], error["Path"]) == (code, path)
    assert (await client.ask("GET", PATHS[0])).json() == before


async def test_an_id_in_the_body_must_be_the_one_in_the_path(client: DeskClient) -> None:
    public_id = await created(client)
    body = {"Data": {"EventSubscriptionId": "another", "Version": "4.0"}}
    answer = await client.ask("PUT", f"{PATHS[0]}/{public_id}", body)
    assert answer.status_code == 400
    assert answer.json()["Errors"][0]["Path"] == "Data.EventSubscriptionId"


async def test_who_may_not_is_refused(desk: Desk) -> None:
    nobody = await desk.ask("GET", PATHS[0])
    assert (nobody.status_code, nobody.content) == (401, b"")
    assert "www-authenticate" in nobody.headers
    assert (await desk.new_client("ssf.manage").ask("GET", PATHS[0])).status_code == 403


async def test_methods_media_types_and_accept(client: DeskClient) -> None:
    refused = await client.ask("PATCH", PATHS[0], POLLING)
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, POST")
    assert (
        await client.ask("POST", PATHS[0], content=b"{}", headers={"content-type": "text/plain"})
    ).status_code == 415
    assert (await client.ask("POST", PATHS[0], POLLING, {"accept": "text/html"})).status_code == 406


async def test_types_count_for_what_is_published_from_then_on(database: Database, client: DeskClient) -> None:
    client_id = client_id_of(database, client.id)
    public_id = await created(client, {"Data": {"Version": "4.0", "EventTypes": ["urn:example:other"]}})
    wish = EventWish(client_id=client_id, sub=SUB, events=UPDATED)
    assert database.write_now(publish, wish) == []
    await client.ask("PUT", f"{PATHS[0]}/{public_id}", WHOLE)
    assert len(database.write_now(publish, wish)) == 1
