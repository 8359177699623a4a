"""The fast lane: answers the hot requests without the whole of HTTP.

    bytes ─▶ whole, plain and known? ─yes▶ hot handler ─▶ bytes
                     │no
                     ▼
             uvicorn's protocol, which stays the only real HTTP parser

One connection may mix both: at every message boundary the fast lane looks first. The machinery of uvicorn's protocol
is built on a connection when it is first needed, so that a parked poll is little more than this object. The same place
sets deadlines for slow senders and bounds the number of connections, neither of which ASGI can.
"""

import asyncio
import time
from dataclasses import dataclass, field
from types import EllipsisType
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from restante.core.errors import BadInput, RestanteError, Unavailable
from restante.core.pacing import retry_after_seconds
from restante.server.deadlines import GONE, NEVER, SLOT_SECONDS, Deadlines
from restante.server.post_forms import Gather, PostForms
from restante.server.request_forms import RequestForms
from restante.web.answer import Answer
from restante.web.hot import Waits
from restante.web.peer import EXTENSION, Peers
from restante.web.routes import Shape

PIPELINED_BYTES_MAX = 65536
# Over the cap a connection is kept just long enough to be told so; far over it, not even that.
REFUSED_SECONDS = 2.0
REFUSED_MAX = 1000


class RequestTimeout(RestanteError):
    """The request took too long to arrive."""

    status = 408


@dataclass(slots=True)
class LaneShared:
    """What all connections of a server have in common."""

    forms: RequestForms
    shape: Shape
    deadlines: Deadlines
    connections_max: int = 20_000
    header_seconds: float = 10.0
    body_seconds: float = 30.0
    keep_alive_seconds: float = 75.0
    is_closing: bool = False
    hot_requests: int = 0
    refused_connections: int = 0
    slow_senders_cut: int = 0
    posts: PostForms = field(default_factory=lambda: PostForms(()))
    peers: Peers = field(default_factory=Peers)
    config: Any = None
    server_state: Any = None
    app_state: Any = None
    loop: Any = None
    date_line: bytes = b""
    _dated: Any = field(default=None, repr=False)

    @property
    def connections(self) -> int:
        return len(self.server_state.connections) if self.server_state is not None else 0

    def current_date_line(self) -> bytes:
        """The Date header as uvicorn has it, which renews its default headers every second."""
        headers = self.server_state.default_headers
        if headers is not self._dated:
            self._dated = headers
            self.date_line = b"".join(b"%b: %b\r\n" % pair for pair in headers)
        return self.date_line


def fast_lane_class(shared: LaneShared) -> type[HttpToolsProtocol]:
    """The protocol class for uvicorn's `http` option."""
    return type("FastLane", (_FastLane,), {"shared": shared})


