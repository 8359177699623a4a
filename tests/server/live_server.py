"""A real server for tests: one node in a thread with its own event loop, on two real sockets.

The fast lane serves one socket, uvicorn's own protocol the other, in front of the same application, so that tests can
compare their responses. Connections are raw: bytes out, bytes in.
"""

import asyncio
import contextlib
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import uvicorn
import uvloop

from restante.database.database import Database
from restante.database.engine import Engine
from restante.database.migrate import migrate
from restante.database.sqlite import SqliteEngine, wall_clock_ms
from restante.identity.master_key import MasterKey
from restante.server import lifecycle
from restante.server.app import Node
from restante.server.config.setting_types import Address
from restante.server.config.settings import Settings
from restante.server.data_folder import DataFolder
from restante.server.http.bounded_protocol import bounded_protocol_class
from restante.server.http.listening_server import ListeningServer
from restante.server.http.local_socket import open_local_socket
from restante.updates.response_format import RESPONSE_FORMAT

T = TypeVar("T")

TIMEOUT_SECONDS = 30.0


class TwoLaneServer(ABC):
    """A server in a thread with its own event loop, on two sockets. A subclass sets its state, then calls `start`."""

    loop: asyncio.AbstractEventLoop

    def __init__(self) -> None:
        self._fast, self._plain = _listening(), _listening()
        self.fast_port: int = self._fast.getsockname()[1]
        self.plain_port: int = self._plain.getsockname()[1]

    def start(self) -> None:
        self._servers: list[uvicorn.Server] = []
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__, daemon=True)
        self._thread.start()
        assert self._is_ready.wait(TIMEOUT_SECONDS)

    def call(self, work: Callable[..., T], *args: Any) -> T:
        """Run the function in the server's event loop."""

        async def run() -> T:
            return work(*args)

        return self.wait_for(run())

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine in the server's event loop, and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(TIMEOUT_SECONDS)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition is true in the server's loop."""
        end = time.monotonic() + TIMEOUT_SECONDS
        while not self.call(condition):
            assert time.monotonic() < end, "the condition never became true"
            # Checking without a pause would keep the loop from its work.
            time.sleep(0.002)

    def wait_until_idle(self) -> None:
        """Wait until the application has finished every request, also those of connections that were closed."""
        self.wait_until(lambda: not any(server.server_state.tasks for server in self._servers))

    def connect(self, port: int | None = None) -> "RawConnection":
        return RawConnection(port or self.fast_port)

    def stop(self) -> None:
        for server in self._servers:
            server.should_exit = True
        self._thread.join(TIMEOUT_SECONDS)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve())

    @abstractmethod
    async def _serve(self) -> None:
        """Set `loop`, prepare both servers and call `_serve_both`."""

    async def _serve_both(self, fast: uvicorn.Server, plain: uvicorn.Server) -> None:
        self._servers = [fast, plain]
        serving = asyncio.gather(fast.serve([self._fast]), plain.serve([self._plain]))
        while not (fast.started and plain.started):
            await asyncio.sleep(0.002)
        self._is_ready.set()
        await serving


class LiveServer(TwoLaneServer):
    """A running node. Without `has_services` no background service runs, and the clock of the node does not tick."""

    def __init__(
        self,
        folder: Path,
        *,
        clock: Callable[[], int] = wall_clock_ms,
        has_services: bool = True,
        has_local_socket: bool = False,
        engine: Engine | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        engine = engine or SqliteEngine(folder / "restante.db", clock=clock)
        migrate(engine)
        settings.setdefault("listen", Address("127.0.0.1", self.fast_port))
        self.node = Node(Settings(data=folder, **settings), engine, Database(engine), MasterKey(bytes(range(32))))
        self._has_services = has_services
        self._local = open_local_socket(DataFolder(folder).socket_path) if has_local_socket else None
        self.start()

    @property
    def listening_server(self) -> ListeningServer:
        """The uvicorn server of the fast lane."""
        server = self._servers[0]
        assert isinstance(server, ListeningServer)
        return server

    def close(self) -> None:
        self.call(lifecycle.stop_parking, self.node)
        self.stop()
        if self._local is not None:
            self._local.close()
        self.node.close()
        self.node.database.close()

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        tasks = [] if self._has_services else await self._start_essentials()
        lifespan = "on" if self._has_services else "off"
        fast = lifecycle.server_of(self.node, lifecycle.server_config(self.node, lifespan=lifespan), self._local)
        plain = uvicorn.Server(
            lifecycle.server_config(self.node, lifespan="off", http=bounded_protocol_class(RESPONSE_FORMAT))
        )
        await self._serve_both(fast, plain)
        for task in tasks:
            task.cancel()

    async def _start_essentials(self) -> "list[asyncio.Task[None]]":
        """Start what responses need at least: keys, commit events, deadlines, and Redis if there is one."""
        node, loop = self.node, self.loop

        def handle(events: list[object]) -> None:
            loop.call_soon_threadsafe(node.components.handle_commit_events, events)

        async def tick() -> None:
            while True:
                await asyncio.sleep(0.01)
                node.lane.deadlines.tick(time.monotonic())

        node.database.on_commit(handle)
        await node.identity.device_tokens.start()
        tasks = [asyncio.ensure_future(service.run()) for service in node.redis.services()]
        while node.redis.unavailable():
            await asyncio.sleep(0.002)
        return [asyncio.create_task(tick()), *tasks]


def _listening() -> socket.socket:
    listening = socket.create_server(("127.0.0.1", 0), backlog=512)
    listening.setblocking(False)
    return listening


_SERVER_HEADERS = (b"date", b"x-content-type-options", b"strict-transport-security")


class RawResponse(NamedTuple):
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def header(self, name: bytes) -> bytes | None:
        values = [value for each, value in self.headers if each == name]
        assert len(values) <= 1, f"{name!r} occurs twice"
        return values[0] if values else None

    def without_date(self) -> "RawResponse":
        """The response without what uvicorn adds to every response, and the application itself does not."""
        return self._replace(headers=[pair for pair in self.headers if pair[0] not in _SERVER_HEADERS])


class RawConnection:
    """A raw connection to a server on this machine."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unread = b""

    def __enter__(self) -> "RawConnection":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def request(self, data: bytes) -> RawResponse:
        self.send(data)
        return self.response()

    def response(self, *, is_head: bool = False) -> RawResponse:
        """Read the next response."""
        while b"\r\n\r\n" not in self._unread:
            self._read_some()
        head, _, self._unread = self._unread.partition(b"\r\n\r\n")
        status_line, *lines = head.split(b"\r\n")
        pairs = [line.partition(b": ")[::2] for line in lines]
        status = int(status_line.split(b" ")[1])
        length = int(dict(pairs).get(b"content-length", b"0"))
        has_body = not is_head and status not in (100, 204, 304)
        while has_body and len(self._unread) < length:
            self._read_some()
        cut = length if has_body else 0
        body, self._unread = self._unread[:cut], self._unread[cut:]
        return RawResponse(status, pairs, body)

    def responses_until_close(self) -> list[RawResponse]:
        """Read all responses until the server closes the connection."""
        return list(self._until_closed())

    def is_closed_by_server(self) -> bool:
        """Wait for the server to close the connection; False if it sends anything instead."""
        try:
            return not self._unread and self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _until_closed(self) -> Iterator[RawResponse]:
        with contextlib.suppress(EOFError, ConnectionResetError):
            while True:
                yield self.response()

    def _read_some(self) -> None:
        data = self.socket.recv(65536)
        if not data:
            raise EOFError
        self._unread += data


def is_refused(responses: list[RawResponse]) -> bool:
    """Whether the last response refuses the request and closes the connection; or the server only closed it."""
    return not responses or (responses[-1].status == 400 and responses[-1].header(b"connection") == b"close")
