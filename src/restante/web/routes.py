"""The declaration of a route: one row says what it is, who may call it, and what it takes and gives.

The application, the OpenAPI document and the test that knocks at every door with every wrong key are all made from
these rows. A handler is `async def handler(ask: Ask) -> …` or `async def handler(ask: Ask, body: SomeStruct) -> …`;
the body's type is read off the signature. It returns a Struct (or a list, or a dict), which the protocol's shape
wraps into its success body, or an Answer as it is.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, get_type_hints, runtime_checkable

from starlette.requests import Request

from restante.core.errors import RestanteError
from restante.web.answer import Answer


class Access(Enum):
    """Who may call a route. Where its path has a `user_id`, a person must be that user."""

    open = "anyone"
    device = "a device, with its access token"
    collector = "a collector, with its token"
    client = "a client of event polling, with an access token of scope eventpolling"
    signals_read = "a receiver of shared signals, with an access token of scope ssf.read or ssf.manage"
    signals_manage = "a receiver of shared signals, with an access token of scope ssf.manage"
    person = "a signed-in person"
    read = "a signed-in person or API key, role viewer or higher"
    operate = "a signed-in person or API key, role operator or higher"
    approve = "a signed-in person or API key, role approver or higher"
    administer = "a signed-in person or API key, role admin"
    # What concerns every user's devices is for keys, which act for all users, and for people who are admins.
    oversee = "an API key, role viewer or higher, or a signed-in admin"
    steer = "an API key, role operator or higher, or a signed-in admin"


class Shape(Protocol):
    """A protocol's way of writing successes and errors."""

    def success(self, value: Any, status: int) -> Answer: ...
    def error(self, error: RestanteError) -> Answer: ...


@runtime_checkable
class DescribedShape(Shape, Protocol):
    """One whose bodies are JSON and can be told beforehand, for the documentation."""

    # What it is called there, and the type of an error's body.
    name: str
    error_type: type[Any]

    def envelope(self, data: dict[str, Any]) -> dict[str, Any]:
        """The schema of a success whose value has this schema."""


@runtime_checkable
class AnsweringShape(Shape, Protocol):
    """One whose answers, refusals too, carry something of the request they answer."""

    def in_answer_to(self, request: Request, answer: Answer) -> Answer:
        """The answer as it goes out."""


Handler = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Query:
    """A query parameter, for the documentation; the handler reads and checks it."""

    name: str
    meaning: str
    schema: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str
    handler: Handler
    access: Access
    summary: str
    shape: Shape
    tag: str
    status: int = 200
    query: tuple[Query, ...] = ()
    refusals: tuple[int, ...] = ()
    body_optional: bool = False

    @property
    def body_type(self) -> type[Any] | None:
        return get_type_hints(self.handler).get("body")

    @property
    def result_type(self) -> Any:
        return get_type_hints(self.handler).get("return")