class _FastLane(HttpToolsProtocol):
    shared: LaneShared
    _thumbprint: str | EllipsisType | None = ...  # not looked at yet

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        shared = self.shared
        shared.config, shared.server_state, shared.app_state, shared.loop = config, server_state, app_state, _loop
        self.due = NEVER
        self.slot = -1
        self._is_full = False  # uvicorn's own machinery has been built
        self._is_within_message = False  # uvicorn's parser has begun a request and not finished it
        self._is_answering = False  # a hot request waits for its answer
        self._is_refused = False
        self._is_at_rest = True  # between two requests, with none of uvicorn's machinery
        self._gathered = b""  # a hot request so far, whose body has not arrived whole
        self._behind = b""  # what arrived behind a hot request that is not answered yet
        self._owner: Waits | None = None
        self._parked: Any = None

    # The transport's side.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        shared = self.shared
        self.transport = transport
        connections = shared.server_state.connections
        connections.add(self)
        self.due = time.monotonic() + shared.header_seconds
        over = len(connections) - shared.connections_max
        if over > 0:
            shared.refused_connections += 1
            self._is_refused = True
            self._is_at_rest = False
            self.due = time.monotonic() + REFUSED_SECONDS
            if over > REFUSED_MAX:
                self._refuse()
        shared.deadlines.watch(self)

    def data_received(self, data: bytes) -> None:
        shared = self.shared
        if self._is_at_rest and not shared.is_closing:
            date_line = shared.current_date_line()
            is_post = data.startswith(b"POST ")
            answer = shared.posts.at_once(data, date_line, self) if is_post else shared.forms.at_once(data, date_line)
            if answer is not None:
                self.transport.write(answer)
                shared.hot_requests += 1
                self._rest_until(shared.deadlines.now + shared.keep_alive_seconds)
                return
            self._is_at_rest = False
        if self._is_answering:
            self._keep_for_later(data)
        elif self._is_refused:
            self._refuse()
        else:
            if self._gathered:
                data = self._gathered + data
            if self._is_within_message or not self._is_between_messages() or not self._try_hot(data):
                self._gathered = b""
                self._hand_over(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.due = GONE
        if self._owner is not None:
            owner, self._owner = self._owner, None
            owner.abandon(self._parked)
        if self._is_full:
            super().connection_lost(exc)
        else:
            self.shared.server_state.connections.discard(self)

    def pause_writing(self) -> None:
        if self._is_full:
            super().pause_writing()
        else:
            self.transport.pause_reading()

    def resume_writing(self) -> None:
        if self._is_full:
            super().resume_writing()
        else:
            self.transport.resume_reading()

    def shutdown(self) -> None:
        if self._is_full:
            super().shutdown()
        elif not self._is_answering:
            self.transport.close()

    # The lane's side: see web/hot.py.

    def send(self, answer: Answer) -> None:
        parts = [STATUS_LINE[answer.status], self.shared.current_date_line()]
        parts += [b"%b: %b\r\n" % header for header in answer.headers]
        if answer.status != 204:
            parts.append(b"content-length: %d\r\n" % len(answer.body))
        parts += (b"\r\n", answer.body)
        self._write(b"".join(parts))

    def wait(self, owner: Waits, parked: Any, seconds: float) -> None:
        if self._is_answering:
            self._owner, self._parked = owner, parked
            self.due = time.monotonic() + seconds
            self.shared.deadlines.watch(self)

    @property
    def thumbprint(self) -> str | None:
        if self._thumbprint is ...:
            address = self.transport.get_extra_info("peername")
            found = self.shared.peers.certificate(address[0] if address else "", self._peer_certificate(), None)
            self._thumbprint = found.thumbprint if found else None
        return self._thumbprint

    def _peer_certificate(self) -> bytes | None:
        """The DER form of the certificate that the client showed in the handshake, which verified it."""
        tls = self.transport.get_extra_info("ssl_object")
        return tls.getpeercert(True) if tls is not None else None

    def _write(self, data: bytes) -> None:
        if self.due == GONE:  # hung up while the answer was looked for
            return
        self.transport.write(data)
        self._is_answering = False
        self._owner = self._parked = None
        shared = self.shared
        self._is_at_rest = not self._is_full and not self._is_refused
        self._rest_until(shared.deadlines.now + shared.keep_alive_seconds)
        if shared.is_closing:
            self.transport.close()
        elif self._behind:
            behind, self._behind = self._behind, b""
            self.transport.resume_reading()
            self.data_received(behind)

    def _rest_until(self, due: float) -> None:
        self.due = due
        if due < self.slot * SLOT_SECONDS:  # sooner than this connection is looked at anyway
            self.shared.deadlines.watch(self)

    # Recognising a hot request.

    def _is_between_messages(self) -> bool:
        return not self._is_full or self.cycle is None or self.cycle.response_complete

    def _try_hot(self, data: bytes) -> bool:
        """Answer the request here, if it is one the fast lane fully understands."""
        shared = self.shared
        forms = shared.posts if data.startswith(b"POST ") else shared.forms
        request = forms.recognise(data)
        if request is None:
            return False
        if self._is_full:
            self._unset_keepalive_if_required()
        if isinstance(request, Gather):
            if not self._gathered:  # counted from the first piece: a body that trickles is slow, too
                self._expect_within(shared.body_seconds)
            self._gathered = data
            return True
        self._gathered = b""
        handler, query, headers = request
        self._is_answering = True
        self.due = NEVER
        if handler(query, headers, self):
            shared.hot_requests += 1
            return True
        self._is_answering = False
        return False

    def _keep_for_later(self, data: bytes) -> None:
        self._behind += data
        if len(self._behind) > PIPELINED_BYTES_MAX:
            self.transport.pause_reading()

    # Handing over to uvicorn, and watching over what it reads.

    def _hand_over(self, data: bytes) -> None:
        if not self._is_full:
            shared, transport = self.shared, self.transport
            HttpToolsProtocol.__init__(self, shared.config, shared.server_state, shared.app_state, shared.loop)
            super().connection_made(transport)
            self._is_full = True
        super().data_received(data)
        if self.due == NEVER and not self._is_within_message and self._is_between_messages():
            # Empty lines, which begin no request but have stopped uvicorn's keep-alive timer.
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

    def send_400_response(self, _msg: str) -> None:
        self._end_with(self.shared.shape.error(BadInput("request", "valid HTTP/1.1")))

    def _expect_within(self, seconds: float) -> None:
        self.due = time.monotonic() + seconds
        self.shared.deadlines.watch(self)

    def on_due(self) -> None:
        """The deadline of whatever this connection is at has passed."""
        self.due = NEVER
        if self._owner is not None:
            owner, self._owner = self._owner, None
            owner.expire(self._parked)
        elif self._is_within_message or self._gathered:
            self.shared.slow_senders_cut += 1
            self._end_with(self.shared.shape.error(RequestTimeout()))
        else:
            self.transport.close()

    def _refuse(self) -> None:
        seconds = retry_after_seconds(id(self) >> 4, 1, 10)
        self._end_with(self.shared.shape.error(Unavailable("too many connections", retry_after_seconds=seconds)))

    def _end_with(self, answer: Answer) -> None:
        self.send(answer.with_headers((b"connection", b"close")))
        self.transport.close()
