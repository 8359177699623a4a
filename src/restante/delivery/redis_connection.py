"""One connection to Redis, shared by everybody in the event loop: what is asked together travels together.

Requests go out as they come, replies come back in order, and between them what Redis says unasked (RESP3 push), such
as which keys were changed by others. hiredis reads and writes the protocol.

Must always hold: replies belong to requests by order alone, so a connection on which one was given up is closed.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, cast

import hiredis

from restante.delivery.redis_tls import why_not_trusted

CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 2.0

Command = tuple[bytes | str | int, ...]
OnPush = Callable[[list[Any]], None]

_NOTHING = object()
_packed: Callable[[Any], bytes] = hiredis.pack_command


class RedisAway(Exception):
    """Redis cannot be reached, or does not answer in time."""


class RedisRefused(Exception):
    """Redis answered with an error."""


class _Asked:
    __slots__ = ("future", "missing", "replies")

    def __init__(self, count: int, future: "asyncio.Future[list[Any]]") -> None:
        self.missing = count
        self.replies: list[Any] = []
        self.future = future


class RedisConnection(asyncio.Protocol):
    def __init__(self, on_push: OnPush, on_lost: Callable[[], None]) -> None:
        self._on_push = on_push
        self._on_lost = on_lost
        self._reader = hiredis.Reader(replyError=RedisRefused, notEnoughData=_NOTHING)
        self._asked: deque[_Asked] = deque()
        self._transport: asyncio.Transport | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    async def ask(self, commands: Sequence[Command], within_seconds: float = ANSWER_SECONDS) -> list[Any]:
        """Their replies, in order; a reply may be a RedisRefused. RedisAway if they do not all come in time."""
        if self._transport is None:
            raise RedisAway("not connected")
        if not commands:
            return []
        future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._asked.append(_Asked(len(commands), future))
        self._transport.write(b"".join(map(_packed, commands)))
        try:
            async with asyncio.timeout(within_seconds):
                return await future
        except TimeoutError:
            self.close()
            raise RedisAway("no answer in time") from None
        except asyncio.CancelledError:
            self.close()
            raise

    async def ask_one(self, *command: bytes | str | int) -> Any:
        """The reply, or RedisRefused."""
        (reply,) = await self.ask([command])
        if isinstance(reply, RedisRefused):
            raise reply
        return reply

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
            self._end("closed")

    # What follows is called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        try:
            while (reply := self._reader.gets()) is not _NOTHING:
                if isinstance(reply, hiredis.PushNotification):
                    self._on_push(reply)
                else:
                    self._take(reply)
        except hiredis.HiredisError:
            self.close()

    def connection_lost(self, _exc: Exception | None) -> None:
        self._end("the connection was lost")

    def _take(self, reply: Any) -> None:
        if not self._asked:
            self.close()
            return
        asked = self._asked[0]
        asked.replies.append(reply)
        asked.missing -= 1
        if not asked.missing:
            self._asked.popleft()
            if not asked.future.done():
                asked.future.set_result(asked.replies)

    def _end(self, why: str) -> None:
        if self._transport is None:
            return
        self._transport = None
        for asked in self._asked:
            if not asked.future.done():
                asked.future.set_exception(RedisAway(why))
        self._asked.clear()
        self._on_lost()


async def connect(
    host: str,
    port: int,
    on_push: OnPush = lambda _push: None,
    on_lost: Callable[[], None] = lambda: None,
    *,
    username: str = "",
    password: str = "",
    database: int = 0,
    tls: ssl.SSLContext | None = None,
) -> RedisConnection:
    """A connection that speaks RESP3 and is let in; RedisAway or RedisRefused."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, connection = await loop.create_connection(
                lambda: RedisConnection(on_push, on_lost), host, port, ssl=tls, server_hostname=host if tls else None
            )
    except ssl.SSLCertVerificationError as error:
        raise RedisAway(f"{host}:{port}: {why_not_trusted(error)}") from error
    except (OSError, TimeoutError) as error:
        raise RedisAway(f"{host}:{port}: {error or 'no answer in time'}") from error
    try:
        proof: Command = ("AUTH", username or "default", password) if password else ()
        await connection.ask_one("HELLO", 3, *proof, "SETNAME", "restante")
        if database:
            await connection.ask_one("SELECT", database)
    except BaseException:
        connection.close()
        raise
    return connection
