"""The interface of the fast lane for protocols: the handlers that they offer, and the connection of a handler.

A handler gets a request that arrived whole and in its plainest form. It returns False for "not in this form, let the
application serve it", having changed nothing. Otherwise it responds through the connection, now or later, exactly once.

A handler that must read something to decide defers the decision, returns True, and accepts the request or passes it on
later.
"""

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from restante.web.response import ApiResponse

_BEARER = b"Bearer "


class WaitOwner(Protocol):
    """The poll that is notified when a wait ends without a response."""

    def expire(self, parked: Any, /) -> None: ...
    def disconnect(self, parked: Any, /) -> None: ...


class FastConnection(Protocol):
    """A connection with one request to respond to."""

    def send(self, response: ApiResponse, /) -> None: ...

    def wait(self, owner: WaitOwner, parked: Any, seconds: float, /) -> None:
        """Call `owner.expire(parked)` after that time, or `owner.disconnect(parked)` if the client disconnects."""

    @property
    def thumbprint(self) -> str | None:
        """Of the client certificate of this connection. None behind a proxy, whose certificate is not the caller's."""


class DeferringConnection(FastConnection, Protocol):
    """A connection whose request may still be passed on after the handler has returned."""

    def date_line(self) -> bytes:
        """The Date header line."""

    def send_bytes(self, data: bytes, /) -> None:
        """Respond with these bytes: status line, headers and body."""

    def defer(self) -> None:
        """Decide later: `accept` or `pass_on` follows."""

    def accept(self) -> None:
        """The handler will respond to the deferred request."""

    def pass_on(self) -> None:
        """Let the application serve the deferred request. Nothing has changed."""


Result = TypeVar("Result")


class LaneReply(Generic[Result]):
    """Sends a protocol's result as the response to a request. It exists as long as a poll is parked, so it is small."""

    __slots__ = ("_connection", "_to_response")

    def __init__(self, connection: FastConnection, to_response: Callable[[Result], ApiResponse]) -> None:
        self._connection = connection
        self._to_response = to_response

    def __call__(self, result: Result) -> None:
        self._connection.send(self._to_response(result))


def bearer_token(headers: dict[bytes, bytes]) -> bytes:
    """The token of the Authorization header; empty, which is no token, where it is not a plain bearer token."""
    value = headers.get(b"authorization", b"")
    return value[len(_BEARER) :] if value.startswith(_BEARER) else b""


class FastHandler(Protocol):
    """Handles a GET request."""

    @property
    def is_read_only(self) -> bool:
        """Whether nothing is lost if the client disconnects before the response: the lane need not notice it."""

    def __call__(self, query: bytes, headers: dict[bytes, bytes], connection: DeferringConnection, /) -> bool: ...

    def idle_response(self, query: bytes, token: bytes, cursor: bytes, date_line: bytes, /) -> bytes | None:
        """All bytes of the response, if memory alone shows an idle poll. `token` and `cursor` are the values of the
        bearer token and of If-None-Match as sent, or empty.

        None if anything else is needed; then nothing has changed, and the handler is called with the whole request.
        """


class FastPostHandler(Protocol):
    """Handles a POST request with a JSON body. `name` is the variable part of its path, empty if there is none."""

    def __call__(
        self, name: bytes, body: bytes, headers: dict[bytes, bytes], connection: FastConnection, /
    ) -> bool: ...


class FastPost(NamedTuple):
    """The handler of requests with the line `<before_name><name><behind_name> HTTP/1.1`."""

    before_name: bytes
    behind_name: bytes
    handler: FastPostHandler


class PollPostHandler(FastPostHandler, Protocol):
    """Handles a POST request that is a poll. Most polls repeat the same body, and find nothing."""

    def accepts(self, headers: dict[bytes, bytes], /) -> bool:
        """Whether the headers that do not vary are acceptable; called once for each form of request."""

    def is_repeated(self, body: bytes, /) -> bool:
        """Whether other requests are likely to have this very body."""

    def idle_response(
        self, body: bytes, token: bytes, correlation: bytes | None, date_line: bytes, connection: FastConnection, /
    ) -> bytes | None:
        """All bytes of the response, if memory alone shows an idle poll. `token` and `correlation` are as sent.

        None if anything else is needed; then nothing has changed, and the handler is called with the whole request.
        """


class PollPost(NamedTuple):
    """The handler of polls with the line `<line> HTTP/1.1`. The value of the correlation header varies."""

    line: bytes
    correlation: bytes
    handler: PollPostHandler
