"""The fast lane: handles hot requests without a full HTTP parser.

    bytes ─▶ complete, plain and known? ─yes▶ fast handler ─▶ bytes
                     │no
                     ▼
             uvicorn's protocol, which stays the only real HTTP parser

One connection may use both: at every message boundary the fast lane checks first. The state of uvicorn's protocol is
created when a connection first needs it, so that a parked poll is little more than this object. The fast lane also sets
deadlines for slow senders and refuses connections over the limits, neither of which ASGI can do. A refused connection
gets a 503 when its request arrives, unless that reads the metrics.
"""

import asyncio
import time
from collections.abc import Sized
from dataclasses import dataclass, field
from types import EllipsisType
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from restante.core.errors import RestanteError, Unavailable
from restante.core.pacing import retry_after_seconds
from restante.server.http.bounded_protocol import (
    BoundedHttpProtocol,
    FieldsTooLarge,
    TargetTooLong,
    refusal_bytes,
    response_bytes,
)
from restante.server.http.connection_limits import AddressKey, ConnectionLimits, Verdict
from restante.server.http.deadlines import NEVER, REMOVED, SLOT_SECONDS, Deadlines
from restante.server.http.idle_connections import IdleConnections
from restante.server.http.new_connection import NewConnection
from restante.server.http.post_templates import IncompleteBody, PostTemplates
from restante.server.http.request_templates import END, FastResponse, RequestTemplates, closing
from restante.web.client_cert import EXTENSION, ClientCertificates
from restante.web.fast_lane_api import FastConnection, WaitOwner
from restante.web.response import ApiResponse
from restante.web.routes import ResponseFormat

PIPELINED_BYTES_MAX = 65536
# A refused connection stays open for so long, until its request is answered.
REFUSED_SECONDS = 2.0
# Operators need the metrics most when connections are refused.
METRICS = b"GET /metrics "


class RequestTimeout(RestanteError):
    """The request took too long to arrive."""

    status = 408


@dataclass(slots=True)
class FastLaneState:
    """The state that all connections of a server share."""

    templates: RequestTemplates
    response_format: ResponseFormat
    deadlines: Deadlines
    limits: ConnectionLimits = field(init=False)
    connections_max: int
    header_seconds: float
    body_seconds: float
    keep_alive_seconds: float
    connections_per_address_max: int = 0
    is_closing: bool = False
    fast_requests: int = 0
    slow_senders_cut: int = 0
    oversized_requests: int = 0
    post_templates: PostTemplates = field(default_factory=lambda: PostTemplates(()))
    client_certificates: ClientCertificates = field(default_factory=ClientCertificates)
    # Connections whose first request has not arrived.
    waiting: Sized = ()
    config: Any = None
    server_state: Any = None
    app_state: Any = None
    loop: Any = None
    date_line: bytes = b""
    _default_headers: Any = field(default=None, repr=False)

    def __post_init__(self) -> None:
        idle = IdleConnections(lambda: self.server_state.connections)
        self.limits = ConnectionLimits(
            self.connections_max,
            self.connections_per_address_max,
            self.client_certificates.is_trusted,
            idle.close_oldest,
        )

    @property
    def connections(self) -> int:
        made = len(self.server_state.connections) if self.server_state is not None else 0
        return made + len(self.waiting)

    def respond_at_once(self, data: bytes, connection: FastConnection) -> FastResponse | None:
        """The response to the first bytes of a connection, if memory has it and they are all of a request. It counts as
        sent."""
        if self.is_closing:
            return None
        date_line = self.current_date_line()
        if data.startswith(b"POST "):
            response = self.post_templates.respond_from_memory(data, date_line, connection)
        else:
            response = self.templates.respond_from_memory(data, date_line)
        if response is not None:
            self.fast_requests += 1
        return response

    def start_at_once(self, data: bytes, connection: NewConnection) -> bool:
        """Have a fast handler respond to the first bytes of a connection, now or later; False: it does not.

        Without a query nothing waits, and such a connection does not notice that its client disconnects.
        """
        request = None if self.is_closing or data.startswith(b"POST ") else self.templates.recognize(data)
        if request is None or request[1] or not request[0].is_read_only:
            return False
        handler, query, headers, connection.closes = request
        self.fast_requests += 1  # before the response is sent; a deferred request counts when it is accepted
        is_taken = handler(query, headers, connection)
        if not is_taken or connection.is_deferred:
            self.fast_requests -= 1
        return is_taken

    def refuse_at_once(self) -> bytes:
        """The response to a connection that is refused."""
        error = _too_many_connections(sum(self.limits.refused.values()))
        return refusal_bytes(self.response_format, error, self.current_date_line())

    def is_served_though_refused(self, data: bytes) -> bool:
        """Whether the request is served on a connection that is refused; it must arrive whole."""
        return data.startswith(METRICS) and data.endswith(END)

    def current_date_line(self) -> bytes:
        """The Date header line. uvicorn replaces its default headers every second."""
        headers = self.server_state.default_headers
        if headers is not self._default_headers:
            self._default_headers = headers
            self.date_line = b"".join(b"%b: %b\r\n" % pair for pair in headers)
        return self.date_line


