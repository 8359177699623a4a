"""A real server for tests: one node in a thread with a loop of its own, behind two real sockets.

One socket is answered by the fast lane, the other by uvicorn's own protocol in front of the same application, so that
what the one says can be compared with what the other says. Connections are raw: bytes out, bytes in.
"""

import asyncio
import contextlib
import socket
import threading
import time
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
from restante.server.settings import Settings

T = TypeVar("T")

PATIENCE_SECONDS = 30.0


class Served:
    """A node being served; `is_still` leaves out the background services, and with them the ticking clock."""

    def __init__(
        self,
        folder: Path,
        *,
        clock: Callable[[], int] = wall_clock_ms,
        is_still: bool = False,
        engine: Engine | None = None,
        **settings: Any,
    ) -> None:
        engine = engine or SqliteEngine(folder / "restante.db", clock=clock)
        migrate(engine)
        self.node = Node(Settings(data=folder, **settings), engine, Database(engine), MasterKey(bytes(range(32))))
        self._is_still = is_still
        self._fast, self._plain = _listening(), _listening()
        self.fast_port: int = self._fast.getsockname()[1]
        self.plain_port: int = self._plain.getsockname()[1]
        self._servers: list[uvicorn.Server] = []
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="served", daemon=True)
        self._thread.start()
        assert self._is_ready.wait(PATIENCE_SECONDS)

    def call(self, work: Callable[..., T], *args: Any) -> T:
        """Run the function in the server's loop."""

        async def there() -> T:
            return work(*args)

        return self.wait_for(there())

    def wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the coroutine in the server's loop, to its end."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE_SECONDS)

    def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so in the server's loop."""
        end = time.monotonic() + PATIENCE_SECONDS
        while not self.call(is_so):
            assert time.monotonic() < end, "it never came to be so"
            # Whoever asks all the time keeps it from becoming so.
            time.sleep(0.002)

    def connect(self, port: int | None = None) -> "Wire":
        return Wire(port or self.fast_port)

    def close(self) -> None:
        self.call(lifecycle.stop_parking, self.node)
        for server in self._servers:
            server.should_exit = True
        self._thread.join(PATIENCE_SECONDS)
        self.node.close()
        self.node.database.close()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        still = await self._stand_still() if self._is_still else []
        lifespan = "off" if self._is_still else "on"
        fast = lifecycle.server_of(self.node, lifecycle.server_config(self.node, lifespan=lifespan))
        plain = uvicorn.Server(lifecycle.server_config(self.node, lifespan="off", http="httptools"))
        self._servers = [fast, plain]
        serving = asyncio.gather(fast.serve([self._fast]), plain.serve([self._plain]))
        while not (fast.started and plain.started):
            await asyncio.sleep(0.002)
        self._is_ready.set()
        await serving
        for task in still:
            task.cancel()

    async def _stand_still(self) -> "list[asyncio.Task[None]]":
        """The least that answers need: keys, what commits announce, deadlines, and Redis if there is one."""
        node, loop = self.node, self.loop

        def pass_on(announced: list[object]) -> None:
            loop.call_soon_threadsafe(lifecycle.hear, node, announced)

        async def tick() -> None:
            while True:
                await asyncio.sleep(0.01)
                node.lane.deadlines.tick(time.monotonic())

        node.database.on_commit(pass_on)
        await node.tokens.start()
        tasks = [asyncio.ensure_future(service.run()) for service in node.redis.services()]
        while node.redis.away():
            await asyncio.sleep(0.002)
        return [asyncio.create_task(tick()), *tasks]


def _listening() -> socket.socket:
    listening = socket.create_server(("127.0.0.1", 0), backlog=512)
    listening.setblocking(False)
    return listening


class WireAnswer(NamedTuple):
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def header(self, name: bytes) -> bytes | None:
        values = [value for each, value in self.headers if each == name]
        assert len(values) <= 1, f"{name!r} is there twice"
        return values[0] if values else None

    def without_date(self) -> "WireAnswer":
        return self._replace(headers=[pair for pair in self.headers if pair[0] != b"date"])


class Wire:
    """A raw connection to a server on this machine."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unread = b""

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def ask(self, data: bytes) -> WireAnswer:
        self.send(data)
        return self.answer()

    def answer(self, *, is_to_head: bool = False) -> WireAnswer:
        """The next answer."""
        while b"\r\n\r\n" not in self._unread:
            self._read_some()
        head, _, self._unread = self._unread.partition(b"\r\n\r\n")
        status_line, *lines = head.split(b"\r\n")
        pairs = [line.partition(b": ")[::2] for line in lines]
        status = int(status_line.split(b" ")[1])
        length = int(dict(pairs).get(b"content-length", b"0"))
        has_body = not is_to_head and status not in (100, 204, 304)
        while has_body and len(self._unread) < length:
            self._read_some()
        cut = length if has_body else 0
        body, self._unread = self._unread[:cut], self._unread[cut:]
        return WireAnswer(status, pairs, body)

    def answers_to_the_end(self) -> list[WireAnswer]:
        """Every answer until the server closes."""
        return list(self._until_closed())

    def is_closed_by_server(self) -> bool:
        """Wait for the server to close; False if it says anything instead."""
        try:
            return not self._unread and self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _until_closed(self) -> Iterator[WireAnswer]:
        with contextlib.suppress(EOFError, ConnectionResetError):
            while True:
                yield self.answer()

    def _read_some(self) -> None:
        data = self.socket.recv(65536)
        if not data:
            raise EOFError
        self._unread += data
