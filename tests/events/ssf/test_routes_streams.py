"""Receiver routes of streams: create, show, change, replace and delete, and all refusals."""

from typing import Any

import pytest

from restante.database.database import Database
from restante.events.publishing.catalogue import CAEP_EVENTS, SUPPORTED_BY_DEFAULT
from restante.events.push.pusher import AUTHORIZATION_PURPOSE
from restante.events.ssf.routes_streams import StreamRoutes
from tests.events.client_app import BASE, KEY, AppClient, ClientApp, receiver_client
from tests.events.default_options import shared_signals_options
from tests.events.push_fixture import client_id_of, receiver_of

PATH = "/ssf/streams"
PUSHED = {"method": "urn:ietf:rfc:8935", "endpoint_url": "https://receiver.example/events"}
OPTIONS = shared_signals_options(issuer=BASE, base_url=BASE)


@pytest.fixture
def app(database: Database) -> ClientApp:
    return ClientApp(database, StreamRoutes(database, receiver_client(), KEY, OPTIONS).routes())


async def create(client: AppClient, body: dict[str, Any] | None = None) -> dict[str, Any]:
    response = await client.request("POST", PATH, {} if body is None else body)
    assert response.status_code == 201, response.text
    stream: dict[str, Any] = response.json()
    return stream


async def test_new_stream_is_polled_by_default(database: Database, client: AppClient) -> None:
    stream = await create(client)
    stream_id = stream["stream_id"]
    assert stream == {
        "stream_id": stream_id,
        "iss": BASE,
        "aud": client_id_of(database, client.id),
        "delivery": {"method": "urn:ietf:rfc:8936", "endpoint_url": f"{BASE}/ssf/streams/{stream_id}/poll"},
        "events_supported": list(SUPPORTED_BY_DEFAULT),
        "events_delivered": list(SUPPORTED_BY_DEFAULT),
        "min_verification_interval": 60,
    }


async def test_stream_is_created_without_a_body(client: AppClient) -> None:
    response = await client.request("POST", PATH)
    assert response.status_code == 201


async def test_requested_values_are_returned(client: AppClient) -> None:
    requested = [CAEP_EVENTS[0], "urn:example:unknown"]
    stream = await create(client, {"delivery": PUSHED, "events_requested": requested, "description": "mine"})
    assert stream["delivery"] == PUSHED
    assert stream["events_requested"] == requested
    assert stream["events_delivered"] == [CAEP_EVENTS[0]]
    assert stream["description"] == "mine"


async def test_authorization_header_is_sealed_and_never_shown(database: Database, client: AppClient) -> None:
    stream = await create(client, {"delivery": {**PUSHED, "authorization_header": "Bearer s3cret"}})
    assert "s3cret" not in str(stream)
    sealed = receiver_of(database, client.id, "shared-signals")["sealed_authorization"]
    assert b"s3cret" not in sealed
    assert KEY.open(sealed, AUTHORIZATION_PURPOSE) == b"Bearer s3cret"


async def test_streams_are_listed_and_one_is_shown(client: AppClient) -> None:
    assert (await client.request("GET", PATH)).json() == []
    stream = await create(client)
    assert (await client.request("GET", PATH)).json() == [stream]
    shown = await client.request("GET", f"{PATH}?stream_id={stream['stream_id']}")
    assert (shown.status_code, shown.json()) == (200, stream)
    assert shown.headers["cache-control"] == "no-store"


async def test_second_stream_is_a_conflict(client: AppClient) -> None:
    await create(client)
    response = await client.request("POST", PATH, {})
    assert (response.status_code, response.json()["err"]) == (409, "conflict")


async def test_patch_keeps_missing_members(client: AppClient) -> None:
    stream = await create(client, {"delivery": PUSHED, "events_requested": [CAEP_EVENTS[0]], "description": "mine"})
    changed = await client.request("PATCH", PATH, {"stream_id": stream["stream_id"], "description": "yours"})
    assert (changed.status_code, changed.json()) == (200, {**stream, "description": "yours"})


async def test_put_resets_missing_members(client: AppClient) -> None:
    stream = await create(client, {"delivery": PUSHED, "events_requested": [CAEP_EVENTS[0]], "description": "mine"})
    replaced = (await client.request("PUT", PATH, {"stream_id": stream["stream_id"], "description": "yours"})).json()
    assert replaced["delivery"]["method"] == "urn:ietf:rfc:8936"
    assert replaced["events_delivered"] == list(SUPPORTED_BY_DEFAULT)
    assert "events_requested" not in replaced
    assert replaced["description"] == "yours"


