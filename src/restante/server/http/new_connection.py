"""A connection that has no transport and no protocol yet: its socket, its TLS state, and its first request.

    receive ─▶ request ─▶ response in memory ─────────────▶ respond: sent and closed, or handed over
                    └──▶ a fast handler that reads first ─▶ send, later
                                                    └─────▶ pass_on: handed over with the request

A device that opens a connection for each poll costs as few system calls as possible: accept, read, write, close.

Invariant: a connection ends once, by `end` or by being handed over. Bytes that were read reach the protocol before all
others, or are answered, never both.
"""

import socket
from contextlib import suppress
from typing import Any, Protocol

from restante.server.http.bounded_protocol import response_bytes
from restante.server.http.connection_limits import AddressKey, ConnectionLimits, Verdict
from restante.server.http.listener import PlainSocket
from restante.server.http.request_templates import FastResponse, closing
from restante.server.http.tls.session import TlsSession
from restante.web.client_cert import ClientCertificates
from restante.web.fast_lane_api import WaitOwner
from restante.web.response import ApiResponse

READ_BYTES = 65_536
UNWATCHED = -1
_SEND_FLAGS = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
# With the response held back until the end of the connection, both are one packet.
_SEND_LAST_FLAGS = _SEND_FLAGS | socket.MSG_MORE


class AnswersAtOnce(Protocol):
    """What the connections of a server share."""

    fast_requests: int
    is_closing: bool
    client_certificates: ClientCertificates

    @property
    def limits(self) -> ConnectionLimits: ...

    def respond_at_once(self, data: bytes, connection: "NewConnection") -> FastResponse | None:
        """The response to the first bytes of a connection, if memory has it and they are all of a request. It counts as
        sent."""

    def start_at_once(self, data: bytes, connection: "NewConnection") -> bool:
        """Have a fast handler respond to the first bytes of a connection, now or later; False: it does not."""

    def refuse_at_once(self) -> bytes:
        """The response to a connection that is refused."""

    def is_served_though_refused(self, data: bytes) -> bool:
        """Whether the request is served on a connection that is refused."""

    def current_date_line(self) -> bytes: ...


class HandsOver(Protocol):
    """The listener of a new connection."""

    def hand_over(self, connection: "NewConnection", data: bytes = b"", response: bytes = b"") -> None: ...
    def forget(self, connection: "NewConnection") -> None: ...


class NewConnection:
    __slots__ = (
        "_listener",
        "_request",
        "_shared",
        "address",
        "closes",
        "is_deferred",
        "is_over",
        "key",
        "socket",
        "tls",
        "unsent",
        "until",
        "verdict",
        "watched_descriptor",
    )

    def __init__(
        self,
        listener: HandsOver,
        shared: AnswersAtOnce,
        sock: PlainSocket,
        address: str,
        key: AddressKey | None,
        verdict: Verdict,
        tls: TlsSession | None,
    ) -> None:
        self._listener = listener
        self._shared = shared
        self.socket = sock
        self.address = address
        self.key = key  # under which it is counted
        self.verdict = verdict
        self.tls = tls
        self.unsent = b""  # what the socket did not take of the handshake
        self.until = 0.0  # when it is handed over without a request
        self.watched_descriptor = UNWATCHED  # while the listener waits for bytes
        self.closes = False  # the request is the last one of the connection
        self.is_deferred = False
        self.is_over = False  # ended, or handed over

    def receive(self) -> bytes | None:
        """HTTP bytes that have arrived; None: none yet; empty: the client has disconnected."""
        try:
            data = self.socket.recv(READ_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return None
        except OSError:
            return b""
        tls = self.tls
        if tls is None or not data:
            return data
        tls.feed(data)
        plain = tls.read()
        if not plain and tls.has_unsent:
            self.unsent += tls.take()
            with suppress(OSError):
                self.unsent = self.unsent[self.socket.send(self.unsent, _SEND_FLAGS) :]
        return plain

    def respond(self, response: bytes, closes: bool) -> None:
        if self.is_over:  # the client disconnected before its response was ready
            return
        if not closes:
            self._listener.hand_over(self, response=response)
            return
        flags = _SEND_LAST_FLAGS
        if self.tls is not None:
            # At once: a client may have sent the end of TLS already, and unread bytes make the kernel drop what waits.
            flags = _SEND_FLAGS
            self.tls.write(response)
            self.tls.close()
            response = self.tls.take()
        # The buffer of a new connection holds far more than a response. The client may have disconnected.
        try:  # noqa: SIM105, `suppress` takes longer
            self.socket.send(response, flags)
        except OSError:
            pass
        self.end()

    def refuse(self) -> None:
        """Refuse without a transport, which would keep the descriptor for longer."""
        response = self._shared.refuse_at_once()
        if self.tls is not None:
            self.tls.write(response)
            self.tls.close()
            response = self.tls.take()
        with suppress(OSError):
            self.socket.send(response, _SEND_FLAGS)
        self.end()

    def end(self) -> None:
        self.is_over = True
        self._listener.forget(self)
        self.socket.close()
        self._shared.limits.leave(self.key, self.verdict)

    # The interface for fast handlers, `DeferringConnection` of web/fast_lane_api.py.

    def start(self, request: bytes) -> bool:
        """Have a fast handler respond; False: it does not."""
        self._request = request
        return self._shared.start_at_once(request, self)

    def send(self, response: ApiResponse) -> None:
        self.send_bytes(response_bytes(response, self.date_line()))

    def send_bytes(self, data: bytes) -> None:
        self.respond(closing(data) if self.closes else data, self.closes or self._shared.is_closing)

    def date_line(self) -> bytes:
        return self._shared.current_date_line()

    def wait(self, _owner: WaitOwner, _parked: Any, _seconds: float) -> None:
        raise NotImplementedError  # only requests that do not wait are started here

    def defer(self) -> None:
        self.is_deferred = True

    def accept(self) -> None:
        self._shared.fast_requests += 1

    def pass_on(self) -> None:
        if not self.is_over:
            self._listener.hand_over(self, self._request)

    @property
    def thumbprint(self) -> str | None:
        der = None if self.tls is None else self.tls.tls.getpeercert(True)
        if der is None:
            return None
        found = self._shared.client_certificates.certificate(self.address, der, None)
        return None if found is None else found.thumbprint
