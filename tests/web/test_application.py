import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import msgspec
import pytest
from starlette.applications import Starlette
from starlette.types import Message, Scope
from structlog.testing import capture_logs

from restante.core.errors import Conflict
from restante.database.database import Database
from restante.database.errors import DatabaseError, DatabaseUnavailable
from restante.identity.master_key import MasterKey
from restante.identity.signing_keys import SigningKeys
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.access import AccessControl
from restante.web.request import ApiRequest
from restante.web.response import ApiResponse
from restante.web.routes import Access, Route
from tests.defaults import new_application, new_device_tokens


class Body(msgspec.Struct, forbid_unknown_fields=True):
    name: str = "nobody"


async def show_thing(request: ApiRequest) -> dict[str, str]:
    return {"id": request.path_text("id")}


async def show_literal(request: ApiRequest) -> dict[str, str]:
    return {"id": "literal"}


async def echo_body(request: ApiRequest, body: Body) -> Body:
    return body


async def nothing(request: ApiRequest) -> None:
    return None


async def own_response(request: ApiRequest) -> ApiResponse:
    return ApiResponse(299, ((b"x-own", b"1"),), b"own")


async def conflict(request: ApiRequest) -> None:
    raise Conflict("too late")


async def unavailable(request: ApiRequest) -> None:
    raise DatabaseUnavailable("/secret/path is locked")


async def refused(request: ApiRequest) -> None:
    raise DatabaseError("no such table: secret")


async def broken(request: ApiRequest) -> None:
    raise RuntimeError("secret")


async def unwritable(request: ApiRequest) -> Any:
    return object()


def route(method: str, path: str, handler: Any, access: Access = Access.open, **more: Any) -> Route:
    return Route(method, path, handler, access, "x", response_format=RESPONSE_FORMAT, tag="x", **more)


ROUTES = [
    route("GET", "/things/{id}", show_thing),
    route("GET", "/things/self", show_literal),
    route("PUT", "/things/{id}", echo_body, status=201),
    route("POST", "/bodies", echo_body),
    route("POST", "/maybe", echo_body, body_optional=True),
    route("DELETE", "/bodies", nothing, status=204),
    route("GET", "/own", own_response),
    route("GET", "/late", conflict),
    route("GET", "/unavailable", unavailable),
    route("GET", "/refused", refused),
    route("GET", "/broken", broken),
    route("GET", "/unwritable", unwritable),
    route("GET", "/devices", nothing, Access.device),
    route("POST", "/guarded", echo_body, Access.operate),
]


class Server:
    def __init__(self, database: Database) -> None:
        tokens = new_device_tokens(database, SigningKeys(database, MasterKey(bytes(32))))
        self.observed: list[tuple[str, int]] = []
        self.app = new_application(
            ROUTES,
            AccessControl(database, tokens),
            RESPONSE_FORMAT,
            observe=lambda route, status, seconds: self.observed.append((route.path, status)),
            body_bytes_max=100,
        )
        transport = httpx.ASGITransport(self.app)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://restante.test")


@pytest.fixture
def server(database: Database) -> Server:
    return Server(database)


def error(response: httpx.Response) -> tuple[int, int]:
    body = response.json()["error"]
    assert body["what"]
    assert response.headers["content-type"] == "application/json"
    return response.status_code, body["code"]


async def test_result_is_wrapped_and_response_is_sent_unchanged(server: Server) -> None:
    response = await server.client.get("/things/7")
    assert (response.status_code, response.json()) == (200, {"data": {"id": "7"}})
    assert response.headers["cache-control"] == "no-store"
    own = await server.client.get("/own")
    assert (own.status_code, own.content, own.headers["x-own"]) == (299, b"own", "1")


async def test_route_has_its_own_success_status(server: Server) -> None:
    assert (await server.client.put("/things/7", json={"name": "a"})).status_code == 201
    gone = await server.client.delete("/bodies")
    assert (gone.status_code, gone.content) == (204, b"")
    assert "content-length" not in gone.headers


async def test_literal_path_takes_precedence_over_parameter(server: Server) -> None:
    assert (await server.client.get("/things/self")).json() == {"data": {"id": "literal"}}


async def test_literal_path_refuses_methods_of_parameter_path(server: Server) -> None:
    # `self` is a separate path, and has no PUT.
    assert error(await server.client.put("/things/self", json={})) == (405, 40500)


async def test_head_is_handled_like_get(server: Server) -> None:
    response = await server.client.head("/things/7")
    assert response.status_code == 200
    assert int(response.headers["content-length"]) == len(b'{"data":{"id":"7"}}')


@pytest.mark.parametrize(
    "path", ["/", "/nowhere", "/things", "/things/7/8", "/things/", "/things/7/", "//own", "/own/"]
)
async def test_unknown_path_is_not_found_and_not_redirected(server: Server, path: str) -> None:
    assert error(await server.client.get(path)) == (404, 5003)


@pytest.mark.parametrize("method", ["POST", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "get"])
async def test_method_not_allowed_names_allowed_methods(server: Server, method: str) -> None:
    status, headers, body = await raw(server.app, method, "/things/7")
    assert status == 405
    assert headers[b"allow"] == b"GET, HEAD, PUT"
    assert json.loads(body)["error"]["code"] == 40500


