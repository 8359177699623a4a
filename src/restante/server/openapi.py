"""The route table as an OpenAPI 3.1 document, and a page that shows it.

Everything is read off the routes: nothing is described twice. Which statuses a route answers with follows
from what it has (a body, ids in its path, an access) and from the refusals it names. What is in the bodies,
`schemas` says. Must always hold: every route is in the document, under an operationId that depends on its
method and path alone.
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
from restante.identity.callers import Role
from restante.server.schemas import WireSchemas, refusal
from restante.updates.wire import SHAPE
from restante.web.access import FLEET_WIDE, ROLE_NEEDED, SCOPES_NEEDED, SESSION_COOKIE
from restante.web.answer import NO_STORE, Answer, html_answer, json_answer
from restante.web.ask import Ask
from restante.web.routes import Access, Handler, Query, Route

# These ids are texts; every other one is a number.
TEXT_IDS = frozenset(["command_id", "client_id", "event_subscription_id", "stream_id", "jti", "kid"])

_HERE = Path(__file__).parent
_MEDIA_TYPES = {".css": b"text/css; charset=utf-8", ".js": b"text/javascript; charset=utf-8"}

_ABOUT = (
    'Device updates: successes are `{"data": …}`, refusals `{"error": {"code", "what"}}`. Edge commands: successes are '
    'the object itself, refusals `{"error": "CODE", "message"}`. Event polling: successes are the object itself, '
    'refusals `{"Code", "Id", "Message", "Errors"}`. Beside the statuses listed, any operation answers 405 '
    "to a method its path does not take, 503 while the database cannot be reached, and 500 where the server itself "
    "fails."
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
        "description": "A collector's token: it begins with ed_ and was shown when the collector was made.",
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
        "description": "An API key: it begins with rk_ and has a role.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": SESSION_COOKIE,
        "description": "The session cookie of a signed-in person.",
    },
}


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """The routes as an OpenAPI document."""
    schemas = WireSchemas(routes)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    _require_unique(operation["operationId"] for methods in paths.values() for operation in methods.values())
    return {
        "openapi": "3.1.0",
        "info": {"title": "Restante", "version": __version__, "description": _ABOUT},
        "servers": [{"url": "/"}],
        "tags": [{"name": tag} for tag in dict.fromkeys(route.tag for route in routes)],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "responses": schemas.refusals(),
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


def _operation(route: Route, schemas: WireSchemas) -> dict[str, Any]:
    operation = {
        "operationId": operation_id(route),
        "tags": [route.tag],
        "summary": route.summary,
        "description": _description(route),
        "parameters": [*map(_path_parameter, _path_names(route)), *map(_query_parameter, route.query)],
        "responses": {
            str(route.status): schemas.success(route),
            **{str(status): refusal(route, status) for status in _other_statuses(route)},
        },
        "security": _security(route.access),
    }
    body = schemas.body(route)
    if body is not None:
        content = {"application/json": {"schema": body}}
        operation["requestBody"] = {"required": not route.body_optional, "content": content}
    return operation


def _description(route: Route) -> str:
    audience = f"For {route.access.value}."
    said = inspect.getdoc(route.handler)
    return f"{said}\n\n{audience}" if said else audience


def _path_names(route: Route) -> list[str]:
    return re.findall(r"\{(\w+)\}", route.path)


def _is_id(name: str) -> bool:
    return name.endswith("_id")


def _path_parameter(name: str) -> dict[str, Any]:
    number = {"type": "integer", "format": "int64", "minimum": 0}
    is_number = _is_id(name) and name not in TEXT_IDS
    parameter = {
        "name": name,
        "in": "path",
        "required": True,
        "schema": number if is_number else {"type": "string"},
    }
    if name == "user_id":
        parameter["description"] = "A signed-in person's own; an API key may name any user."
    return parameter


def _query_parameter(query: Query) -> dict[str, Any]:
    return {"name": query.name, "in": "query", "description": query.meaning, "schema": query.schema}


def _other_statuses(route: Route) -> list[int]:
    has_body = route.body_type is not None
    has_ids = any(map(_is_id, _path_names(route)))
    statuses = set(route.refusals)
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
    """Which credentials are taken; the list at each is the role it needs at least."""
    if access is Access.open:
        return []
    if access is Access.device:
        return [{"deviceToken": []}]
    if access is Access.collector:
        return [{"collectorToken": []}]
    if access in SCOPES_NEEDED:
        return [{"clientToken": []}]
    if access is Access.person:
        return [{"session": []}]
    role = ROLE_NEEDED[access]
    persons_role = Role.admin if access in FLEET_WIDE else role
    return [{"apiKey": [role.name]}, {"session": [persons_role.name]}]


class DocsRoutes:
    """The document, the page that shows it, and what the page is made of."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._assets = [_Asset(path) for path in sorted((_HERE / "assets").iterdir()) if path.suffix in _MEDIA_TYPES]
        self._page = (_HERE / "templates" / "docs.html").read_text("utf-8")
        self._described = routes

    def routes(self) -> list[Route]:
        return [
            _row("/openapi.json", self.openapi, "This API as an OpenAPI document"),
            _row("/docs", self.docs, "This API as a page"),
            *(_row(f"/assets/{asset.name}", asset.get, "A part of the page") for asset in self._assets),
        ]

    async def openapi(self, _ask: Ask) -> Answer:
        return json_answer(await asyncio.to_thread(lambda: self._document))

    @cached_property
    def _document(self) -> bytes:
        """Made when it is first asked for: it takes longer than all the rest of the routes, and is rarely wanted."""
        return msgspec.json.encode(document([*self._described, *self.routes()]))

    async def docs(self, _ask: Ask) -> Answer:
        return html_answer(self._page)


class _Asset:
    """A file of ours that a page loads."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._answer = Answer(200, ((b"content-type", _MEDIA_TYPES[path.suffix]), NO_STORE), path.read_bytes())

    async def get(self, _ask: Ask) -> Answer:
        return self._answer


def _row(path: str, handler: Handler, summary: str) -> Route:
    return Route("GET", path, handler, Access.open, summary, shape=SHAPE, tag="server")
