"""The OpenAPI document of real and sample routes, and the page that shows it, in a real browser."""

import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import httpx
import msgspec
import pytest
import uvicorn
from starlette.applications import Starlette

from restante import __version__
from restante.database.database import Database
from restante.delivery.device_presence import DevicePresence
from restante.identity.master_key import MasterKey
from restante.identity.signing_keys import SigningKeys
from restante.server.docs.openapi import DocsRoutes, document, operation_id
from restante.server.monitoring.health import HealthRoutes
from restante.updates.devices.pages import asset_routes
from restante.updates.devices.routes_devices import DeviceRoutes
from restante.updates.devices.routes_fleet import FleetRoutes
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.access import AccessControl
from restante.web.request import ApiRequest
from restante.web.routes import Access, Header, Query, RequestBody, ResponseInfo, Route
from tests.defaults import new_application, new_device_tokens

BOX = "/post/{office_id}/boxes/{label}"
ASSETS = ("docs.css", "docs.js", "docs-dom.js", "docs-schema.js", "docs-try.js")


class Letter(msgspec.Struct):
    text: Annotated[str, msgspec.Meta(max_length=100)]


async def list_letters(_request: ApiRequest) -> list[Letter]:
    """The letters in the box.

    Oldest first.
    """
    return []


async def add_letter(_request: ApiRequest, body: Letter) -> Letter:
    return body


def route(method: str = "GET", path: str = "/post", handler: Any = list_letters, **more: Any) -> Route:
    values = {"access": Access.open, "summary": "Look", "response_format": RESPONSE_FORMAT, "tag": "post", **more}
    return Route(method, path, handler, **values)


def operation_of(described: Route) -> dict[str, Any]:
    operation: dict[str, Any] = document([described])["paths"][described.path][described.method.lower()]
    return operation


def statuses_of(described: Route) -> list[str]:
    return list(operation_of(described)["responses"])


@pytest.fixture
def routes(database: Database) -> list[Route]:
    api_routes = [
        *DeviceRoutes(database, DevicePresence(database)).routes(),
        *FleetRoutes(database, {}).routes(),
        *HealthRoutes(database, Path("."), ("api",)).routes(),
        *asset_routes(),
        route("POST", BOX, add_letter),
    ]
    return [*api_routes, *DocsRoutes(api_routes).routes()]


@pytest.fixture
def application(database: Database, routes: list[Route]) -> Starlette:
    tokens = new_device_tokens(database, SigningKeys(database, MasterKey(bytes(32))))
    return new_application(routes, AccessControl(database, tokens), RESPONSE_FORMAT)


async def fetch(application: Starlette, path: str) -> httpx.Response:
    transport = httpx.ASGITransport(application)
    async with httpx.AsyncClient(transport=transport, base_url="http://restante.test") as client:
        return await client.get(path)


