"""The OpenAPI 3.1 document of all routes, and the page that shows it.

The document is generated from the routes, so nothing is described twice. The statuses of a route follow from its parts
(a body, ids in its path, its access) and from the errors and responses that it declares. `schemas` describes the
bodies.

Invariants: every route is in the document, with an operationId that depends only on its method and path. Every tag has
a description in `TAGS`.
"""

import asyncio
import inspect
import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from restante import __version__
from restante.core.decoding import INT64_MAX
from restante.identity.callers import Role
from restante.identity.tags import TAG_PATTERN
from restante.server.docs.schemas import BodySchemas, error_reference, json_format
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.access import FLEET_WIDE, IN_PERSON, ROLE_NEEDED, SCOPES_NEEDED, SESSION_COOKIE
from restante.web.request import ApiRequest
from restante.web.response import HTML, NO_STORE, ApiResponse, html_response, json_response
from restante.web.routes import Access, Header, Query, ResponseInfo, Route, RouteGroup

# These ids are texts; all others are numbers.
TEXT_IDS = frozenset(
    ["command_id", "client_id", "event_subscription_id", "stream_id", "jti", "kid", "job_id", "rollout_id", "serial"]
)
# These are numbers although their names do not end like an id's.
_OTHER_NUMBERS = frozenset(["version"])

TAGS = {
    "authentication": "How devices and people get their credentials.",
    "devices": "A user's devices: registration, list, revocation.",
    "API keys": "API keys: a user's own, which open that user's resources, and those of programs, with their grants.",
    "people": "People, their grants, and who changed people and keys.",
    "device": "What a device calls itself: the poll for signals, its install config, certificates and reports.",
    "pages": "Pages in the browser, where a person approves a device.",
    "install configs": "What a device installs where, with all earlier versions.",
    "certificates": "A user's certificates, and the devices that use them.",
    "certificate authorities": "A user's certificate authorities, and the devices that trust them.",
    "expiry": "Certificates and authorities of all users, by when they end, and their renewal.",
    "revocation lists": "The revocation lists (CRLs) of certificate authorities, for everyone who checks certificates.",
    "accounts": "A user's accounts, through which certificates are issued.",
    "signals": "Signals that an application sends to a device.",
    "fleet": "All devices together: filtered lists, groups, the outboxes and the poll boost.",
    "jobs": "Bulk jobs of all protocols: progress, results, pause, abort, approval.",
    "rollouts": "Bulk actions in waves, with thresholds, pause and roll-back.",
    "collector": "What a collector calls: the poll for commands, ACKs, telemetry and safety events.",
    "older collectors": "The older API of collectors: the same poll, ACKs and telemetry in another form.",
    "telemetry": "The telemetry that collectors reported, for operators.",
    "safety events": "Actions that collectors took on their own, for operators.",
    "rules": "Automation rules: a measurement or a silence creates a command.",
    "edge sites": "Sites, their zones and miners.",
    "edge collectors": "Collectors and their credentials.",
    "edge commands": "Commands to miners: create, list, explain, cancel, approve.",
    "edge audit": "The audit trail of edge commands.",
    "event access": "Access tokens for clients of event polling and Shared Signals.",
    "event clients": "The clients of event polling and their streams, for operators.",
    "event polling": "The poll by which a client receives its events and acknowledges them.",
    "events": "Events: publish, list, resolve errors, for operators.",
    "event keys": "The keys that sign event tokens.",
    "event subscriptions": "The event types that a client receives, and its callback URL.",
    "shared signals": "Streams of the OpenID Shared Signals Framework.",
    "server": "The server itself: health, metrics, this document.",
}

_HERE = Path(__file__).parent
_MEDIA_TYPES = {".css": b"text/css; charset=utf-8", ".js": b"text/javascript; charset=utf-8"}