async def raw(app: Any, method: str, path: str) -> tuple[int, dict[bytes, bytes], bytes]:
    """Send the request unchanged; an HTTP client would normalize it."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        sent.append(message)

    scope: Scope = {
        "type": "http", "http_version": "1.1", "method": method, "path": path, "raw_path": path.encode(),
        "query_string": b"", "root_path": "", "scheme": "http", "headers": [],
        "server": ("restante.test", 80), "client": ("test", 1),
    }  # fmt: skip
    await app(scope, receive, send)
    return sent[0]["status"], dict(sent[0]["headers"]), b"".join(m.get("body", b"") for m in sent[1:])


async def test_body_is_decoded_and_invalid_field_is_named(server: Server) -> None:
    assert (await server.client.post("/bodies", json={"name": "a"})).json() == {"data": {"name": "a"}}
    wrong = await server.client.post("/bodies", json={"name": 5})
    assert error(wrong) == (400, 5000)
    assert wrong.json()["error"]["what"].startswith("name: expected")
    assert error(await server.client.post("/bodies", json={"other": 5})) == (400, 5000)
    json_type = {"content-type": "application/json"}
    assert error(await server.client.post("/bodies", content=b"{", headers=json_type)) == (400, 5000)


async def test_body_without_json_media_type_is_refused(server: Server) -> None:
    assert error(await server.client.post("/bodies", content=b'{"name":"a"}')) == (415, 41500)
    assert error(await server.client.post("/bodies", data={"name": "a"})) == (415, 41500)
    assert error(await server.client.post("/bodies")) == (415, 41500)


async def test_omitted_optional_body_is_empty_object(server: Server) -> None:
    assert (await server.client.post("/maybe")).json() == {"data": {"name": "nobody"}}
    assert (await server.client.post("/maybe", json={"name": "a"})).json() == {"data": {"name": "a"}}
    assert error(await server.client.post("/maybe", content=b"{}")) == (415, 41500)


async def test_too_large_body_is_refused(server: Server) -> None:
    assert error(await server.client.post("/bodies", json={"name": "x" * 100})) == (413, 41300)

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 60

    json_type = {"content-type": "application/json"}
    assert error(await server.client.post("/bodies", content=endless(), headers=json_type)) == (413, 41300)


async def test_access_is_checked_before_body(server: Server) -> None:
    assert error(await server.client.get("/devices")) == (401, 5018)
    for body in (b"{", b"x" * 1000, b"{}"):
        refused = await server.client.post("/guarded", content=body)
        assert error(refused) == (401, 5018)
        assert refused.headers["www-authenticate"] == 'Bearer realm="restante"'


async def test_error_of_handler_becomes_error_response(server: Server) -> None:
    response = await server.client.get("/late")
    assert error(response) == (409, 40900)
    assert response.json()["error"]["what"] == "too late"


async def test_unavailable_database_is_503_with_retry_after(server: Server) -> None:
    with capture_logs() as lines:
        response = await server.client.get("/unavailable")
    assert error(response) == (503, 50300)
    assert int(response.headers["retry-after"]) > 0
    assert "secret" not in response.text
    assert [line["log_level"] for line in lines] == ["error"]


@pytest.mark.parametrize("path", ["/broken", "/refused", "/unwritable"])
async def test_unexpected_exception_is_logged_and_500_without_details(server: Server, path: str) -> None:
    with capture_logs() as lines:
        response = await server.client.get(path)
    assert error(response) == (500, 50000)
    assert "secret" not in response.text
    assert [(line["log_level"], line["path"]) for line in lines] == [("error", path)]


async def test_disconnect_while_sending_body_is_not_logged(server: Server) -> None:
    messages: list[Message] = [
        {"type": "http.request", "body": b"{", "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        return messages.pop(0)

    async def send(_message: Message) -> None:
        return None

    scope: Scope = {
        "type": "http", "method": "POST", "path": "/bodies", "query_string": b"", "headers": [], "root_path": "",
    }  # fmt: skip
    with capture_logs() as lines:
        await server.app(scope, receive, send)
    assert lines == []
    assert server.observed == [("/bodies", 400)]


async def test_each_response_is_observed_by_route(server: Server) -> None:
    for path in ("/things/7", "/things/8", "/late", "/nowhere"):
        await server.client.get(path)
    assert server.observed == [("/things/{id}", 200), ("/things/{id}", 200), ("/late", 409)]


def test_duplicate_route_is_refused(database: Database) -> None:
    tokens = new_device_tokens(database, SigningKeys(database, MasterKey(bytes(32))))
    with pytest.raises(ValueError, match="two routes for GET /own"):
        new_application([ROUTES[6], route("GET", "/own", show_thing)], AccessControl(database, tokens), RESPONSE_FORMAT)


async def test_lifespan_runs(database: Database) -> None:
    tokens = new_device_tokens(database, SigningKeys(database, MasterKey(bytes(32))))
    happened: list[str] = []

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        happened.append("start")
        yield
        happened.append("stop")

    app = new_application(ROUTES, AccessControl(database, tokens), RESPONSE_FORMAT, lifespan=lifespan)
    async with app.router.lifespan_context(app):
        assert happened == ["start"]
    assert happened == ["start", "stop"]
