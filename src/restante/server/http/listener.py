"""Accepts connections from a listening socket, and counts each one before anything else is done for it.

    readable ─▶ accept, some at a time ─▶ `_start` of the subclass
                   └ no descriptor left ─▶ the spare one is closed, so that the connection can be accepted and closed

Does not know what a connection is for.
"""

import asyncio
import errno
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Generic, Protocol, TypeVar

from restante.server.http.connection_limits import Verdict

ACCEPTED_AT_ONCE = 64
# The type below Python's `socket.socket`: made without looking up names of numbers, which takes 1.4 µs longer.
PlainSocket = socket.SocketType
# The kernel keeps a new connection until its first bytes are there, for about so long.
DEFER_SECONDS = 1
# After a failure for want of descriptors or memory, to leave the event loop time for other work.
PAUSE_SECONDS = 0.1
_STREAM = int(socket.SOCK_STREAM)
_OUT_OF_DESCRIPTORS = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}


class CountedProtocol(Protocol):
    """A protocol whose connection is counted before it is made."""

    def enter(self, address: str, descriptor: int) -> Verdict: ...
    def leave(self) -> None: ...
    def count_unaccepted(self) -> None: ...


P = TypeVar("P", bound=CountedProtocol)


class Listener(ABC, Generic[P]):
    def __init__(self, loop: asyncio.AbstractEventLoop, sock: socket.socket, make_protocol: Callable[[], P]) -> None:
        self._loop = loop
        self._socket = sock
        self._family = int(sock.family)
        self._make_protocol = make_protocol
        self._tasks: set[asyncio.Task[None]] = set()
        self._spare: int | None = None
        self._is_closed = False
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, DEFER_SECONDS)
        self._open_spare()
        loop.add_reader(sock.fileno(), self._accept_ready)

    def close(self) -> None:
        """Accept no more. Connections that are being made stay."""
        if not self._is_closed:
            self._is_closed = True
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._close_spare()

    async def wait_closed(self) -> None:
        for task in list(self._tasks):
            task.cancel()

    @abstractmethod
    def _start(self, connection: PlainSocket, address: str) -> None:
        """Begin to serve an accepted connection, or close it."""

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run the coroutine as a task of this listener."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _accept_ready(self) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                descriptor, address = self._socket._accept()  # type: ignore[attr-defined]
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_DESCRIPTORS:
                    raise
                self._close_one_unanswered()
                return
            self._start(PlainSocket(self._family, _STREAM, 0, descriptor), address[0])

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


def whole_socket(connection: PlainSocket) -> socket.socket:
    """The connection as the event loop takes it: not blocking."""
    whole = socket.socket(connection.family, connection.type, connection.proto, connection.detach())
    whole.setblocking(False)
    return whole
