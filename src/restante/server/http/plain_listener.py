"""Accepts connections without TLS. If the first request is the only one and memory has its response, nothing is built.

    accepted ─▶ counted ─▶ is the request there? ── yes ──▶ in memory, and closing? ── yes ──▶ sent and closed
                                  │ no                              │ no
                                  ▼                                 ▼
                          waits a moment for it ── too long ──▶ a transport and the protocol, with what was read, or
                                                                with the response to send

A device that opens a connection for each poll costs as few system calls as possible: accept, read, write, close. The
response and the end of the connection are one packet. Every other connection is passed to the event loop.

Invariants: each connection is counted from here on, and uncounted once. Bytes that were read here reach the protocol
before all others, or are answered, never both.
"""

import asyncio
import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Protocol, cast

from restante.server.http.connection_limits import AddressKey, ConnectionLimits, Verdict
from restante.server.http.listener import CountedProtocol, Listener
from restante.server.http.request_templates import FastResponse

READ_BYTES = 65_536
# How long a connection without a request has neither transport nor protocol, nor their deadlines.
WAIT_SECONDS = 0.25
READY_AT_ONCE = 256
# With the response held back until the end of the connection, both are one packet.
_SEND_FLAGS = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL | socket.MSG_MORE


class AnswersAtOnce(Protocol):
    """What the connections of a server share."""

    @property
    def limits(self) -> ConnectionLimits: ...

    def respond_at_once(self, data: bytes) -> FastResponse | None:
        """The response to the first bytes of a connection, if memory has it and they are all of a request. It counts as
        sent."""

    def refuse_at_once(self) -> bytes:
        """The response to a connection that is refused."""

    def is_served_though_refused(self, data: bytes) -> bool:
        """Whether the request is served on a connection that is refused."""


class AdoptingProtocol(CountedProtocol, Protocol):
    """A protocol that takes over a connection which was counted before."""

    def adopt(self, key: AddressKey | None, verdict: Verdict, data: bytes, response: bytes) -> None:
        """Called before the connection is made; `data` was read from it, or `response` is to be sent."""


class _Counted(NamedTuple):
    """An accepted connection, as it was counted."""

    socket: socket.socket
    key: AddressKey | None
    verdict: Verdict


class _Waiting(NamedTuple):
    connection: _Counted
    until: float


class PlainListener(Listener[AdoptingProtocol]):
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        make_protocol: Callable[[], AdoptingProtocol],
        shared: AnswersAtOnce,
    ) -> None:
        self._shared = shared
        self._limits = shared.limits
        # By descriptor, the longest waiting first.
        self.waiting: dict[int, _Waiting] = {}
        self._epoll = select.epoll()
        self._timer: asyncio.TimerHandle | None = None
        loop.add_reader(self._epoll.fileno(), self._read_ready)
        super().__init__(loop, sock, make_protocol)

    def close(self) -> None:
        if self._is_closed:
            return
        super().close()
        self._loop.remove_reader(self._epoll.fileno())
        self._epoll.close()
        if self._timer is not None:
            self._timer.cancel()
        for waiting in self.waiting.values():
            self._end(waiting.connection)
        self.waiting.clear()

    def _start(self, connection: socket.socket, address: str) -> None:
        key = self._limits.key_of(address)
        counted = _Counted(connection, key, self._limits.enter(key, connection.fileno()))
        try:
            data = connection.recv(READ_BYTES, socket.MSG_DONTWAIT)
        except BlockingIOError:
            if counted.verdict is Verdict.told_now:
                self._refuse(counted)
            else:
                self._wait(counted)
            return
        except OSError:
            data = b""
        self._serve(counted, data)

    def _serve(self, connection: _Counted, data: bytes) -> None:
        """Respond to the first bytes, or let a protocol do it. Empty: the client has disconnected."""
        if not data:
            self._end(connection)
        elif connection.verdict is not Verdict.admitted:
            self._serve_refused(connection, data)
        else:
            response = self._shared.respond_at_once(data)
            if response is None:
                self._hand_over(connection, data)
            elif not response[1]:
                self._hand_over(connection, response=response[0])
            else:
                # The buffer of a new connection holds far more than a response. The client may have disconnected.
                with suppress(OSError):
                    connection.socket.send(response[0], _SEND_FLAGS)
                self._end(connection)

    def _serve_refused(self, connection: _Counted, data: bytes) -> None:
        if self._shared.is_served_though_refused(data):
            self._hand_over(connection._replace(verdict=Verdict.refused), data)
        else:
            self._refuse(connection)

    def _refuse(self, connection: _Counted) -> None:
        """Refuse without a transport, which would keep the descriptor for longer."""
        with suppress(OSError):
            connection.socket.send(self._shared.refuse_at_once(), socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        self._end(connection)

    def _end(self, connection: _Counted) -> None:
        connection.socket.close()
        self._limits.leave(connection.key, connection.verdict)

    # Connections whose request has not arrived.

    def _wait(self, connection: _Counted) -> None:
        descriptor = connection.socket.fileno()
        self._epoll.register(descriptor, select.EPOLLIN)
        self.waiting[descriptor] = _Waiting(connection, time.monotonic() + WAIT_SECONDS)
        if self._timer is None:
            self._timer = self._loop.call_later(WAIT_SECONDS, self._end_waits)

    def _read_ready(self) -> None:
        for descriptor, _ in self._epoll.poll(0, READY_AT_ONCE):
            connection = self.waiting.pop(descriptor).connection
            self._epoll.unregister(descriptor)
            try:
                data = connection.socket.recv(READ_BYTES, socket.MSG_DONTWAIT)
            except OSError:
                data = b""
            self._serve(connection, data)

    def _end_waits(self) -> None:
        self._timer = None
        now = time.monotonic()
        while self.waiting:
            descriptor, waiting = next(iter(self.waiting.items()))
            if waiting.until > now:
                self._timer = self._loop.call_later(waiting.until - now, self._end_waits)
                return
            del self.waiting[descriptor]
            self._epoll.unregister(descriptor)
            self._hand_over(waiting.connection)

    # All other connections.

    def _hand_over(self, connection: _Counted, data: bytes = b"", response: bytes = b"") -> None:
        protocol = self._make_protocol()
        protocol.adopt(connection.key, connection.verdict, data, response)
        connection.socket.setblocking(False)
        self._run(self._connect(connection.socket, protocol))

    async def _connect(self, connection: socket.socket, protocol: AdoptingProtocol) -> None:
        is_made = False
        try:
            await self._loop.connect_accepted_socket(lambda: cast(asyncio.Protocol, protocol), connection)
            is_made = True
        except OSError:
            connection.close()
        finally:
            if not is_made:
                protocol.leave()
