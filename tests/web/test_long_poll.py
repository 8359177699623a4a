import asyncio
from collections.abc import Callable
from typing import Any

from starlette.requests import Request

from restante.web.long_poll import long_poll
from restante.web.response import ApiResponse

SOON = 10.0


class Owner:
    """Keeps the replies of parked polls, and which polls were disconnected."""

    def __init__(self) -> None:
        self.replies: list[Callable[[ApiResponse], None]] = []
        self.disconnected: list[Any] = []

    def start(self, reply: Callable[[ApiResponse], None]) -> int:
        self.replies.append(reply)
        return len(self.replies)

    def expire(self, parked: int, /) -> None:
        self.replies[parked - 1](ApiResponse(204))

    def disconnect(self, parked: int, /) -> None:
        self.disconnected.append(parked)


def unchanged(response: ApiResponse) -> ApiResponse:
    return response


def request_of(is_gone: asyncio.Event) -> Request:
    """A request whose client disconnects when the event is set."""
    messages = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop()
        await is_gone.wait()
        return {"type": "http.disconnect"}

    return Request({"type": "http", "method": "GET", "path": "/", "headers": []}, receive)


async def test_immediate_reply_is_returned() -> None:
    owner = Owner()

    def start(reply: Callable[[ApiResponse], None]) -> int:
        reply(ApiResponse(200, (), b"now"))
        return 1

    assert await asyncio.wait_for(
        long_poll(request_of(asyncio.Event()), owner, start, 0, unchanged), SOON
    ) == ApiResponse(200, (), b"now")


async def test_wait_ends_with_the_reply() -> None:
    owner = Owner()
    waiting = asyncio.create_task(long_poll(request_of(asyncio.Event()), owner, owner.start, 30, unchanged))
    while not owner.replies:
        await asyncio.sleep(0)
    owner.replies[0](ApiResponse(200, (), b"result"))
    assert (await asyncio.wait_for(waiting, SOON)).body == b"result"
    assert owner.disconnected == [1]


async def test_poll_expires_after_the_wait_time() -> None:
    owner = Owner()
    # A part of a second, so that the test need not wait for a whole one.
    waited = long_poll(request_of(asyncio.Event()), owner, owner.start, 0.01, unchanged)
    assert (await asyncio.wait_for(waited, SOON)).status == 204


async def test_poll_of_a_disconnected_client_is_ended() -> None:
    owner, is_gone = Owner(), asyncio.Event()
    waiting = asyncio.create_task(long_poll(request_of(is_gone), owner, owner.start, 30, unchanged))
    while not owner.replies:
        await asyncio.sleep(0)
    is_gone.set()
    await asyncio.wait_for(waiting, SOON)
    assert owner.disconnected == [1]
