"""Accepts connections, with or without TLS. If memory has the response to a first and only request, nothing is built.

    accepted ─▶ counted ─▶ handshake, with TLS ─▶ is the request there? ── yes ──▶ answered, as new_connection.py shows
                                 │ not complete           │ no                           │ anything else
                                 └───────────▶ waits a moment for it ── too long ──▶ a transport and the protocol, with
                                                                                     what was read, or the response

Connections are counted before their handshake: a client that never finishes one holds a connection, too.

Invariants: each connection is counted from here on, and uncounted once. A listener that is closed for another one, when
the TLS files have changed, hands over all its connections.
"""

import asyncio
import select
import socket
import ssl
import time
from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import Any, Protocol

from restante.server.http.connection_limits import AddressKey, Verdict
from restante.server.http.listener import CountedProtocol, Listener, PlainSocket, whole_socket
from restante.server.http.new_connection import UNWATCHED, AnswersAtOnce, NewConnection
from restante.server.http.tls.session import TlsSession
from restante.server.http.tls.transport import TlsTransport

# How long a connection without a request has neither transport nor protocol, nor their deadlines; and how long nobody
# notices that a client has disconnected which waits for its response.
WAIT_SECONDS = 0.25
# A handshake takes a round trip to the client before its request arrives.
TLS_WAIT_SECONDS = 1.0
READY_AT_ONCE = 256


class AdoptingProtocol(CountedProtocol, Protocol):
    """A protocol that takes over a connection which was counted before."""

    def adopt(self, key: AddressKey | None, verdict: Verdict, data: bytes, response: bytes) -> None:
        """Called before the connection is made; `data` was read from it, or `response` is to be sent."""


