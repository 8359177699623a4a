"""One pipelined connection to Redis, shared by all callers in the event loop.

Commands are sent as they come; replies arrive in the same order. Between them Redis sends push messages (RESP3), such
as the keys that others have changed. hiredis encodes and decodes the protocol.

Invariant: only the order assigns replies to commands. When a caller stops waiting for its replies, the connection is
therefore closed.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, cast

import hiredis

from restante.delivery.redis.redis_tls import untrusted_reason

CONNECT_SECONDS = 3.0
REPLY_SECONDS = 2.0

Command = tuple[bytes | str | int, ...]
OnPush = Callable[[list[Any]], None]

_INCOMPLETE = object()
_pack: Callable[[Any], bytes] = hiredis.pack_command


class RedisUnavailable(Exception):
    """Redis cannot be reached, or does not reply in time."""


class RedisCommandError(Exception):
    """Redis replied with an error."""


class _PendingReplies:
    __slots__ = ("future", "missing", "replies")

    def __init__(self, count: int, future: "asyncio.Future[list[Any]]") -> None:
        self.missing = count
        self.replies: list[Any] = []
        self.future = future


class RedisConnection(asyncio.Protocol):
    def __init__(self, on_push: OnPush, on_lost: Callable[[], None]) -> None:
        self._on_push = on_push
        self._on_lost = on_lost
        self._reader = hiredis.Reader(replyError=RedisCommandError, notEnoughData=_INCOMPLETE)
        self._pending: deque[_PendingReplies] = deque()
        self._transport: asyncio.Transport | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    async def execute(self, commands: Sequence[Command], timeout_seconds: float = REPLY_SECONDS) -> list[Any]:
        """Return the replies in order; each may be a RedisCommandError. RedisUnavailable if one is missing in time."""
        if self._transport is None:
            raise RedisUnavailable("not connected")
        if not commands:
            return []
        future: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._pending.append(_PendingReplies(len(commands), future))
        self._transport.write(b"".join(map(_pack, commands)))
        try:
            async with asyncio.timeout(timeout_seconds):
                return await future
        except TimeoutError:
            self.close()
            raise RedisUnavailable("no reply in time") from None
        except asyncio.CancelledError:
            self.close()
            raise

    async def execute_one(self, *command: bytes | str | int) -> Any:
        """Return the reply; raise it if it is a RedisCommandError."""
        (reply,) = await self.execute([command])
        if isinstance(reply, RedisCommandError):
            raise reply
        return reply

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
            self._end("closed")

    # asyncio.Protocol: called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        try:
            while (reply := self._reader.gets()) is not _INCOMPLETE:
                if isinstance(reply, hiredis.PushNotification):
                    self._on_push(reply)
                else:
                    self._receive(reply)
        except hiredis.HiredisError:
            self.close()

    def connection_lost(self, _exc: Exception | None) -> None:
        self._end("the connection was lost")

    def _receive(self, reply: Any) -> None:
        if not self._pending:
            self.close()
            return
        pending = self._pending[0]
        pending.replies.append(reply)
        pending.missing -= 1
        if not pending.missing:
            self._pending.popleft()
            if not pending.future.done():
                pending.future.set_result(pending.replies)

    def _end(self, reason: str) -> None:
        if self._transport is None:
            return
        self._transport = None
        for pending in self._pending:
            if not pending.future.done():
                pending.future.set_exception(RedisUnavailable(reason))
        self._pending.clear()
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
    """Connect with RESP3 and authenticate. Raises RedisUnavailable or RedisCommandError."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _, connection = await loop.create_connection(
                lambda: RedisConnection(on_push, on_lost), host, port, ssl=tls, server_hostname=host if tls else None
            )
    except ssl.SSLCertVerificationError as error:
        raise RedisUnavailable(f"{host}:{port}: {untrusted_reason(error)}") from error
    except (OSError, TimeoutError) as error:
        raise RedisUnavailable(f"{host}:{port}: {error or 'no reply in time'}") from error
    try:
        credentials: Command = ("AUTH", username or "default", password) if password else ()
        await connection.execute_one("HELLO", 3, *credentials, "SETNAME", "restante")
        if database:
            await connection.execute_one("SELECT", database)
    except BaseException:
        connection.close()
        raise
    return connection
