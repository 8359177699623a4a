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

    def send_idle(self, tail: bytes, /) -> None:
        """Send a 204 whose headers, after the date, are given as they go over the wire."""

    def wait(self, owner: Waits, parked: Any, seconds: float, /) -> None:
        """Have `owner.expire(parked)` called after that time, or `owner.abandon(parked)` if the client hangs up."""


class HotHandler(Protocol):
    def __call__(self, query: bytes, headers: dict[bytes, bytes], lane: Lane, /) -> bool: ...


class HotPostHandler(Protocol):
    """For a POST with a JSON body; `name` is the part of its path that varies."""

    def __call__(self, name: bytes, body: bytes, headers: dict[bytes, bytes], lane: Lane, /) -> bool: ...


class HotPost(NamedTuple):
    """A request line `<before_name><name><behind_name> HTTP/1.1`, and who answers it."""

    before_name: bytes
    behind_name: bytes
    handler: HotPostHandler
