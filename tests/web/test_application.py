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
from restante.identity.device_tokens import DeviceTokens
from restante.identity.issuers import OutsideIssuers
from restante.identity.master_key import MasterKey
from restante.identity.signing_keys import SigningKeys
from restante.updates.wire import SHAPE
from restante.web.access import Gate
from restante.web.answer import Answer
from restante.web.application import build_application
from restante.web.ask import Ask
from restante.web.routes import Access, Route


class Wish(msgspec.Struct, forbid_unknown_fields=True):
    name: str = "nobody"


async def thing(ask: Ask) -> dict[str, str]:
    return {"id": ask.path_text("id")}


async def itself(ask: Ask) -> dict[str, str]:
    return {"id": "literal"}


async def wished(ask: Ask, body: Wish) -> Wish:
    return body


async def nothing(ask: Ask) -> None:
    return None


async def as_it_is(ask: Ask) -> Answer:
    return Answer(299, ((b"x-own", b"1"),), b"own")


async def late(ask: Ask) -> None:
    raise Conflict("too late")


async def out_of_reach(ask: Ask) -> None:
    raise DatabaseUnavailable("/secret/path is locked")


async def refused(ask: Ask) -> None:
    raise DatabaseError("no such table: secret")


async def broken(ask: Ask) -> None:
    raise RuntimeError("secret")


async def unwritable(ask: Ask) -> Any:
    return object()


def route(method: str, path: str, handler: Any, access: Access = Access.open, **more: Any) -> Route:
    return Route(method, path, handler, access, "x", shape=SHAPE, tag="x", **more)


ROUTES = [
    route("GET", "/things/{id}", thing),
    route("GET", "/things/self", itself),
    route("PUT", "/things/{id}", wished, status=201),
    route("POST", "/wishes", wished),
    route("POST", "/maybe", wished, body_optional=True),
    route("DELETE", "/wishes", nothing, status=204),
    route("GET", "/own", as_it_is),
    route("GET", "/late", late),
    route("GET", "/unavailable", out_of_reach),
    route("GET", "/refused", refused),
    route("GET", "/broken", broken),
    route("GET", "/unwritable", unwritable),
    route("GET", "/devices", nothing, Access.device),
    route("POST", "/guarded", wished, Access.operate),
]


class Site:
    def __init__(self, database: Database) -> None:
        tokens = DeviceTokens(database, SigningKeys(database, MasterKey(bytes(32))), OutsideIssuers())
        self.observed: list[tuple[str, int]] = []
        self.app = build_application(
            ROUTES,
            Gate(database, tokens),
            SHAPE,
            observe=lambda route, status, seconds: self.observed.append((route.path, status)),
            body_bytes_max=100,
        )
        transport = httpx.ASGITransport(self.app)
        self.client = httpx.AsyncClient(transport=transport, base_url="http://restante.test")


@pytest.fixture
def site(database: Database) -> Site:
    return Site(database)


def error(response: httpx.Response) -> tuple[int, int]:
    body = response.json()["error"]
    assert body["what"]
    assert response.headers["content-type"] == "application/json"
    return response.status_code, body["code"]


async def test_a_result_is_wrapped_and_an_answer_is_sent_as_it_is(site: Site) -> None:
    response = await site.client.get("/things/7")
    assert (response.status_code, response.json()) == (200, {"data": {"id": "7"}})
    assert response.headers["cache-control"] == "no-store"
    own = await site.client.get("/own")
    assert (own.status_code, own.content, own.headers["x-own"]) == (299, b"own", "1")


async def test_a_route_has_its_own_success_status(site: Site) -> None:
    assert (await site.client.put("/things/7", json={"name": "a"})).status_code == 201
    gone = await site.client.delete("/wishes")
    assert (gone.status_code, gone.content) == (204, b"")
    assert "content-length" not in gone.headers


async def test_a_literal_path_goes_before_one_with_a_parameter(site: Site) -> None:
    assert (await site.client.get("/things/self")).json() == {"data": {"id": "literal"}}


async def test_a_literal_path_does_not_hide_the_other_methods_of_the_parameter(site: Site) -> None:
    # `self` has no PUT of its own; that it is a path of its own is all a caller needs to know.
    assert error(await site.client.put("/things/self", json={})) == (405, 40500)


async def test_head_is_answered_as_get_is(site: Site) -> None:
    response = await site.client.head("/things/7")
    assert response.status_code == 200
    assert int(response.headers["content-length"]) == len(b'{"data":{"id":"7"}}')


@pytest.mark.parametrize(
    "path", ["/", "/nowhere", "/things", "/things/7/8", "/things/", "/things/7/", "//own", "/own/"]
)
async def test_an_unknown_path_is_not_found_and_not_redirected(site: Site, path: str) -> None:
    assert error(await site.client.get(path)) == (404, 5003)


@pytest.mark.parametrize("method", ["POST", "PATCH", "OPTIONS", "TRACE", "PROPFIND", "get"])
async def test_a_method_the_path_does_not_take_is_told_which_it_takes(site: Site, method: str) -> None:
    status, headers, body = await raw(site.app, method, "/things/7")
    assert status == 405
    assert headers[b"allow"] == b"GET, HEAD, PUT"
    assert json.loads(body)["error"]["code"] == 40500


