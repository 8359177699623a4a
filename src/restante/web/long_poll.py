"""A poll that may wait, asked for by the application: what the fast lane does with a connection, done with a task."""

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.requests import Request

from restante.web.answer import Answer
from restante.web.hot import Waits


async def long_poll(
    request: Request, owner: Waits, start: Callable[[Callable[[Answer], None]], Any], wait_seconds: float
) -> Answer:
    """The answer that `start` leads to. Its wait is expired when the time is over, abandoned when the client goes."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[Answer] = loop.create_future()
    parked = start(answered.set_result)
    timer = loop.call_later(wait_seconds, owner.expire, parked) if wait_seconds else None
    hang_up = asyncio.ensure_future(_hang_up(request))
    try:
        either: list[asyncio.Future[Any]] = [answered, hang_up]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        # Whoever has hung up is sent nothing, whatever is returned.
        return answered.result() if answered.done() else Answer(204)
    finally:
        owner.abandon(parked)
        hang_up.cancel()
        if timer is not None:
            timer.cancel()


async def _hang_up(request: Request) -> None:
    message: Any = {}
    while message.get("type") != "http.disconnect":
        message = await request.receive()
