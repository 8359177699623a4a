"""The service that one would write by hand: FastAPI in front of Redis, with Restante's paths for polls and commands.

    GET  /apiv1/devices/self/updates[?wait=]           204, or the signals after the cursor in If-None-Match
    POST /apiv1/users/1/devices/{device_id}/signals    202
    GET  /api/edge/v1/commands/poll?limit=1            the next command of the caller's site, leased
    POST /api/edge/v1/commands/{command_id}/ack        200

What makes it fast: uvloop and httptools, the asyncio client of Redis with hiredis and pooled connections, verified
tokens cached in the process, responses written without models. What it lacks: signatures, attempts, rate limits, an
audit trail, trimming with a cursor check, operators, several processes that share waiting polls.

Redis: `token:<token>` is the device or site of a token, `tail:<device>` its newest position, `log:<device>` and
`queue:<site>` are streams; `queue:` has the consumer group `collectors`.
"""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from redis.asyncio import BlockingConnectionPool, Redis

TOKEN_SECONDS = 60.0
encode = json.JSONEncoder(separators=(",", ":")).encode
HEADERS = {"cache-control": "no-store", "x-poll-interval": "297"}

# More connections than are busy at a time; requests beyond that wait for one.
pool = BlockingConnectionPool.from_url(os.environ["REDIS_URL"], max_connections=64, timeout=30, decode_responses=True)
redis: Any = Redis(connection_pool=pool)
tokens: dict[str, tuple[str, float]] = {}
waiting: dict[str, list["asyncio.Future[None]"]] = {}


async def caller(request: Request) -> str | None:
    token = request.headers.get("authorization", "")[7:]
    known = tokens.get(token)
    if known is not None and known[1] > time.monotonic():
        return known[0]
    owner: str | None = await redis.get("token:" + token)
    if owner is not None:
        tokens[token] = (owner, time.monotonic() + TOKEN_SECONDS)
    return owner


async def updates(request: Request, wait: float = 0.0, limit: int = 20) -> Response:
    device = await caller(request)
    if device is None:
        return Response(status_code=401)
    cursor = request.headers.get("if-none-match", "0-0").strip('"')
    if await tail_of(device) == cursor and not (wait and await woken(device, cursor, wait)):
        return Response(status_code=204, headers={"etag": cursor, **HEADERS})
    entries = await redis.xrange("log:" + device, "(" + cursor, "+", count=limit)
    cursor = entries[-1][0] if entries else cursor
    signals = [json.loads(fields["signal"]) for _, fields in entries]
    body = encode({"data": {"cursor": cursor, "signals": signals}})
    return Response(body, headers={"etag": cursor, **HEADERS}, media_type="application/json")


async def tail_of(device: str) -> str:
    return await redis.get("tail:" + device) or "0-0"


async def woken(device: str, cursor: str, seconds: float) -> bool:
    """Wait for a signal; whether one came."""
    future = asyncio.get_running_loop().create_future()
    waiting.setdefault(device, []).append(future)
    try:
        # A signal may have come before this poll was in the list.
        if await tail_of(device) != cursor:
            return True
        await asyncio.wait_for(future, seconds)
        return True
    except TimeoutError:
        return False
    finally:
        waiting[device].remove(future)
        if not waiting[device]:
            del waiting[device]


async def send(request: Request, device_id: str) -> Response:
    if await caller(request) != "operator":
        return Response(status_code=401)
    signal = {**await request.json(), "ts_ms": int(time.time() * 1000)}
    position = await redis.xadd("log:" + device_id, {"signal": encode(signal)}, maxlen=1000, approximate=True)
    async with redis.pipeline(transaction=True) as pipeline:
        await pipeline.set("tail:" + device_id, position).publish("signals", device_id).execute()
    return Response(encode({"data": {"device_id": device_id}}), 202, media_type="application/json")


async def poll_commands(request: Request) -> Response:
    site = await caller(request)
    if site is None:
        return Response(status_code=401)
    found = await redis.xreadgroup("collectors", site, {"queue:" + site: ">"}, count=1)
    commands = []
    for _stream, entries in found:
        for command_id, fields in entries:
            commands.append({"command_id": command_id, **json.loads(fields["command"]), "nonce": command_id})
    return Response(encode({"commands": commands}), media_type="application/json", headers=HEADERS)


async def acknowledge(request: Request, command_id: str) -> Response:
    site = await caller(request)
    await request.json()
    if site is None or not await redis.xack("queue:" + site, "collectors", command_id):
        return Response(status_code=404)
    return Response('{"status":"succeeded"}', media_type="application/json")


async def wake() -> None:
    async with redis.pubsub() as channel:
        await channel.subscribe("signals")
        async for message in channel.listen():
            if message["type"] == "message":
                for future in waiting.get(message["data"], ()):
                    if not future.done():
                        future.set_result(None)


@asynccontextmanager
async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
    task = asyncio.create_task(wake())
    yield
    task.cancel()


app = FastAPI(openapi_url=None, lifespan=lifespan)
app.add_api_route("/apiv1/devices/self/updates", updates, methods=["GET"])
app.add_api_route("/apiv1/users/1/devices/{device_id}/signals", send, methods=["POST"])
app.add_api_route("/api/edge/v1/commands/poll", poll_commands, methods=["GET"])
app.add_api_route("/api/edge/v1/commands/{command_id}/ack", acknowledge, methods=["POST"])
