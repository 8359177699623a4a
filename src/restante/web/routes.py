"""Declarations of HTTP routes: method, path, access, handler, and the response format of the protocol.

Three consumers read these declarations: the ASGI application, the OpenAPI document, and the test that calls every route
with every wrong credential. A handler is `async def handler(request: ApiRequest)` or
`async def handler(request: ApiRequest, body: SomeStruct)`; the application reads the body's type from the signature. A
handler returns a Struct, a list or a dict, which the response format wraps into a success body, or an ApiResponse,
which is sent unchanged.

A route declares what its signature does not show, for the OpenAPI document only: request headers (`headers`), a body
that the handler reads itself (`request_body`), example bodies (`examples`), and responses that are not errors with
their types, media types and headers (`responses`).
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypedDict, Unpack, get_type_hints

from starlette.requests import Request

from restante.core.errors import RestanteError
from restante.identity.grants import Area
from restante.web.response import ApiResponse


class Access(Enum):
    """Who may call a route. A role counts within the scope of its grant: see `restante.identity.grants`.

    If its path has a `user_id`, a signed-in person or the user of an API key must be that user; a person may also have
    a grant that names that user. An API key of a user opens no other routes, except `own_read`.
    """

    open = "anyone"
    device = "a device, with its access token"
    collector = "a collector, with its token"
    older_collector = "a collector, with its token as X-Collector-Key or Authorization: Bearer"
    client = "a client of event polling, with an access token of a scope for polling, by default eventpolling"
    subscriber = (
        "a client of event polling, with an access token of a scope for subscriptions, by default eventpolling, "
        "accounts, payments or fundsconfirmations"
    )
    ssf_read = "a receiver of shared signals, with an access token of scope ssf.read or ssf.manage"
    ssf_manage = "a receiver of shared signals, with an access token of scope ssf.manage"
    person = "a signed-in person"
    read = "a signed-in person or API key, role viewer or higher"
    operate = "a signed-in person or API key, role operator or higher"
    approve = "a signed-in person or API key, role approver or higher"
    approve_in_person = "a signed-in person, role approver or higher"
    administer = "a signed-in person or API key, role admin"
    manage_access = "a signed-in person or API key, role admin in any scope: people and keys within that scope"
    manage_people = "a signed-in person, role admin in any scope, or the local administrator: people within that scope"
    own_read = "a signed-in person or an API key of a user, role viewer or higher: the caller's own resources"
    # Lists of the devices of several users: of those that are open to the caller on the routes of one user.
    team_read = "a signed-in person or API key, role viewer or higher: the devices of the users that its grants open"
    team_operate = (
        "a signed-in person or API key, role operator or higher: the devices of the users that its grants open"
    )
    # Routes about every user's devices: for API keys, which act for all users, and for people with the role admin.
    fleet_read = "an API key, role viewer or higher, or a signed-in admin"
    fleet_operate = "an API key, role operator or higher, or a signed-in admin"
    # Jobs of all areas: the handler shows those whose users, sites or clients the caller has the role for.
    jobs_read = "a signed-in person or API key, role viewer or higher for everything that the job may touch"
    jobs_operate = "a signed-in person or API key, role operator or higher for everything that the job may touch"
    jobs_approve = "a signed-in person, role approver or higher for everything that the job may touch"


class ResponseFormat(ABC):
    """Writes the successes and errors of one protocol."""

    @abstractmethod
    def success(self, value: Any, status: int) -> ApiResponse: ...

    @abstractmethod
    def error(self, error: RestanteError) -> ApiResponse: ...

    def finalize(self, _request: Request, response: ApiResponse) -> ApiResponse:
        """Add what every response, an error too, takes over from its request. By default: nothing."""
        return response


class JsonFormat(ResponseFormat):
    """A format whose bodies are JSON, so that the OpenAPI document can describe them."""

    # The prefix of its error responses in the OpenAPI document, and the type of an error's body.
    name: str
    error_type: type[Any]
    # Headers that every route of this format reads, and headers that each of its responses has.
    request_headers: "tuple[Header, ...]" = ()
    response_headers: "tuple[Header, ...]" = ()

    def success_schema(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return the schema of a success body whose value has the schema `data`. By default the value is the body."""
        return data