def _too_many_connections(number: int) -> Unavailable:
    return Unavailable("too many connections", retry_after_seconds=retry_after_seconds(number, 1, 10))


def fast_lane_class(shared: FastLaneState) -> type[HttpToolsProtocol]:
    """Make the protocol class for uvicorn's `http` option."""
    return type("FastLane", (FastLaneProtocol,), {"shared": shared, "response_format": shared.response_format})


class FastLaneProtocol(BoundedHttpProtocol):
    shared: FastLaneState

    # Class attributes are the initial values: a connection that only polls sets few of them.
    due = NEVER
    slot = -1
    _has_uvicorn_state = False  # the state of uvicorn's protocol exists
    _is_within_message = False  # uvicorn's parser has started a request and not finished it
    _is_awaiting_response = False  # a fast request waits for its response
    _closes = False  # the connection closes after that response
    _is_refused = False
    _address: AddressKey | None = None
    _verdict: Verdict | None = None  # about this connection, while it is counted
    _first_due = 0.0
    _is_idle = True  # between two requests, the last of which was a fast one
    _deferred_request = b""  # a fast request whose handler has not decided yet whether it serves it
    _is_deferred = False
    _partial_request = b""  # a fast request whose body is incomplete
    _pipelined = b""  # bytes after a fast request that has no response yet
    _owner: WaitOwner | None = None
    _parked: Any = None
    _thumbprint: str | EllipsisType | None = ...  # not read yet
    _early_data = b""  # was read before the connection was made
    _early_response = b""  # to the request that was read before the connection was made

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        shared = self.shared
        if shared.server_state is not server_state:
            shared.config, shared.server_state, shared.app_state, shared.loop = config, server_state, app_state, _loop

    # Callbacks of the transport.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        shared = self.shared
        self.transport = transport
        shared.server_state.connections.add(self)
        verdict = self._verdict
        if verdict is None:
            address = transport.get_extra_info("peername")
            needs_descriptor = shared.limits.needs_descriptor()
            descriptor = transport.get_extra_info("socket").fileno() if needs_descriptor else 0
            verdict = self.enter(address[0] if address else "", descriptor)
        self.due = self._first_due = time.monotonic() + shared.header_seconds
        if verdict is not Verdict.admitted:
            self._is_refused = True
            self._is_idle = False
            self.due = time.monotonic() + REFUSED_SECONDS
            if verdict is Verdict.told_now:
                self._refuse()
        shared.deadlines.watch(self)
        if self._early_data:
            data, self._early_data = self._early_data, b""
            self.data_received(data)
        elif self._early_response:
            transport.write(self._early_response)
            self._early_response = b""
            self._stay_idle_until(shared.deadlines.now + shared.keep_alive_seconds)

    def data_received(self, data: bytes) -> None:
        shared = self.shared
        if self._is_idle and not shared.is_closing:
            date_line = shared.current_date_line()
            if data.startswith(b"POST "):
                response = shared.post_templates.respond_from_memory(data, date_line, self)
            else:
                response = shared.templates.respond_from_memory(data, date_line)
            if response is not None:
                shared.fast_requests += 1
                self.transport.write(response[0])
                if response[1]:
                    self._close_after_response()
                else:
                    self._stay_idle_until(shared.deadlines.now + shared.keep_alive_seconds)
                return
            self._is_idle = False
        if self._is_awaiting_response:
            self._buffer(data)
        elif self._is_refused and not self._reads_metrics(data):
            self._refuse()
        else:
            if self._partial_request:
                data = self._partial_request + data
            if self._is_within_message or not self._is_between_messages() or not self._try_fast(data):
                self._partial_request = b""
                self._pass_to_uvicorn(data)

    def enter(self, address: str, descriptor: int) -> Verdict:
        """Count this connection; called when it is made or, with TLS, before the handshake."""
        self._address = self.shared.limits.key_of(address)
        self._verdict = self.shared.limits.enter(self._address, descriptor)
        return self._verdict

    def adopt(self, key: AddressKey | None, verdict: Verdict, data: bytes, response: bytes) -> None:
        """Take over a connection that was counted already; `data` was read from it, or `response` is to be sent."""
        self._address, self._verdict = key, verdict
        self._early_data, self._early_response = data, response

    def count_unaccepted(self) -> None:
        self.shared.limits.count_unaccepted()

    def leave(self) -> None:
        """Count this connection no longer."""
        if self._verdict is not None:
            self.shared.limits.leave(self._address, self._verdict)
            self._verdict = None

    def idle_since(self) -> float | None:
        if self.due == REMOVED or self._is_refused or self.transport.is_closing():
            return None
        shared = self.shared
        if not self._has_uvicorn_state:
            # A connection without a request so far has its own, shorter deadline.
            is_unused = self.due == self._first_due
            return self.due - shared.keep_alive_seconds if self._is_idle and not is_unused else None
        if self._is_within_message or self._is_awaiting_response or not self._is_between_messages():
            return None
        # After a response of the application uvicorn's timer runs, after one of the fast lane the deadline.
        timer = self.timeout_keep_alive_task
        return (self.due if timer is None else timer.when()) - shared.keep_alive_seconds

    def close_idle(self) -> None:
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.shared.deadlines.remove(self)
        self.leave()
        if self._owner is not None:
            owner, self._owner = self._owner, None
            owner.disconnect(self._parked)
        if self._has_uvicorn_state:
            super().connection_lost(exc)
        else:
            self.shared.server_state.connections.discard(self)

    def pause_writing(self) -> None:
        if self._has_uvicorn_state:
            super().pause_writing()
        else:
            self.transport.pause_reading()

    def resume_writing(self) -> None:
        if self._has_uvicorn_state:
            super().resume_writing()
        else:
            self.transport.resume_reading()

    def shutdown(self) -> None:
        if self._has_uvicorn_state:
            super().shutdown()
        elif not self._is_awaiting_response:
            self.transport.close()

    # The interface for fast handlers, `FastConnection` of web/fast_lane_api.py.

    def send(self, response: ApiResponse) -> None:
        self.send_bytes(response_bytes(response, self.shared.current_date_line()))

    def send_bytes(self, data: bytes) -> None:
        self._write(closing(data) if self._closes else data)

    def defer(self) -> None:
        self._is_deferred = True

    def accept(self) -> None:
        self._is_deferred, self._deferred_request = False, b""
        self.shared.fast_requests += 1

    def pass_on(self) -> None:
        data, self._deferred_request = self._deferred_request, b""
        self._is_deferred = self._is_awaiting_response = self._closes = False
        if self.due == REMOVED:
            return
        self._pass_to_uvicorn(data)
        if self.shared.is_closing:
            self.shutdown()
        elif self._pipelined:
            self._read_pipelined()

    def wait(self, owner: WaitOwner, parked: Any, seconds: float) -> None:
        if self.due == REMOVED:  # the client disconnected while the handler decided
            owner.disconnect(parked)
        elif self._is_awaiting_response:
            self._owner, self._parked = owner, parked
            self.due = time.monotonic() + seconds
            self.shared.deadlines.watch(self)

    @property
    def thumbprint(self) -> str | None:
        if self._thumbprint is ...:
            address = self.transport.get_extra_info("peername")
            found = self.shared.client_certificates.certificate(
                address[0] if address else "", self._peer_certificate(), None
            )
            self._thumbprint = found.thumbprint if found else None
        return self._thumbprint

    def _peer_certificate(self) -> bytes | None:
        """The client's certificate in DER, which the handshake has verified."""
        tls = self.transport.get_extra_info("ssl_object")
        return tls.getpeercert(True) if tls is not None else None

    def _write(self, data: bytes) -> None:
        if self.due == REMOVED:  # the client disconnected before its response was ready
            return
        self.transport.write(data)
        self._is_awaiting_response = False
        self._owner = self._parked = None
        shared = self.shared
        self._is_idle = not self._is_refused
        self._stay_idle_until(shared.deadlines.now + shared.keep_alive_seconds)
        if shared.is_closing or self._closes:
            self._close_after_response()
        elif self._pipelined:
            self._read_pipelined()

    def _read_pipelined(self) -> None:
        pipelined, self._pipelined = self._pipelined, b""
        self.transport.resume_reading()
        self.data_received(pipelined)

    def _close_after_response(self) -> None:
        # The deadline stays: a client that does not read its response keeps the connection no longer than that.
        self._is_idle = False
        self.transport.close()

    def _stay_idle_until(self, due: float) -> None:
        self.due = due
        if due < self.slot * SLOT_SECONDS:  # earlier than the next check of this connection
            self.shared.deadlines.watch(self)

    # Recognizing fast requests.

    def _is_between_messages(self) -> bool:
        return not self._has_uvicorn_state or self.cycle is None or self.cycle.response_complete

    def _try_fast(self, data: bytes) -> bool:
        """Handle the request here, if the fast lane fully understands it."""
        shared = self.shared
        templates = shared.post_templates if data.startswith(b"POST ") else shared.templates
        request = templates.recognize(data)
        if request is None:
            return False
        if self._has_uvicorn_state:
            self._unset_keepalive_if_required()
        if isinstance(request, IncompleteBody):
            if not self._partial_request:  # from the first part on: a body sent in small parts is slow, too
                self._expect_within(shared.body_seconds)
            self._partial_request = data
            return True
        self._partial_request = b""
        handler, query, headers, self._closes = request
        self._is_awaiting_response = True
        self.due = NEVER
        shared.fast_requests += 1  # before the response is sent; a deferred request counts when it is accepted
        is_taken = handler(query, headers, self)
        if is_taken and not self._is_deferred:
            return True
        shared.fast_requests -= 1
        if is_taken:
            self._deferred_request = data
        else:
            self._is_awaiting_response = self._closes = False
        return is_taken

    def _buffer(self, data: bytes) -> None:
        self._pipelined += data
        if len(self._pipelined) > PIPELINED_BYTES_MAX:
            self.transport.pause_reading()

    # Passing bytes to uvicorn, with deadlines for the sender.

    def _pass_to_uvicorn(self, data: bytes) -> None:
        if not self._has_uvicorn_state:
            shared, transport = self.shared, self.transport
            HttpToolsProtocol.__init__(self, shared.config, shared.server_state, shared.app_state, shared.loop)
            super().connection_made(transport)
            self._has_uvicorn_state = True
        super().data_received(data)
        if self.due == NEVER and not self._is_within_message and self._is_between_messages():
            # Empty lines start no request, but have stopped uvicorn's keep-alive timer.
            self._expect_within(self.shared.keep_alive_seconds)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        certificate = self._peer_certificate()
        if certificate is not None:
            self.scope["extensions"] = {EXTENSION: {"der": certificate}}
        self._is_within_message = True
        self._expect_within(self.shared.header_seconds)

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        self._expect_within(self.shared.body_seconds)

    def on_message_complete(self) -> None:
        self._is_within_message = False
        self.due = NEVER
        super().on_message_complete()

    def _expect_within(self, seconds: float) -> None:
        self.due = time.monotonic() + seconds
        self.shared.deadlines.watch(self)

    def on_due(self) -> None:
        """The current deadline of this connection has passed: a wait, a slow sender, or an idle connection."""
        self.due = NEVER
        if self.transport.is_closing():
            self.transport.abort()
        elif self._owner is not None:
            owner, self._owner = self._owner, None
            owner.expire(self._parked)
        elif self._is_within_message or self._partial_request:
            self.shared.slow_senders_cut += 1
            self.refuse(RequestTimeout())
        else:
            self.transport.close()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._is_refused:
            self.transport.close()

    def _reads_metrics(self, data: bytes) -> bool:
        """Whether a refused connection is served all the same."""
        return not self._has_uvicorn_state and self.shared.is_served_though_refused(data)

    def _refuse(self) -> None:
        self.refuse(_too_many_connections(id(self) >> 4))

    def refuse(self, error: RestanteError) -> None:
        super().refuse(error)
        if isinstance(error, (TargetTooLong, FieldsTooLarge)):
            self.shared.oversized_requests += 1
        # A client that does not read its response keeps the connection no longer than that.
        self._expect_within(REFUSED_SECONDS)

    def date_line(self) -> bytes:
        return self.shared.current_date_line()