_ABOUT = (
    'Device updates: successes are `{"data": …}`, errors `{"error": {"code", "what"}}`. Edge commands: successes are '
    'the object itself, errors `{"error": "CODE", "message"}`. Event polling: successes are the object itself, '
    'errors `{"Code", "Id", "Message", "Errors"}`. In addition to the listed statuses, any operation may respond with '
    "405 (the path does not support the method), 503 (the database is unreachable) and 500 (the server failed)."
)

_SECURITY_SCHEMES = {
    "deviceToken": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "JWT",
        "description": "A device's access token, from /auth/device, registration or /auth/refresh.",
    },
    "collectorToken": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "ed_…",
        "description": "A collector's token: it begins with ed_ and is shown when the collector is created.",
    },
    "collectorKey": {
        "type": "apiKey",
        "in": "header",
        "name": "X-Collector-Key",
        "description": "A collector's token, as older collectors send it; on /api/collector only.",
    },
    "clientToken": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "et_…",
        "description": "An access token of a client of event polling: it begins with et_.",
    },
    "apiKey": {
        "type": "http",
        "scheme": "bearer",
        "bearerFormat": "rk_…",
        "description": "An API key: it begins with rk_ and has grants.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": SESSION_COOKIE,
        "description": "The session cookie of a signed-in person; over https its name has the prefix __Host-.",
    },
}


class OpenApiDocument(msgspec.Struct):
    """An OpenAPI document. These members are always present."""

    openapi: str
    info: dict[str, Any]
    paths: dict[str, Any]
    components: dict[str, Any]


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """Build the OpenAPI document of the routes."""
    schemas = BodySchemas(routes)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    _require_unique(operation["operationId"] for methods in paths.values() for operation in methods.values())
    used = {
        response["$ref"].rpartition("/")[2]
        for methods in paths.values()
        for operation in methods.values()
        for response in operation["responses"].values()
        if "$ref" in response
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Restante",
            "version": __version__,
            "summary": "Signals, commands and event tokens for machines that can only call home.",
            "description": _ABOUT,
        },
        "servers": [{"url": "/"}],
        "tags": [
            {"name": tag, "description": TAGS.get(tag, tag)} for tag in dict.fromkeys(route.tag for route in routes)
        ],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "responses": {name: each for name, each in schemas.error_responses().items() if name in used},
            "securitySchemes": _SECURITY_SCHEMES,
        },
    }


def operation_id(route: Route) -> str:
    return "_".join([route.method.lower(), *re.findall(r"\w+", route.path)])


def _require_unique(operation_ids: Iterable[str]) -> None:
    seen: set[str] = set()
    for each in operation_ids:
        if each in seen:
            raise ValueError(f"two routes have the operationId {each}")
        seen.add(each)


def _operation(route: Route, schemas: BodySchemas) -> dict[str, Any]:
    response_format = json_format(route)
    headers = (*(response_format.request_headers if response_format else ()), *route.headers)
    responses = schemas.responses(route)
    errors = {str(status): error_reference(route, status) for status in _error_statuses(route)}
    operation = {
        "operationId": operation_id(route),
        "tags": [route.tag],
        "summary": route.summary,
        "description": _description(route),
        "parameters": [
            *map(_path_parameter, _path_names(route)),
            *map(_query_parameter, route.query),
            *map(_header_parameter, headers),
        ],
        "responses": {**responses, **{status: each for status, each in errors.items() if status not in responses}},
        "security": _security(route.access),
    }
    body = schemas.request_body(route)
    return operation if body is None else {**operation, "requestBody": body}


def _description(route: Route) -> str:
    audience = f"For {route.access.value}."
    docstring = inspect.getdoc(route.handler)
    return f"{docstring}\n\n{audience}" if docstring else audience


def _path_names(route: Route) -> list[str]:
    return re.findall(r"\{(\w+)\}", route.path)


def _is_id(name: str) -> bool:
    return name.endswith("_id")


