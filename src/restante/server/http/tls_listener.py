"""Accepts connections for TLS, and counts each one before its handshake.

    readable ─▶ accept ─▶ counted: admitted or refused ─▶ handshake ─▶ the protocol, as without TLS
                   │           └ far too many ─▶ closed
                   └ no descriptor left ─▶ the spare one is closed, so that the connection can be accepted and closed

The event loop's own listener tells a protocol of its connection only after the handshake. A client that never finishes
one would hold connections that nobody counts. Connections without TLS use the event loop's listener, which is faster.
"""

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, cast

import structlog

from restante.server.http.connection_limits import Verdict

log = structlog.get_logger()

ACCEPTED_AT_ONCE = 64
SHUTDOWN_SECONDS = 5.0
# After a failure for want of descriptors or memory, to leave the event loop time for other work.
PAUSE_SECONDS = 0.1
_OUT_OF_DESCRIPTORS = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class CountedProtocol(Protocol):
    """A protocol whose connection is counted before it is made."""

    def enter(self, address: str, descriptor: int) -> Verdict: ...
    def leave(self) -> None: ...
    def count_unaccepted(self) -> None: ...


class TlsListener:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        context: ssl.SSLContext,
        make_protocol: Callable[[], CountedProtocol],
        handshake_seconds: float,
    ) -> None:
        self._loop = loop
        self._socket = sock
        self._context = context
        self._make_protocol = make_protocol
        self._handshake_seconds = handshake_seconds
        self._handshakes: set[asyncio.Task[None]] = set()
        self._spare: int | None = None
        self._is_closed = False
        sock.setblocking(False)
        self._open_spare()
        loop.add_reader(sock.fileno(), self._accept_ready)

    def close(self) -> None:
        """Accept no more. Handshakes that have begun go on."""
        if not self._is_closed:
            self._is_closed = True
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._close_spare()

    async def wait_closed(self) -> None:
        for handshake in list(self._handshakes):
            handshake.cancel()

    def _accept_ready(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                connection, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_DESCRIPTORS:
                    raise
                self._close_one_unanswered()
                return
            self._start(connection, address[0])

    def _start(self, connection: socket.socket, address: str) -> None:
        protocol = self._make_protocol()
        if protocol.enter(address, connection.fileno()) is Verdict.told_now:
            # Telling it would take a handshake.
            protocol.leave()
            connection.close()
            return
        task = self._loop.create_task(self._shake_hands(connection, protocol))
        self._handshakes.add(task)
        task.add_done_callback(self._handshakes.discard)

    async def _shake_hands(self, connection: socket.socket, protocol: CountedProtocol) -> None:
        is_made = False
        try:
            await self._loop.connect_accepted_socket(
                lambda: cast(asyncio.Protocol, protocol),
                connection,
                ssl=self._context,
                ssl_handshake_timeout=self._handshake_seconds,
                ssl_shutdown_timeout=SHUTDOWN_SECONDS,
            )
            is_made = True
        except (OSError, EOFError):
            # The client gave up, was too slow, or failed; the last is logged by the handshake.
            pass
        finally:
            if not is_made:
                protocol.leave()

    def _close_one_unanswered(self) -> None:
        self._make_protocol().count_unaccepted()
        self._close_spare()
        with suppress(OSError):
            self._socket.accept()[0].close()
        self._open_spare()
        self._loop.remove_reader(self._socket.fileno())
        self._loop.call_later(PAUSE_SECONDS, self._resume)

    def _resume(self) -> None:
        if not self._is_closed:
            self._loop.add_reader(self._socket.fileno(), self._accept_ready)

    def _open_spare(self) -> None:
        with suppress(OSError):
            self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def _close_spare(self) -> None:
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None
