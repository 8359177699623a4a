"""A uvicorn server that listens with TLS, and reopens its listeners when the TLS files have changed.

A reload opens new listeners on the same sockets before it closes the old ones, so no connection is refused in between.
A new connection cannot use anything that depends on a removed authority, such as a session to resume. Open connections
stay open, except those with a client certificate that is revoked now.
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

from restante.server.http.http_listener import AdoptingProtocol, HttpListener
from restante.server.http.tls.files import TlsFiles, TlsFilesError

log = structlog.get_logger()


class ListeningServer(uvicorn.Server):
    """uvicorn's server, with TLS if there are files for it."""

    def __init__(self, config: uvicorn.Config, files: TlsFiles | None, handshake_seconds: float) -> None:
        super().__init__(config)
        self._files = files
        self._handshake_seconds = handshake_seconds
        self._sockets: list[socket.socket] = []
        self.reloads = 0
        self.was_stopped_by_signal = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if sockets is None or (self._files is None and self._shared is None):
            await super().startup(sockets)
        else:
            context = None if self._files is None else self._files.context()
            await super().startup([])
            self._sockets = sockets
            await self._listen(context)
        if threading.current_thread() is threading.main_thread():
            # Without TLS, too: unhandled, SIGHUP would end the process.
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._start_reload)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Like uvicorn's, but it does not raise the signal again at the end: a requested stop is a success."""
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
        self.was_stopped_by_signal = True
        super().handle_exit(sig, frame)

    async def reload(self) -> bool:
        """Read the files again. Return False and change nothing if they are unusable."""
        if self._files is None:
            log.info("SIGHUP received: without TLS there are no files to reload")
            return False
        try:
            context = self._files.context()
        except TlsFilesError as error:
            log.error("TLS files not reloaded", error=str(error))
            return False
        await self._listen(context)
        self._close_revoked(self._files)
        self.reloads += 1
        log.info("TLS files reloaded", certificate=str(self._files.certificate))
        return True

    def _close_revoked(self, files: TlsFiles) -> None:
        """Close open connections whose client certificate is revoked now."""
        if files.client_crl is None:
            return
        for connection in list(self.server_state.connections):
            tls = connection.transport.get_extra_info("ssl_object")
            der = tls.getpeercert(True) if tls is not None else None
            if der is not None and files.is_revoked(der):
                log.warning("connection closed: its client certificate is revoked")
                connection.transport.close()

    def _start_reload(self) -> None:
        self._reloading = asyncio.ensure_future(self.reload())

    @property
    def _shared(self) -> Any:
        """What the connections of the fast lane share; None with another protocol."""
        return getattr(self.config.http_protocol_class, "shared", None)

    async def _listen(self, context: ssl.SSLContext | None) -> None:
        loop = asyncio.get_running_loop()
        old_servers = self.servers
        listeners: list[Any] = []
        for sock in self._sockets:
            sock.listen(self.config.backlog)
            self._protocol()  # sets what all connections share
            # A duplicate, because a listener closes its socket.
            listener = HttpListener(loop, sock.dup(), self._protocol, self._shared, context, self._handshake_seconds)
            listeners.append(listener)
            self._shared.waiting = listener
        self.servers = listeners
        for server in old_servers:
            server.close()

    def _protocol(self) -> AdoptingProtocol:
        protocol: AdoptingProtocol = self.protocol_of(self.config.http_protocol_class)
        return protocol

    def protocol_of(self, protocol_class: Any) -> Any:
        """A protocol of this class for one connection to this server."""
        return protocol_class(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state, _loop=None
        )
