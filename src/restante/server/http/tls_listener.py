"""Accepts connections for TLS, and counts each one before its handshake.

    accepted ─▶ counted: admitted or refused ─▶ handshake ─▶ the protocol, as without TLS
                    └ far too many ─▶ closed

The event loop's own listener tells a protocol of its connection only after the handshake. A client that never finishes
one would hold connections that nobody counts.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import cast

from restante.server.http.connection_limits import Verdict
from restante.server.http.listener import CountedProtocol, Listener

SHUTDOWN_SECONDS = 5.0


class TlsListener(Listener[CountedProtocol]):
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        context: ssl.SSLContext,
        make_protocol: Callable[[], CountedProtocol],
        handshake_seconds: float,
    ) -> None:
        self._context = context
        self._handshake_seconds = handshake_seconds
        super().__init__(loop, sock, make_protocol)

    def _start(self, connection: socket.socket, address: str) -> None:
        protocol = self._make_protocol()
        if protocol.enter(address, connection.fileno()) is Verdict.told_now:
            # Telling it would take a handshake.
            protocol.leave()
            connection.close()
            return
        self._run(self._shake_hands(connection, protocol))

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