async def raw(app: Any, method: str, path: str) -> tuple[int, dict[bytes, bytes], bytes]:
    """A request as it is, where a client would tidy it up."""
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


async def test_a_body_is_decoded_and_what_is_wrong_with_it_named(site: Site) -> None:
    assert (await site.client.post("/wishes", json={"name": "a"})).json() == {"data": {"name": "a"}}
    wrong = await site.client.post("/wishes", json={"name": 5})
    assert error(wrong) == (400, 5000)
    assert wrong.json()["error"]["what"].startswith("name: expected")
    assert error(await site.client.post("/wishes", json={"other": 5})) == (400, 5000)
    json_type = {"content-type": "application/json"}
    assert error(await site.client.post("/wishes", content=b"{", headers=json_type)) == (400, 5000)


async def test_a_body_must_be_json_and_say_so(site: Site) -> None:
    assert error(await site.client.post("/wishes", content=b'{"name":"a"}')) == (415, 41500)
    assert error(await site.client.post("/wishes", data={"name": "a"})) == (415, 41500)
    assert error(await site.client.post("/wishes")) == (415, 41500)


async def test_where_a_body_is_optional_none_is_an_empty_one(site: Site) -> None:
    assert (await site.client.post("/maybe")).json() == {"data": {"name": "nobody"}}
    assert (await site.client.post("/maybe", json={"name": "a"})).json() == {"data": {"name": "a"}}
    assert error(await site.client.post("/maybe", content=b"{}")) == (415, 41500)


async def test_a_body_that_is_too_large_is_refused(site: Site) -> None:
    assert error(await site.client.post("/wishes", json={"name": "x" * 100})) == (413, 41300)

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 60

    json_type = {"content-type": "application/json"}
    assert error(await site.client.post("/wishes", content=endless(), headers=json_type)) == (413, 41300)


async def test_who_may_not_is_refused_before_the_body_is_looked_at(site: Site) -> None:
    assert error(await site.client.get("/devices")) == (401, 5018)
    for body in (b"{", b"x" * 1000, b"{}"):
        refused = await site.client.post("/guarded", content=body)
        assert error(refused) == (401, 5018)
        assert refused.headers["www-authenticate"] == "Bearer"


async def test_what_a_handler_raises_becomes_the_protocols_error(site: Site) -> None:
    response = await site.client.get("/late")
    assert error(response) == (409, 40900)
    assert response.json()["error"]["what"] == "too late"


async def test_a_database_out_of_reach_is_a_503_that_says_when_to_come_back(site: Site) -> None:
    with capture_logs() as lines:
        response = await site.client.get("/unavailable")
    assert error(response) == (503, 50300)
    assert int(response.headers["retry-after"]) > 0
    assert "secret" not in response.text
    assert [line["log_level"] for line in lines] == ["error"]


@pytest.mark.parametrize("path", ["/broken", "/refused", "/unwritable"])
async def test_an_unforeseen_failure_is_a_500_that_tells_nothing_and_is_logged(site: Site, path: str) -> None:
    with capture_logs() as lines:
        response = await site.client.get(path)
    assert error(response) == (500, 50000)
    assert "secret" not in response.text
    assert [(line["log_level"], line["path"]) for line in lines] == [("error", path)]


async def test_a_client_that_hangs_up_while_it_sends_is_no_failure(site: Site) -> None:
    messages: list[Message] = [
        {"type": "http.request", "body": b"{", "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Message:
        return messages.pop(0)

    async def send(_message: Message) -> None:
        return None

    scope: Scope = {
        "type": "http", "method": "POST", "path": "/wishes", "query_string": b"", "headers": [], "root_path": "",
    }  # fmt: skip
    with capture_logs() as lines:
        await site.app(scope, receive, send)
    assert lines == []
    assert site.observed == [("/wishes", 400)]


async def test_each_answer_is_observed_by_route(site: Site) -> None:
    for path in ("/things/7", "/things/8", "/late", "/nowhere"):
        await site.client.get(path)
    assert site.observed == [("/things/{id}", 200), ("/things/{id}", 200), ("/late", 409)]


def test_two_routes_for_one_thing_are_a_mistake(database: Database) -> None:
    tokens = DeviceTokens(database, SigningKeys(database, MasterKey(bytes(32))), OutsideIssuers())
    with pytest.raises(ValueError, match="two routes for GET /own"):
        build_application([ROUTES[6], route("GET", "/own", thing)], Gate(database, tokens), SHAPE)


async def test_the_lifespan_is_run(database: Database) -> None:
    tokens = DeviceTokens(database, SigningKeys(database, MasterKey(bytes(32))), OutsideIssuers())
    happened: list[str] = []

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        happened.append("start")
        yield
        happened.append("stop")

    app = build_application(ROUTES, Gate(database, tokens), SHAPE, lifespan)
    async with app.router.lifespan_context(app):
        assert happened == ["start"]
    assert happened == ["start", "stop"]