@pytest.mark.parametrize("method", ["PATCH", "PUT"])
async def test_stream_can_be_sent_back_unchanged(client: AppClient, method: str) -> None:
    stream = await create(client, {"events_requested": [CAEP_EVENTS[0]]})
    response = await client.request(method, PATH, stream)
    assert (response.status_code, response.json()) == (200, stream)


@pytest.mark.parametrize("method", ["PATCH", "PUT"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("iss", "https://other.example"),
        ("aud", "other"),
        ("events_supported", []),
        ("events_delivered", [CAEP_EVENTS[3]]),
        ("min_verification_interval", 1),
    ],
)
async def test_values_set_by_the_server_cannot_be_changed(
    client: AppClient, method: str, name: str, value: Any
) -> None:
    stream = await create(client)
    response = await client.request(method, PATH, {"stream_id": stream["stream_id"], name: value})
    assert (response.status_code, response.json()["err"]) == (400, "invalid_request")
    assert response.json()["description"].startswith(name)
    assert (await client.request("GET", PATH)).json() == [stream]


BAD: dict[str, tuple[Any, str]] = {
    "no object": ([], "body"),
    "an unknown method": ({"delivery": {"method": "urn:x"}}, "delivery.method"),
    "a push to nowhere": ({"delivery": {"method": PUSHED["method"]}}, "delivery.endpoint_url"),
    "a push over http": ({"delivery": {**PUSHED, "endpoint_url": "http://a.example/"}}, "delivery.endpoint_url"),
    "a push to a private address": (
        {"delivery": {**PUSHED, "endpoint_url": "https://inside.example/"}},
        "delivery.endpoint_url",
    ),
    "a line break in a header": (
        {"delivery": {**PUSHED, "authorization_header": "a\r\nb: c"}},
        "delivery.authorization",
    ),
    "an address for polls": (
        {"delivery": {"method": "urn:ietf:rfc:8936", "endpoint_url": "https://a.example/"}},
        "delivery.endpoint_url",
    ),
    "an authorization for polls": (
        {"delivery": {"method": "urn:ietf:rfc:8936", "authorization_header": "x"}},
        "delivery.authorization_header",
    ),
    "types that are not texts": ({"events_requested": [1]}, "events_requested"),
    "no list": ({"events_requested": "x"}, "events_requested"),
    "a description too long": ({"description": "a" * 1025}, "description"),
}


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("method", ["POST", "PATCH", "PUT"])
async def test_invalid_input_is_named_and_changes_nothing(client: AppClient, name: str, method: str) -> None:
    body, field = BAD[name]
    if method != "POST":
        stream = await create(client, {"description": "mine"})
        body = body if isinstance(body, list) else {"stream_id": stream["stream_id"], **body}
    before = (await client.request("GET", PATH)).json()
    response = await client.request(method, PATH, body)
    assert (response.status_code, response.json()["err"]) == (400, "invalid_request")
    assert response.json()["description"].startswith(field)
    assert (await client.request("GET", PATH)).json() == before


async def test_deleted_stream_is_not_found(client: AppClient) -> None:
    stream_id = (await create(client))["stream_id"]
    assert (await client.request("DELETE", PATH)).status_code == 400
    assert (await client.request("DELETE", f"{PATH}?stream_id={stream_id}")).status_code == 204
    assert (await client.request("DELETE", f"{PATH}?stream_id={stream_id}")).status_code == 404
    assert (await client.request("GET", PATH)).json() == []


async def test_missing_and_foreign_stream_get_the_same_404(app: ClientApp, client: AppClient) -> None:
    foreign = (await create(app.new_client()))["stream_id"]
    for method in ("GET", "DELETE", "PATCH", "PUT"):
        responses = [
            await client.request(method, f"{PATH}?stream_id={stream_id}")
            if method in ("GET", "DELETE")
            else await client.request(method, PATH, {"stream_id": stream_id})
            for stream_id in (foreign, "absent")
        ]
        assert [response.status_code for response in responses] == [404, 404]
        assert responses[0].content == responses[1].content


async def test_scopes_limit_access(app: ClientApp) -> None:
    reader = app.new_client("ssf.read")
    assert (await reader.request("GET", PATH)).status_code == 200
    for method in ("POST", "PATCH", "PUT"):
        assert (await reader.request(method, PATH, {"stream_id": "x"})).status_code == 403
    assert (await reader.request("DELETE", f"{PATH}?stream_id=x")).status_code == 403
    assert (await app.new_client("eventpolling").request("GET", PATH)).status_code == 403
    assert (await app.request("GET", PATH)).json()["err"] == "authentication_failed"
