"""A poll that may wait, served by the application with a task, as the fast lane serves it with a connection."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from starlette.requests import Request

from restante.web.fast_lane_api import WaitOwner
from restante.web.response import ApiResponse

Result = TypeVar("Result")


async def long_poll(
    request: Request,
    owner: WaitOwner,
    start: Callable[[Callable[[Result], None]], Any],
    wait_seconds: float,
    to_response: Callable[[Result], ApiResponse],
) -> ApiResponse:
    """The response to a poll that `start` begins. The poll expires after the wait time, and ends if the client
    disconnects."""
    loop = asyncio.get_running_loop()
    replied: asyncio.Future[Result] = loop.create_future()
    parked = start(replied.set_result)
    timer = loop.call_later(wait_seconds, owner.expire, parked) if wait_seconds else None
    disconnected = asyncio.ensure_future(_disconnected(request))
    try:
        either: list[asyncio.Future[Any]] = [replied, disconnected]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        # A client that has disconnected is sent nothing, whatever is returned.
        return to_response(replied.result()) if replied.done() else ApiResponse(204)
    finally:
        owner.disconnect(parked)
        disconnected.cancel()
        if timer is not None:
            timer.cancel()


async def _disconnected(request: Request) -> None:
    message: Any = {}
    while message.get("type") != "http.disconnect":
        message = await request.receive()
