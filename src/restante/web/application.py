"""The ASGI application: Starlette routes made from the route table.

Every request goes through the same steps: who is it (the gate), may they, is the body what the handler wants, the
handler, its answer. Whatever is raised on the way becomes the protocol's error body in one place.
"""

import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import structlog
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.routing import Route as StarletteRoute
from starlette.types import Lifespan

from restante.core.errors import NotFound, RestanteError, Unavailable
from restante.database.errors import DatabaseUnavailable
from restante.web.access import Gate
from restante.web.answer import Answer, as_response
from restante.web.ask import BODY_BYTES_MAX, Ask, decode_json, read_body, require_json
from restante.web.routes import AnsweringShape, DescribedShape, Route, Shape

log = structlog.get_logger()

UNAVAILABLE_RETRY_SECONDS = 5


class MethodNotAllowed(RestanteError):
    """This path does not take this method."""

    status = 405


class InternalError(RestanteError):
    """The server failed; the failure is logged and nothing was changed."""


Observe = Callable[[Route, int, float], None]


def build_application(
    routes: Iterable[Route],
    gate: Gate,
    default_shape: Shape,
    lifespan: Lifespan[Starlette] | None = None,
    observe: Observe = lambda _route, _status, _seconds: None,
    body_bytes_max: int = BODY_BYTES_MAX,
) -> Starlette:
    """The application; `observe` is told of each answer and how long it took."""
    by_path: dict[str, dict[str, Route]] = {}
    for route in routes:
        if by_path.setdefault(route.path, {}).setdefault(route.method, route) is not route:
            raise ValueError(f"two routes for {route.method} {route.path}")

    async def answer_to(route: Route, body_type: type[Any] | None, request: Request) -> Answer:
        started = time.monotonic()
        answer = await _answer(route, body_type, request, gate, body_bytes_max)
        observe(route, answer.status, time.monotonic() - started)
        return answer

    # Literal paths before those with parameters: `/devices/self` is not a device id.
    ordered = sorted(by_path.items(), key=lambda item: [part.startswith("{") for part in item[0].split("/")])
    starlette_routes: list[BaseRoute] = [
        # Without methods of its own Starlette leaves them all to the endpoint, whose refusal has the protocol's shape.
        StarletteRoute(path, _endpoint(methods, answer_to), methods=[])
        for path, methods in ordered
    ]

    # Where there is nothing, the refusal is in the shape of the protocol whose paths begin the same.
    described = (each for methods in by_path.values() for each in methods.values())
    shapes = {_first_part(each.path): each.shape for each in described if isinstance(each.shape, DescribedShape)}

    async def no_such_path(request: Request, _error: Exception) -> Response:
        shape = shapes.get(_first_part(request.scope["path"]), default_shape)
        return _response(shape, request, shape.error(NotFound("there is nothing at this path")))

    application = Starlette(routes=starlette_routes, exception_handlers={404: no_such_path}, lifespan=lifespan)
    # A path with a slash too many is an unknown path: a redirect would lead to whatever host the caller named.
    application.router.redirect_slashes = False
    return application


def _first_part(path: str) -> str:
    return path.lstrip("/").partition("/")[0]


AnswerTo = Callable[[Route, type[Any] | None, Request], Awaitable[Answer]]


def _endpoint(methods: dict[str, Route], answer_to: AnswerTo) -> Callable[[Request], Awaitable[Response]]:
    any_route = next(iter(methods.values()))
    body_types = {method: route.body_type for method, route in methods.items()}
    allowed = ", ".join(sorted({*methods, *({"HEAD"} if "GET" in methods else ())}))

    async def endpoint(request: Request) -> Response:
        route = methods.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            refusal = any_route.shape.error(MethodNotAllowed(f"this path takes {allowed}"))
            return _response(any_route.shape, request, refusal.with_headers((b"allow", allowed.encode())))
        return _response(route.shape, request, await answer_to(route, body_types[route.method], request))

    return endpoint


def _response(shape: Shape, request: Request, answer: Answer) -> Response:
    return as_response(shape.in_answer_to(request, answer) if isinstance(shape, AnsweringShape) else answer)


async def _answer(
    route: Route, body_type: type[Any] | None, request: Request, gate: Gate, body_bytes_max: int
) -> Answer:
    try:
        caller = await gate.admit(request, route.access)
        ask = Ask(request, caller)
        if body_type is None:
            result = await route.handler(ask)
        else:
            raw = ask.raw_body = await read_body(request, body_bytes_max)
            is_left_out = route.body_optional and not raw
            if not is_left_out:
                require_json(request)
            result = await route.handler(ask, decode_json(b"{}" if is_left_out else raw, body_type))
        return result if isinstance(result, Answer) else route.shape.success(result, route.status)
    except RestanteError as error:
        return route.shape.error(error)
    except DatabaseUnavailable as error:
        log.error("database unavailable", path=route.path, error=str(error))
        return route.shape.error(
            Unavailable("the database cannot answer now", retry_after_seconds=UNAVAILABLE_RETRY_SECONDS)
        )
    except ClientDisconnect:
        return Answer(400)
    except Exception:
        log.exception("request failed", method=route.method, path=route.path)
        return route.shape.error(InternalError())
