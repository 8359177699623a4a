import asyncio
from collections.abc import Callable
from typing import Any

from starlette.requests import Request

from restante.web.answer import Answer
from restante.web.long_poll import long_poll

SOON = 10.0


class Owner:
    """Keeps what is parked, and what became of it."""

    def __init__(self) -> None:
        self.replies: list[Callable[[Answer], None]] = []
        self.abandoned: list[Any] = []

    def start(self, reply: Callable[[Answer], None]) -> int:
        self.replies.append(reply)
        return len(self.replies)

    def expire(self, parked: int, /) -> None:
        self.replies[parked - 1](Answer(204))

    def abandon(self, parked: int, /) -> None:
        self.abandoned.append(parked)


def request_of(gone: asyncio.Event) -> Request:
    """A request whose client goes when the event is set."""
    messages = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    return Request({"type": "http", "method": "GET", "path": "/", "headers": []}, receive)


async def test_an_answer_that_is_there_at_once_is_given_at_once() -> None:
    owner = Owner()

    def start(reply: Callable[[Answer], None]) -> int:
        reply(Answer(200, (), b"now"))
        return 1

    assert await asyncio.wait_for(long_poll(request_of(asyncio.Event()), owner, start, 0), SOON) == Answer(
        200, (), b"now"
    )


async def test_a_wait_ends_with_the_answer() -> None:
    owner = Owner()
    waiting = asyncio.create_task(long_poll(request_of(asyncio.Event()), owner, owner.start, 30))
    while not owner.replies:
        await asyncio.sleep(0)
    owner.replies[0](Answer(200, (), b"news"))
    assert (await asyncio.wait_for(waiting, SOON)).body == b"news"
    assert owner.abandoned == [1]


async def test_a_wait_that_is_over_is_expired() -> None:
    owner = Owner()
    # A part of a second, so that the test need not wait for a whole one.
    waited = long_poll(request_of(asyncio.Event()), owner, owner.start, 0.01)
    assert (await asyncio.wait_for(waited, SOON)).status == 204


async def test_a_client_that_goes_is_abandoned() -> None:
    owner, gone = Owner(), asyncio.Event()
    waiting = asyncio.create_task(long_poll(request_of(gone), owner, owner.start, 30))
    while not owner.replies:
        await asyncio.sleep(0)
    gone.set()
    await asyncio.wait_for(waiting, SOON)
    assert owner.abandoned == [1]
