"""The transport of a connection with TLS: what a protocol writes is encrypted, what it receives was decrypted.

    protocol ◀──▶ TlsTransport: TlsSession ◀──▶ the event loop's transport for the socket

A request that arrives in one read is decrypted, answered, encrypted and written within one callback. The event loop's
own TLS would copy the bytes once more, and allocate a quarter of a MiB for each connection.

Invariant: the protocol learns of its connection after the handshake, and of its end once.
"""

import asyncio
from typing import Any

from restante.server.http.listener import CountedProtocol
from restante.server.http.tls.session import TlsSession

# After the last response, for the client to end the connection. Until then its bytes are dropped: unread, they would
# make the kernel discard the response.
SHUTDOWN_SECONDS = 2.0


class TlsTransport(asyncio.Transport, asyncio.Protocol):
    __slots__ = (
        "_handshake_seconds",
        "_is_closing",
        "_is_made",
        "_is_paused",
        "_loop",
        "_protocol",
        "_raw",
        "_session",
        "_timer",
        "_unsent",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        session: TlsSession,
        protocol: CountedProtocol,
        handshake_seconds: float,
        unsent: bytes = b"",
    ) -> None:
        """The session may have begun or finished its handshake; `unsent` is to be sent before all else."""
        self._loop = loop
        self._session = session
        self._protocol: Any = protocol
        self._handshake_seconds = handshake_seconds
        self._unsent = unsent
        self._raw: Any = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_made = self._is_paused = self._is_closing = False

    # Callbacks of the socket's transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = transport
        if self._unsent:
            self._raw.write(self._unsent)
            self._unsent = b""
        if self._session.is_established:
            self._begin()
        else:
            self._timer = self._loop.call_later(self._handshake_seconds, self.abort)
        self._deliver()

    def data_received(self, data: bytes) -> None:
        if not self._is_closing:
            self._session.feed(data)
            self._deliver()

    def eof_received(self) -> None:
        """The client has closed its side: the socket's transport closes."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        if self._timer is not None:
            self._timer.cancel()
        if self._is_made:
            self._protocol.connection_lost(exc)
        else:
            self._protocol.leave()

    def pause_writing(self) -> None:
        if self._is_made:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        if self._is_made:
            self._protocol.resume_writing()

    def _begin(self) -> None:
        """The handshake is complete."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._is_made = True
        self._protocol.connection_made(self)

    def _deliver(self) -> None:
        """Give the protocol all that has arrived, unless it has paused reading."""
        session = self._session
        while not (self._is_paused or self._is_closing):
            data = session.read()
            if session.is_established and not self._is_made:
                self._begin()
            if data is None:
                break
            if not data:
                self.close()
                self._raw.close()  # the client sends nothing more
                return
            self._protocol.data_received(data)
            if not session.has_unread:
                break
        if session.has_unsent and not self._is_closing:
            self._raw.write(session.take())

    # The transport of the protocol.

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._is_closing:
            self._session.write(bytes(data))
            self._raw.write(self._session.take())

    def close(self) -> None:
        if not self.is_closing():
            self._is_closing = True
            self._session.close()
            self._raw.write(self._session.take())
            self._raw.write_eof()
            # A protocol that has paused reading does not resume after its end.
            self._raw.resume_reading()
            self._await_end()

    def _await_end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(SHUTDOWN_SECONDS, self._end)

    def _end(self) -> None:
        """Close the socket, unless it is still sending what the client reads slowly. Protocols bound that time."""
        if self._raw.get_write_buffer_size():
            self._await_end()
        else:
            self._raw.close()

    def abort(self) -> None:
        self._is_closing = True
        self._raw.abort()

    def is_closing(self) -> bool:
        return self._is_closing or self._raw.is_closing()

    def pause_reading(self) -> None:
        if not self._is_paused and not self.is_closing():
            self._is_paused = True
            self._raw.pause_reading()

    def resume_reading(self) -> None:
        if self._is_paused:
            self._is_paused = False
            if not self.is_closing():
                self._raw.resume_reading()
                # Not from within the protocol's call.
                self._loop.call_soon(self._deliver)

    def is_reading(self) -> bool:
        return not self._is_paused and not self.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "ssl_object":
            return self._session.tls
        if name == "sslcontext":
            return self._session.context
        return self._raw.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        size: int = self._raw.get_write_buffer_size()
        return size

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._raw.set_write_buffer_limits(high, low)

    def can_write_eof(self) -> bool:
        return False