class HttpListener(Listener[AdoptingProtocol]):
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        make_protocol: Callable[[], AdoptingProtocol],
        shared: AnswersAtOnce,
        context: ssl.SSLContext | None = None,
        handshake_seconds: float = 0.0,
    ) -> None:
        self._shared = shared
        self._limits = shared.limits
        self._context = context
        self._handshake_seconds = handshake_seconds
        self._wait_seconds = WAIT_SECONDS if context is None else max(WAIT_SECONDS, TLS_WAIT_SECONDS)
        # By descriptor, the longest waiting first.
        self.waiting: dict[int, NewConnection] = {}
        # Connections whose request a fast handler has started to serve, the first started first.
        self._started: dict[NewConnection, None] = {}
        # Those of them that take long, by descriptor: they end when their clients disconnect.
        self._slow: dict[int, NewConnection] = {}
        self._all_served: asyncio.Future[None] | None = None
        self._epoll = select.epoll()
        self._timer: asyncio.TimerHandle | None = None
        loop.add_reader(self._epoll.fileno(), self._read_ready)
        super().__init__(loop, sock, make_protocol)

    def __len__(self) -> int:
        """The number of connections without a transport."""
        return len(self.waiting) + len(self._started) + len(self._slow)

    def close(self) -> None:
        if self._is_closed:
            return
        super().close()
        for connection in list(self.waiting.values()):
            if self._shared.is_closing:
                connection.end()
            else:
                self.hand_over(connection)
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()
        if self._timer is not None:
            self._timer.cancel()

    async def wait_closed(self) -> None:
        if self._started or self._slow:
            self._all_served = self._loop.create_future()
            await self._all_served
        await super().wait_closed()

    def _start(self, connection: PlainSocket, address: str) -> None:
        key = self._limits.key_of(address)
        verdict = self._limits.enter(key, connection.fileno())
        tls = None
        if self._context is not None:
            if verdict is Verdict.told_now:
                # Telling it would take a handshake.
                connection.close()
                self._limits.leave(key, verdict)
                return
            tls = TlsSession(self._context)
        new = NewConnection(self, self._shared, connection, address, key, verdict, tls)
        data = new.receive()
        if data is not None:
            self._serve(new, data)
        elif verdict is Verdict.told_now:
            new.refuse()
        else:
            self._wait(new)

    def _serve(self, connection: NewConnection, data: bytes) -> None:
        """Respond to the first bytes, or let a protocol do it. Empty: the client has disconnected."""
        if not data:
            connection.end()
        elif connection.verdict is not Verdict.admitted:
            self._serve_refused(connection, data)
        else:
            response = self._shared.respond_at_once(data, connection)
            if response is not None:
                connection.respond(*response)
            else:
                self._serve_later(connection, data)

    def _serve_later(self, connection: NewConnection, data: bytes) -> None:
        self._unwatch(connection)
        self._started[connection] = None
        self._expect_within_moment(connection)
        if not connection.start(data):
            self.hand_over(connection, data)

    def _serve_refused(self, connection: NewConnection, data: bytes) -> None:
        if self._shared.is_served_though_refused(data):
            connection.verdict = Verdict.refused
            self.hand_over(connection, data)
        else:
            connection.refuse()

    def forget(self, connection: NewConnection) -> None:
        """The connection ends here, or gets a transport."""
        self.waiting.pop(connection.watched_descriptor, None)
        self._slow.pop(connection.watched_descriptor, None)
        self._started.pop(connection, None)
        if self._all_served is not None and not (self._started or self._slow or self._all_served.done()):
            self._all_served.set_result(None)

    # Connections whose request has not arrived, or whose response takes long.

    def _wait(self, connection: NewConnection) -> None:
        self._watch(connection, self.waiting, select.EPOLLIN)
        self._expect_within_moment(connection)

    def _expect_within_moment(self, connection: NewConnection) -> None:
        connection.until = time.monotonic() + self._wait_seconds
        if self._timer is None:
            self._timer = self._loop.call_later(self._wait_seconds, self._end_waits)

    def _watch(self, connection: NewConnection, watched: dict[int, NewConnection], events: int) -> None:
        descriptor = connection.watched_descriptor = connection.socket.fileno()
        self._epoll.register(descriptor, events)
        watched[descriptor] = connection

    def _unwatch(self, connection: NewConnection) -> None:
        """Watch the connection no longer. One that ends needs no call of it: a closed socket is not watched."""
        descriptor, connection.watched_descriptor = connection.watched_descriptor, UNWATCHED
        if self.waiting.pop(descriptor, None) or self._slow.pop(descriptor, None):
            self._epoll.unregister(descriptor)

    def _read_ready(self) -> None:
        for descriptor, _ in self._epoll.poll(0, READY_AT_ONCE):
            connection = self.waiting.get(descriptor)
            if connection is None:
                if descriptor in self._slow:
                    self._slow[descriptor].end()
                continue
            data = connection.receive()
            if data is not None:
                self._serve(connection, data)
            elif connection.unsent:
                self.hand_over(connection)

    def _end_waits(self) -> None:
        now = time.monotonic()
        for connection in _due(self.waiting.values(), now):
            self.hand_over(connection)
        for connection in _due(self._started, now):
            del self._started[connection]
            self._watch(connection, self._slow, select.EPOLLRDHUP)
        left = [next(iter(each)).until for each in (self.waiting.values(), self._started) if each]
        self._timer = self._loop.call_later(min(left) - now, self._end_waits) if left else None

    # All other connections.

    def hand_over(self, connection: NewConnection, data: bytes = b"", response: bytes = b"") -> None:
        """Make a transport and a protocol for the connection; `data` was read from it, or `response` is to be sent."""
        connection.is_over = True
        self._unwatch(connection)
        self.forget(connection)
        protocol = self._make_protocol()
        protocol.adopt(connection.key, connection.verdict, data, response)
        outer: Any = protocol
        if connection.tls is not None:
            outer = TlsTransport(self._loop, connection.tls, protocol, self._handshake_seconds, connection.unsent)
        self._run(self._connect(whole_socket(connection.socket), protocol, outer))

    async def _connect(self, connection: socket.socket, protocol: AdoptingProtocol, outer: asyncio.Protocol) -> None:
        is_made = False
        try:
            await self._loop.connect_accepted_socket(lambda: outer, connection)
            is_made = True
        except OSError:
            connection.close()
        finally:
            if not is_made:
                protocol.leave()


def _due(connections: Iterable[NewConnection], now: float) -> list[NewConnection]:
    """Those whose time is over; they come in the order of their times."""
    return list(takewhile(lambda connection: connection.until <= now, connections))
