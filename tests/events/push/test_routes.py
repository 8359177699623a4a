"""Event subscriptions over HTTP: the profile's own example, every status and error code, at both paths."""

from typing import Any

import pytest

from restante.database.database import Database
from restante.events.publishing.publishing import EventRequest, publish
from restante.events.push.routes import SubscriptionRoutes
from tests.events.client_app import BASE, AppClient, ClientApp, receiver_client
from tests.events.default_options import api_paths, message_signatures
from tests.events.publish_fixture import SUB, UPDATED
from tests.events.push_fixture import client_id_of, receiver_of

PATHS = [f"{base.path}/event-subscriptions" for base in api_paths().bases()]
URL = "https://tpp.example/open-banking/v3.1/event-notifications"
RESOURCE_UPDATE = "urn:uk:org:openbanking:events:resource-update"
POLLING = {"Data": {"Version": "4.0"}}
WHOLE = {"Data": {"CallbackUrl": URL, "Version": "4.0", "EventTypes": [RESOURCE_UPDATE]}}


@pytest.fixture
def app(database: Database) -> ClientApp:
    signatures = message_signatures(database)
    bases = api_paths().bases()
    made = [SubscriptionRoutes(database, receiver_client(), base, BASE, signatures) for base in bases]
    return ClientApp(database, [route for routes in made for route in routes.routes()])


@pytest.fixture
def client(app: ClientApp) -> AppClient:
    return app.new_client()


async def create(client: AppClient, body: dict[str, Any] = POLLING) -> str:
    response = await client.request("POST", PATHS[0], body)
    assert response.status_code == 201
    return str(response.json()["Data"]["EventSubscriptionId"])


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("body", [POLLING, WHOLE])
async def test_subscription_is_created_shown_replaced_and_deleted(
    database: Database, client: AppClient, path: str, body: dict[str, Any]
) -> None:
    response = await client.request(
        "POST", path, body, {"x-fapi-interaction-id": "86ebcd82-8e38-4f2d-a79c-965b41d15865"}
    )
    assert response.status_code == 201
    assert response.headers["x-fapi-interaction-id"] == "86ebcd82-8e38-4f2d-a79c-965b41d15865"
    assert response.headers["cache-control"] == "no-store"
    public_id = response.json()["Data"]["EventSubscriptionId"]
    data = {"EventSubscriptionId": public_id, **body["Data"]}
    itself = f"{BASE}{path}/{public_id}"
    assert response.json() == {"Data": data, "Links": {"Self": itself}, "Meta": {}}
    shown = await client.request("GET", path)
    assert shown.status_code == 200
    assert shown.json() == {"Data": {"EventSubscription": [data]}, "Links": {"Self": BASE + path}, "Meta": {}}
    changed = {**response.json(), "Data": {**data, "Version": "4.1"}}
    replaced = await client.request("PUT", f"{path}/{public_id}", changed)
    assert (replaced.status_code, replaced.json()) == (200, changed)
    deleted = await client.request("DELETE", f"{path}/{public_id}")
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert "x-fapi-interaction-id" in deleted.headers
    assert (await client.request("GET", path)).json()["Data"] == {"EventSubscription": []}
    assert receiver_of(database, client.id) == {}


async def test_second_subscription_is_a_conflict(client: AppClient) -> None:
    await create(client)
    response = await client.request("POST", PATHS[0], WHOLE)
    assert response.status_code == 409
    assert response.json()["Code"] == "409 Conflict"
    assert response.json()["Errors"][0]["ErrorCode"] == "U029"


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_missing_and_foreign_subscription_get_the_same_404(
    app: ClientApp, client: AppClient, method: str
) -> None:
    anothers = await create(app.new_client())
    responses = [
        await client.request(method, f"{PATHS[0]}/{public_id}", POLLING if method == "PUT" else None)
        for public_id in (anothers, "absent")
    ]
    assert [response.status_code for response in responses] == [404, 404]
    bodies = [{**response.json(), "Id": ""} for response in responses]
    assert bodies[0] == bodies[1]
    assert bodies[0]["Errors"][0]["ErrorCode"] == "U011"


