"""A server that listens with TLS, and listens anew when its files have changed.

Reading the files again means new listening servers on the same sockets, before the old ones close: nobody is refused
in between, and nothing that a removed authority vouched for (a session to resume, say) outlives it on a new connection.
Connections that are open stay as they are.
"""

import asyncio
import signal
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import structlog
import uvicorn

from restante.server.tls import TlsFiles, TlsFilesError

log = structlog.get_logger()


class ListeningServer(uvicorn.Server):
    """uvicorn's, with TLS where there are files for it. A handshake has as long as a request's headers."""

    def __init__(self, config: uvicorn.Config, files: TlsFiles | None = None, handshake_seconds: float = 10.0) -> None:
        super().__init__(config)
        self._files = files
        self._handshake_seconds = handshake_seconds
        self._sockets: list[socket.socket] = []
        self.renewals = 0
        self.is_told_to_stop = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self._files is None or sockets is None:
            await super().startup(sockets)
            return
        context = self._files.context()
        await super().startup([])
        self._sockets = sockets
        await self._listen(context)
        if threading.current_thread() is threading.main_thread():
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._renew_soon)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn does, without raising the signal again at the end: a stop that was asked for is a success."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        handled = (signal.SIGINT, signal.SIGTERM)
        original = {number: signal.signal(number, self.handle_exit) for number in handled}
        try:
            yield
        finally:
            for number, handler in original.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.is_told_to_stop = True
        super().handle_exit(sig, frame)

    async def renew(self) -> bool:
        """Read the files again; False, and everything as it was, if they cannot be used."""
        if self._files is None:
            return False
        try:
            context = self._files.context()
        except TlsFilesError as error:
            log.error("TLS files not renewed", error=str(error))
            return False
        await self._listen(context)
        self.renewals += 1
        log.info("TLS files renewed", certificate=str(self._files.certificate))
        return True

    def _renew_soon(self) -> None:
        self._renewing = asyncio.ensure_future(self.renew())

    async def _listen(self, context: ssl.SSLContext) -> None:
        loop = asyncio.get_running_loop()
        before = self.servers
        self.servers = [
            await loop.create_server(
                self._protocol,
                # A copy, as closing a server closes its socket.
                sock=each.dup(),
                ssl=context,
                backlog=self.config.backlog,
                ssl_handshake_timeout=self._handshake_seconds,
            )
            for each in self._sockets
        ]
        for server in before:
            server.close()

    def _protocol(self) -> asyncio.Protocol:
        make: Any = self.config.http_protocol_class
        made: asyncio.Protocol = make(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state, _loop=None
        )
        return made