Handler = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Query:
    """A query parameter, for the documentation. The handler reads and checks it."""

    name: str
    meaning: str
    schema: dict[str, Any]
    required: bool = False


@dataclass(frozen=True, slots=True)
class Header:
    """A header of a request or a response, for the documentation. `required`: it must be, or always is, there."""

    name: str
    meaning: str
    schema: dict[str, Any] = field(default_factory=lambda: {"type": "string"})
    required: bool = False


@dataclass(frozen=True, slots=True)
class RequestBody:
    """A request body that the handler reads and checks itself, for the documentation."""

    type: Any
    media_types: tuple[str, ...] = ("application/json",)
    required: bool = True


@dataclass(frozen=True, slots=True)
class ResponseInfo:
    """A response that is not an error, for the documentation.

    `type` is the type of its value, which the response format wraps; without it, the type that the handler returns. A
    value of another media type is not wrapped.
    """

    status: int = 200
    type: Any = None
    headers: tuple[Header, ...] = ()
    media_type: str = "application/json"
    # Further media types of the same status, each with the type of its body.
    other_media_types: tuple[tuple[str, Any], ...] = ()
    meaning: str = ""
    # Whether `type` is the type of the whole body, which the handler writes without the format's envelope.
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """One route. `errors`: the statuses, other than the usual ones, that its errors have.

    `area`: the part of the server whose grants open it, for people and API keys. Without an area, only grants for
    everything do. The handler touches no resource of the area outside `request.allowed`.
    """

    method: str
    path: str
    handler: Handler
    access: Access
    summary: str
    response_format: ResponseFormat
    tag: str
    status: int = 200
    query: tuple[Query, ...] = ()
    errors: tuple[int, ...] = ()
    body_optional: bool = False
    headers: tuple[Header, ...] = ()
    request_body: RequestBody | None = None
    examples: tuple[Any, ...] = ()
    responses: tuple[ResponseInfo, ...] = ()
    area: Area | None = None

    @property
    def body_type(self) -> type[Any] | None:
        return get_type_hints(self.handler).get("body")

    @property
    def result_type(self) -> Any:
        return get_type_hints(self.handler).get("return")


class RouteOptions(TypedDict, total=False):
    """The optional fields of a Route."""

    status: int
    query: tuple[Query, ...]
    errors: tuple[int, ...]
    body_optional: bool
    headers: tuple[Header, ...]
    request_body: RequestBody | None
    examples: tuple[Any, ...]
    responses: tuple[ResponseInfo, ...]


@dataclass(frozen=True, slots=True)
class RouteGroup:
    """Makes routes that share a tag, a response format and a path prefix. `errors` apply to each of its routes.

    Routes for people and API keys name their `area`.
    """

    tag: str
    response_format: ResponseFormat
    prefix: str = ""
    errors: tuple[int, ...] = ()
    area: Area | None = None

    def get(self, path: str, handler: Handler, access: Access, summary: str, **options: Unpack[RouteOptions]) -> Route:
        return self._route("GET", path, handler, access, summary, options)

    def post(self, path: str, handler: Handler, access: Access, summary: str, **options: Unpack[RouteOptions]) -> Route:
        return self._route("POST", path, handler, access, summary, options)

    def put(self, path: str, handler: Handler, access: Access, summary: str, **options: Unpack[RouteOptions]) -> Route:
        return self._route("PUT", path, handler, access, summary, options)

    def patch(
        self, path: str, handler: Handler, access: Access, summary: str, **options: Unpack[RouteOptions]
    ) -> Route:
        return self._route("PATCH", path, handler, access, summary, options)

    def delete(
        self, path: str, handler: Handler, access: Access, summary: str, **options: Unpack[RouteOptions]
    ) -> Route:
        return self._route("DELETE", path, handler, access, summary, options)

    def _route(
        self, method: str, path: str, handler: Handler, access: Access, summary: str, options: RouteOptions
    ) -> Route:
        options["errors"] = (*self.errors, *options.get("errors", ()))
        path = self.prefix + path
        return Route(method, path, handler, access, summary, self.response_format, self.tag, **options, area=self.area)
