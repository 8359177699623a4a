"""The ASGI application: Starlette routes built from the route declarations.

    request ─▶ access control ─▶ decode the body ─▶ handler ─▶ response format ─▶ response
                     └──────────────────┴─────────────┴─ an exception ─▶ error response

Every request takes these steps, in this order. A handler never runs for a caller without access or with a bad body.
"""

import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.routing import Route as StarletteRoute
from starlette.types import Lifespan

from restante.core.decoding import decode_json
from restante.core.errors import NotFound
from restante.web.access import AccessControl
from restante.web.errors.error_responses import MethodNotAllowed, error_response
from restante.web.request import ApiRequest, read_body, require_json
from restante.web.response import ApiResponse, to_starlette
from restante.web.routes import JsonFormat, ResponseFormat, Route

PREFIX_SEGMENTS_MAX = 4

Observe = Callable[[Route, int, float], None]


def build_application(
    routes: Iterable[Route],
    access_control: AccessControl,
    default_format: ResponseFormat,
    lifespan: Lifespan[Starlette] | None = None,
    observe: Observe = lambda _route, _status, _seconds: None,
    *,
    body_bytes_max: int,
) -> Starlette:
    """Build the application. It calls `observe` with the route, the status and the duration of each response."""
    by_path: dict[str, dict[str, Route]] = {}
    for route in routes:
        if by_path.setdefault(route.path, {}).setdefault(route.method, route) is not route:
            raise ValueError(f"two routes for {route.method} {route.path}")

    async def respond(route: Route, body_type: type[Any] | None, request: Request) -> ApiResponse:
        started = time.monotonic()
        response = await _respond(route, body_type, request, access_control, body_bytes_max)
        observe(route, response.status, time.monotonic() - started)
        return response

    # Literal paths come before paths with parameters: `/devices/self` is not a device id.
    ordered = sorted(by_path.items(), key=lambda item: [part.startswith("{") for part in item[0].split("/")])
    starlette_routes: list[BaseRoute] = [
        # Without a list of methods, Starlette passes every method to the endpoint, which refuses in the protocol's
        # format.
        StarletteRoute(path, _endpoint(methods, respond), methods=[])
        for path, methods in ordered
    ]

    # An unknown path is refused in the format of the route whose path begins with the most of the same segments.
    formats: dict[tuple[str, ...], ResponseFormat] = {}
    for methods in by_path.values():
        for route in methods.values():
            if isinstance(route.response_format, JsonFormat):
                for prefix in _prefixes(route.path):
                    formats.setdefault(prefix, route.response_format)

    async def refuse_unknown_path(request: Request, _error: Exception) -> Response:
        known = (formats[prefix] for prefix in _prefixes(request.scope["path"]) if prefix in formats)
        response_format = next(known, default_format)
        return _finish(response_format, request, response_format.error(NotFound("there is nothing at this path")))

    application = Starlette(routes=starlette_routes, exception_handlers={404: refuse_unknown_path}, lifespan=lifespan)
    # A path with an extra slash is an unknown path: a redirect would lead to any host that the caller names.
    application.router.redirect_slashes = False
    return application


def _prefixes(path: str) -> list[tuple[str, ...]]:
    """The leading segments of a path, the longest first; at most four, so that a long path costs nothing."""
    segments = path.lstrip("/").split("/", PREFIX_SEGMENTS_MAX)[:PREFIX_SEGMENTS_MAX]
    return [tuple(segments[:count]) for count in range(len(segments), 0, -1)]


Respond = Callable[[Route, type[Any] | None, Request], Awaitable[ApiResponse]]


def _endpoint(methods: dict[str, Route], respond: Respond) -> Callable[[Request], Awaitable[Response]]:
    response_format = next(iter(methods.values())).response_format
    body_types = {method: route.body_type for method, route in methods.items()}
    allowed = ", ".join(sorted({*methods, *({"HEAD"} if "GET" in methods else ())}))

    async def endpoint(request: Request) -> Response:
        route = methods.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            response = response_format.error(MethodNotAllowed(f"this path takes {allowed}"))
            return _finish(response_format, request, response.with_headers((b"allow", allowed.encode())))
        return _finish(route.response_format, request, await respond(route, body_types[route.method], request))

    return endpoint


def _finish(response_format: ResponseFormat, request: Request, response: ApiResponse) -> Response:
    return to_starlette(response_format.finalize(request, response))


async def _respond(
    route: Route, body_type: type[Any] | None, request: Request, access_control: AccessControl, body_bytes_max: int
) -> ApiResponse:
    try:
        caller, allowed = await access_control.admit(request, route.access, route.area)
        api_request = ApiRequest(request, caller, allowed, access_control.senders)
        if body_type is None:
            result = await route.handler(api_request)
        else:
            raw = api_request.raw_body = await read_body(request, body_bytes_max)
            is_omitted = route.body_optional and not raw
            if not is_omitted:
                require_json(request)
            result = await route.handler(api_request, decode_json(b"{}" if is_omitted else raw, body_type))
        return result if isinstance(result, ApiResponse) else route.response_format.success(result, route.status)
    except ClientDisconnect:
        return ApiResponse(400)
    except Exception as error:
        return error_response(route.response_format, error, method=route.method, path=route.path)