def references_in(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        mapping = part.get("discriminator", {}).get("mapping", {})
        yield from (value for key, value in part.items() if key == "$ref")
        yield from mapping.values()
    for each in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from references_in(each)


def follow(openapi: dict[str, Any], reference: str) -> Any:
    found: Any = openapi
    for key in reference.removeprefix("#/").split("/"):
        found = found[key]
    return found


async def test_document_is_served_as_json(application: Starlette) -> None:
    response = await fetch(application, "/openapi.json")
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.json()["openapi"].startswith("3.1.")
    assert response.json()["info"]["version"] == __version__


async def test_every_route_is_in_document_once(application: Starlette, routes: list[Route]) -> None:
    openapi = (await fetch(application, "/openapi.json")).json()
    described = {
        (method.upper(), path): operation["operationId"]
        for path, methods in openapi["paths"].items()
        for method, operation in methods.items()
    }
    assert described == {(each.method, each.path): operation_id(each) for each in routes}
    assert len(set(described.values())) == len(routes)


async def test_every_reference_resolves(application: Starlette) -> None:
    openapi = (await fetch(application, "/openapi.json")).json()
    references = set(references_in(openapi))
    assert "#/components/schemas/Device" in references
    assert all(isinstance(follow(openapi, each), dict) for each in references)


async def test_every_operation_is_complete(application: Starlette) -> None:
    openapi = (await fetch(application, "/openapi.json")).json()
    tags = {tag["name"] for tag in openapi["tags"]}
    for path, methods in openapi["paths"].items():
        for operation in methods.values():
            in_path = {each["name"] for each in operation["parameters"] if each["in"] == "path"}
            assert in_path == set(re.findall(r"\{(\w+)\}", path))
            assert set(operation["tags"]) <= tags
            assert operation["summary"]
            for response in operation["responses"].values():
                whole = follow(openapi, response["$ref"]) if "$ref" in response else response
                assert whole["description"]
            for needed in operation["security"]:
                assert set(needed) <= set(openapi["components"]["securitySchemes"])


def test_operation_id_is_made_from_method_and_path() -> None:
    assert operation_id(route("PUT", BOX)) == "put_post_office_id_boxes_label"


def test_duplicate_operation_id_is_refused() -> None:
    with pytest.raises(ValueError, match="get_a_b"):
        document([route(path="/a/b"), route(path="/a-b")])


def test_path_ids_are_integers_and_other_parameters_are_text() -> None:
    schemas = {each["name"]: each["schema"] for each in operation_of(route(path=BOX))["parameters"]}
    assert schemas["office_id"]["type"] == "integer"
    assert schemas["label"]["type"] == "string"


def test_query_parameters_are_as_declared() -> None:
    limit = Query("limit", "how many", {"type": "integer", "maximum": 9})
    (parameter,) = operation_of(route(query=(limit,)))["parameters"]
    assert parameter == {"name": "limit", "in": "query", "description": "how many", "schema": limit.schema}


def test_required_query_parameter_is_required() -> None:
    (parameter,) = operation_of(route(query=(Query("box", "which", {"type": "string"}, required=True),)))["parameters"]
    assert parameter["required"] is True


def test_request_headers_are_parameters() -> None:
    header = Header("If-None-Match", "the version", {"type": "string"})
    (parameter,) = operation_of(route(headers=(header,)))["parameters"]
    assert parameter == {"name": "If-None-Match", "in": "header", "description": "the version", "schema": header.schema}


@pytest.mark.parametrize(
    ("described", "statuses"),
    [
        (route(), ["200"]),
        (route(status=201), ["201"]),
        (route(path="/post/{label}"), ["200", "400", "404"]),
        (route(path="/post/{office_id}"), ["200", "400", "404"]),
        (route(query=(Query("limit", "how many", {}),)), ["200", "400"]),
        (route("POST", handler=add_letter), ["200", "400", "413", "415"]),
        (route(access=Access.device), ["200", "401", "403"]),
        (route(access=Access.person), ["200", "401", "403"]),
        (route(access=Access.read), ["200", "401", "403"]),
        (route(errors=(429, 409)), ["200", "409", "429"]),
        (route(errors=(200,)), ["200"]),
        (route("POST", request_body=RequestBody(Letter)), ["200", "400", "413", "415"]),
        (route(responses=(ResponseInfo(), ResponseInfo(304))), ["200", "304"]),
    ],
)
def test_statuses_follow_from_route(described: Route, statuses: list[str]) -> None:
    assert statuses_of(described) == statuses


@pytest.mark.parametrize(
    ("access", "security"),
    [
        (Access.open, []),
        (Access.device, [{"deviceToken": []}]),
        (Access.person, [{"session": []}]),
        (Access.read, [{"apiKey": ["viewer"]}, {"session": ["viewer"]}]),
        (Access.operate, [{"apiKey": ["operator"]}, {"session": ["operator"]}]),
        (Access.approve, [{"apiKey": ["approver"]}, {"session": ["approver"]}]),
        (Access.administer, [{"apiKey": ["admin"]}, {"session": ["admin"]}]),
        (Access.team_read, [{"apiKey": ["viewer"]}, {"session": ["viewer"]}]),
        (Access.team_operate, [{"apiKey": ["operator"]}, {"session": ["operator"]}]),
        (Access.fleet_read, [{"apiKey": ["viewer"]}, {"session": ["admin"]}]),
        (Access.fleet_operate, [{"apiKey": ["operator"]}, {"session": ["admin"]}]),
    ],
)
def test_credentials_follow_from_access(access: Access, security: list[dict[str, list[str]]]) -> None:
    assert operation_of(route(access=access))["security"] == security


def test_every_access_can_be_described() -> None:
    for access in Access:
        assert access.value in operation_of(route(access=access))["description"]


def test_docstring_of_handler_is_the_description() -> None:
    assert operation_of(route())["description"] == "The letters in the box.\n\nOldest first.\n\nFor anyone."


@pytest.mark.parametrize("optional", [True, False])
def test_body_is_required_unless_optional(optional: bool) -> None:
    body = operation_of(route("POST", handler=add_letter, body_optional=optional))["requestBody"]
    assert body["required"] is not optional
    assert body["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Letter"}


async def test_page_loads_nothing_from_other_origins(application: Starlette) -> None:
    page = await fetch(application, "/docs")
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'self'" in page.headers["content-security-policy"]
    assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)|https?://", page.text)


async def test_page_without_javascript_links_document(application: Starlette) -> None:
    page = (await fetch(application, "/docs")).text
    noscript = page[page.index("<noscript>") : page.index("</noscript>")]
    assert "JavaScript" in noscript
    assert 'href="/openapi.json"' in noscript


async def test_assets_of_page_are_served(application: Starlette) -> None:
    page = (await fetch(application, "/docs")).text
    loaded = set(re.findall(r'(?:href|src)="(/assets/[^"]+)"', page)) | {f"/assets/{name}" for name in ASSETS}
    for path in loaded:
        response = await fetch(application, path)
        assert response.status_code == 200
        media_type = "text/css" if path.endswith(".css") else "text/javascript"
        assert response.headers["content-type"] == f"{media_type}; charset=utf-8"


@pytest.fixture
def address(application: Starlette) -> Iterator[str]:
    """The address of the running application. The socket listens before the address is returned."""
    server = uvicorn.Server(uvicorn.Config(application, log_level="warning", ws="none", lifespan="off"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        server.should_exit = True
        thread.join()


def rendered(url: str, profile: Path) -> str:
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-sync",
    ]
    options += ["--disable-background-networking", "--disable-component-update", "--virtual-time-budget=5000"]
    command = [chromium, *options, f"--user-data-dir={profile}", "--dump-dom", url]
    return subprocess.run(command, capture_output=True, check=True, text=True, timeout=90).stdout


@pytest.mark.slow
def test_browser_shows_every_operation(address: str, routes: list[Route], tmp_path: Path) -> None:
    page = rendered(f"{address}/docs", tmp_path / "profile")
    for each in routes:
        assert f'<details class="operation" id="{operation_id(each)}">' in page
    assert f"{len(routes)} operations" in page
    assert 'class="inside"' not in page


@pytest.mark.slow
def test_link_opens_its_operation(address: str, tmp_path: Path) -> None:
    linked = operation_id(route("POST", BOX))
    page = rendered(f"{address}/docs#{linked}", tmp_path / "profile")
    assert f'<details class="operation" id="{linked}" open="">' in page
    assert page.count('class="inside"') == 1
    assert f'id="{linked}-path-office_id"' in page
    assert "at most 100 characters" in page