def _path_parameter(name: str) -> dict[str, Any]:
    number = {"type": "integer", "format": "int64", "minimum": 0, "maximum": INT64_MAX}
    is_number = name in _OTHER_NUMBERS or (_is_id(name) and name not in TEXT_IDS)
    text = {"type": "string", "pattern": f"^{TAG_PATTERN}$"} if name == "tag" else {"type": "string", "minLength": 1}
    parameter = {"name": name, "in": "path", "required": True, "schema": number if is_number else text}
    if name == "user_id":
        parameter["description"] = "The id of the signed-in person; an API key may use any user's id."
    return parameter


def _query_parameter(query: Query) -> dict[str, Any]:
    parameter = {"name": query.name, "in": "query", "description": query.meaning, "schema": query.schema}
    return {**parameter, "required": True} if query.required else parameter


def _header_parameter(header: Header) -> dict[str, Any]:
    parameter = {"name": header.name, "in": "header", "description": header.meaning, "schema": header.schema}
    return {**parameter, "required": True} if header.required else parameter


def _error_statuses(route: Route) -> list[int]:
    has_body = route.body_type is not None or route.request_body is not None
    has_ids = bool(_path_names(route))
    statuses = set(route.errors)
    if has_body or has_ids or route.query:
        statuses.add(400)
    if route.access is not Access.open:
        statuses.update((401, 403))
    if has_ids:
        statuses.add(404)
    if has_body:
        statuses.update((413, 415))
    return sorted(statuses - {route.status})


def _security(access: Access) -> list[dict[str, list[str]]]:
    """The accepted credentials, each with the lowest role that it needs."""
    if access is Access.open:
        return []
    if access is Access.device:
        return [{"deviceToken": []}]
    if access is Access.collector:
        return [{"collectorToken": []}]
    if access is Access.older_collector:
        return [{"collectorKey": []}, {"collectorToken": []}]
    if access in SCOPES_NEEDED:
        return [{"clientToken": []}]
    if access is Access.person:
        return [{"session": []}]
    role = ROLE_NEEDED[access]
    if access in (*IN_PERSON, Access.manage_people):
        return [{"session": [role.name]}]
    person_role = Role.admin if access in FLEET_WIDE else role
    return [{"apiKey": [role.name]}, {"session": [person_role.name]}]


class DocsRoutes:
    """Routes of the document, of the page that shows it, and of the page's assets."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._assets = [_Asset(path) for path in sorted((_HERE / "assets").iterdir()) if path.suffix in _MEDIA_TYPES]
        self._page = (_HERE / "templates" / "docs.html").read_text("utf-8")
        self._api_routes = routes

    def routes(self) -> list[Route]:
        group = RouteGroup("server", RESPONSE_FORMAT)
        return [
            group.get(
                "/openapi.json",
                self.openapi,
                Access.open,
                "This API as an OpenAPI document",
                responses=(ResponseInfo(type=OpenApiDocument, is_whole=True),),
            ),
            group.get(
                "/docs",
                self.docs,
                Access.open,
                "This API as a page",
                responses=(ResponseInfo(media_type=HTML, type=str),),
            ),
            *(
                group.get(
                    f"/assets/{asset.name}",
                    asset.get,
                    Access.open,
                    "A part of the page",
                    responses=(ResponseInfo(media_type=asset.media_type, type=str),),
                )
                for asset in self._assets
            ),
        ]

    async def openapi(self, _request: ApiRequest) -> ApiResponse:
        return json_response(await asyncio.to_thread(lambda: self._document))

    @cached_property
    def _document(self) -> bytes:
        """Built at the first request: building takes longer than all other routes together, and few callers need it."""
        return msgspec.json.encode(document([*self._api_routes, *self.routes()]))

    async def docs(self, _request: ApiRequest) -> ApiResponse:
        return html_response(self._page)


class _Asset:
    """A file that the page loads."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self.media_type = _MEDIA_TYPES[path.suffix].decode().partition(";")[0]
        self._response = ApiResponse(200, ((b"content-type", _MEDIA_TYPES[path.suffix]), NO_STORE), path.read_bytes())

    async def get(self, _request: ApiRequest) -> ApiResponse:
        return self._response