BAD: dict[str, tuple[Any, str, str]] = {
    "nothing": ({}, "U004", "Data"),
    "no version": ({"Data": {}}, "U004", "Data.Version"),
    "an empty version": ({"Data": {"Version": ""}}, "U002", "Data.Version"),
    "a long version": ({"Data": {"Version": "1" * 11}}, "U002", "Data.Version"),
    "a number": ({"Data": {"Version": 4}}, "U002", "Data.Version"),
    "no type": ({"Data": {"Version": "4.0", "EventTypes": []}}, "U002", "Data.EventTypes"),
    "a null": ({"Data": {"Version": "4.0", "EventTypes": None}}, "U002", "Data.EventTypes"),
    "twice the same": (
        {"Data": {"Version": "4.0", "EventTypes": [RESOURCE_UPDATE] * 2}},
        "U002",
        "Data.EventTypes",
    ),
    "a bare name": (
        {"Data": {"Version": "4.0", "EventTypes": [RESOURCE_UPDATE, "resource-update"]}},
        "U024",
        "Data.EventTypes[1]",
    ),
    "plain http": (
        {"Data": {"Version": "4.0", "CallbackUrl": "http://tpp.example/"}},
        "U002",
        "Data.CallbackUrl",
    ),
    "a private address": (
        {"Data": {"Version": "4.0", "CallbackUrl": "https://db.inside.example/"}},
        "U002",
        "Data.CallbackUrl",
    ),
    "an address that is nowhere": (
        {"Data": {"Version": "4.0", "CallbackUrl": "https://nowhere.invalid/"}},
        "U002",
        "Data.CallbackUrl",
    ),
    "an unknown member": ({"Data": {"Version": "4.0"}, "Url": URL}, "U005", "Url"),
    "no object": ([], "U010", "body"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_invalid_input_is_named_and_changes_nothing(client: AppClient, name: str, method: str) -> None:
    body, code, path = BAD[name]
    public_id = await create(client, WHOLE) if method == "PUT" else None
    before = (await client.request("GET", PATHS[0])).json()
    response = await client.request(method, PATHS[0] + (f"/{public_id}" if public_id else ""), body)
    assert response.status_code == 400
    error = response.json()["Errors"][0]
    assert (error["ErrorCode"], error["Path"]) == (code, path)
    assert (await client.request("GET", PATHS[0])).json() == before


async def test_id_in_the_body_must_match_the_path(client: AppClient) -> None:
    public_id = await create(client)
    body = {"Data": {"EventSubscriptionId": "another", "Version": "4.0"}}
    response = await client.request("PUT", f"{PATHS[0]}/{public_id}", body)
    assert response.status_code == 400
    assert response.json()["Errors"][0]["Path"] == "Data.EventSubscriptionId"


async def test_missing_token_or_scope_is_refused(app: ClientApp) -> None:
    anonymous = await app.request("GET", PATHS[0])
    assert (anonymous.status_code, anonymous.content) == (401, b"")
    assert "www-authenticate" in anonymous.headers
    assert (await app.new_client("ssf.manage").request("GET", PATHS[0])).status_code == 403


async def test_wrong_method_media_type_and_accept_are_refused(client: AppClient) -> None:
    refused = await client.request("PATCH", PATHS[0], POLLING)
    assert (refused.status_code, refused.headers["allow"]) == (405, "GET, HEAD, POST")
    assert (
        await client.request("POST", PATHS[0], content=b"{}", headers={"content-type": "text/plain"})
    ).status_code == 415
    assert (await client.request("POST", PATHS[0], POLLING, {"accept": "text/html"})).status_code == 406


async def test_types_apply_to_events_published_later(database: Database, client: AppClient) -> None:
    client_id = client_id_of(database, client.id)
    public_id = await create(client, {"Data": {"Version": "4.0", "EventTypes": ["urn:example:other"]}})
    event = EventRequest(client_id=client_id, sub=SUB, events=UPDATED)
    assert database.write_now(publish, event) == []
    await client.request("PUT", f"{PATHS[0]}/{public_id}", WHOLE)
    assert len(database.write_now(publish, event)) == 1
