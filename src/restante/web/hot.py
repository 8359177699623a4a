"""What a protocol must know of the fast lane: how it is asked there, and how it answers.

A hot handler gets a request that arrived whole and in its plainest form. It says False for "not in this form, let the
application answer", having changed nothing; else it answers through the lane, now or later, exactly once.
"""

from typing import Any, NamedTuple, Protocol

from restante.web.answer import Answer


class Waits(Protocol):
    """Who a lane tells that a wait is over."""

    def expire(self, parked: Any, /) -> None: ...
    def abandon(self, parked: Any, /) -> None: ...


class Lane(Protocol):
    """One connection, waiting for its answer."""

    def send(self, answer: Answer, /) -> None: ...

    def wait(self, owner: Waits, parked: Any, seconds: float, /) -> None:
        """Have `owner.expire(parked)` called after that time, or `owner.abandon(parked)` if the client hangs up."""

    @property
    def thumbprint(self) -> str | None:
        """Of the certificate that the connection's client showed; of no proxy's, whose callers have their own."""


class HotHandler(Protocol):
    def __call__(self, query: bytes, headers: dict[bytes, bytes], lane: Lane, /) -> bool: ...

    def at_once(self, query: bytes, token: bytes, cursor: bytes, date_line: bytes, /) -> bytes | None:
        """The whole answer, if memory alone has it: the bearer token and If-None-Match, or nothing, as they were sent.

        None if anything else is needed; then nothing has been done, and the request is asked for in full.
        """


class HotPostHandler(Protocol):
    """For a POST with a JSON body; `name` is the part of its path that varies, empty where none does."""

    def __call__(self, name: bytes, body: bytes, headers: dict[bytes, bytes], lane: Lane, /) -> bool: ...


class HotPost(NamedTuple):
    """A request line `<before_name><name><behind_name> HTTP/1.1`, and who answers it."""

    before_name: bytes
    behind_name: bytes
    handler: HotPostHandler


class PollPostHandler(HotPostHandler, Protocol):
    """For a POST that is a poll: most of them come again and again with the same body, and find nothing."""

    def takes(self, headers: dict[bytes, bytes], /) -> bool:
        """Whether the headers that are the same each time are in order; asked once for each form of request."""

    def comes_again(self, body: bytes, /) -> bool:
        """Whether other requests are likely to have this very body."""

    def at_once(
        self, body: bytes, token: bytes, correlation: bytes | None, date_line: bytes, lane: Lane, /
    ) -> bytes | None:
        """The whole answer, if memory alone has it: bearer token and correlation header are given as they were sent.

        None if anything else is needed; then nothing has been done, and the request is asked for in full.
        """


class PollPost(NamedTuple):
    """A request line `<line> HTTP/1.1`, and who answers it. The correlation header differs from request to request."""

    line: bytes
    correlation: bytes
    handler: PollPostHandler
