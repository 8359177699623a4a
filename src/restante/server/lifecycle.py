"""Starting and stopping, in the order that loses nothing.

    start: signing keys · dispatcher, wrap worker, presence, retention, clocks · listen
    stop:  answer the parked polls · listen no more · finish accepted work · stop the services · write presence

Also the ear of the process: what commits announce is heard here, in the event loop, and passed on to whom it concerns.
"""

import asyncio
import resource
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import TYPE_CHECKING, Any

import structlog
import uvicorn
from starlette.applications import Starlette
from starlette.types import Lifespan

from restante.database.writer import ForeignCommit
from restante.delivery.log import Published
from restante.delivery.outbox import Enqueued
from restante.identity.callers import DeviceRevoked
from restante.server.deadlines import SLOT_SECONDS
from restante.server.fast_lane import fast_lane_class
from restante.server.setting_kinds import Address
from restante.updates import rollout
from restante.updates.rollout import RolloutChanged

if TYPE_CHECKING:
    from restante.server.app import Node

log = structlog.get_logger()

BACKLOG = 4096


@contextmanager
def listening(address: Address) -> Iterator[socket.socket]:
    """A socket bound to the address, before anything else is started: one that is taken stops us here."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((address.host, address.port))
        except OSError as error:
            raise OSError(f"cannot listen on {address}: {error.strerror or error}") from error
        yield sock


def serve(node: "Node", sock: socket.socket) -> None:
    """Answer on the socket until SIGTERM or SIGINT."""
    raise_file_limit()
    _Server(server_config(node), lambda: stop_parking(node)).run([sock])


def server_config(node: "Node", **changed: Any) -> uvicorn.Config:
    """How uvicorn is to serve the node."""
    settings = node.settings
    options: dict[str, Any] = {
        "http": fast_lane_class(node.lane),
        "loop": "uvloop",
        "ws": "none",
        "lifespan": "on",
        "access_log": False,
        "log_config": None,
        "server_header": False,
        "proxy_headers": False,
        "backlog": BACKLOG,
        "timeout_keep_alive": int(settings.keep_alive_seconds),
        "timeout_graceful_shutdown": max(1, round(settings.shutdown_seconds)),
    }
    return uvicorn.Config(node.application(), **{**options, **changed})


def raise_file_limit() -> None:
    """A parked poll is an open file: take as many as the system lets us have."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def stop_parking(node: "Node") -> None:
    node.lane.is_closing = True
    node.poll.close()


def lifespan_of(node: "Node") -> Lifespan[Starlette]:
    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncIterator[None]:
        async with running(node):
            yield

    return lifespan


@asynccontextmanager
async def running(node: "Node") -> AsyncIterator[None]:
    """The node with its background services; they stop when the block ends."""
    loop = asyncio.get_running_loop()
    node.database.on_commit(lambda announced: _pass_on(loop, node, announced))
    await node.tokens.start()
    node.poll.rollout = await node.database.read(rollout.current)
    stop_wrapping = asyncio.Event()
    tasks = [
        _service("dispatcher", node.runner.run()),
        _service("wrap worker", node.wrap_worker.run(stop_wrapping)),
        _service("presence", node.presence.run()),
        _service("retention", node.retention.run()),
        _service("deadlines", _every(SLOT_SECONDS, lambda: node.lane.deadlines.tick(time.monotonic()))),
        _service("clock", _every(1.0, lambda: node.poll.tick(time.time()))),
        _service("buckets", _every(60.0, lambda: node.poll.buckets.forget_full(time.monotonic()))),
    ]
    log.info("started", listen=str(node.settings.listen), data=str(node.settings.data))
    try:
        yield
    finally:
        log.info("stopping", parked=node.poll.bell.waiting_count)
        node.poll.close()
        node.runner.stop()
        stop_wrapping.set()
        await asyncio.wait(tasks[:2], timeout=node.settings.shutdown_seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await node.presence.run_once()
        log.info("stopped")


def hear(node: "Node", announced: list[object]) -> None:
    """Pass on what a commit announced. Runs in the event loop."""
    for event in announced:
        match event:
            case Published():
                node.poll.hear(event)
            case Enqueued():
                node.runner.ring()
            case DeviceRevoked(device_id=device_id):
                node.tokens.forget_device(device_id)
            case RolloutChanged(rollout=changed):
                node.poll.rollout = changed
            case ForeignCommit():
                node.runner.ring()
                _service("catching up", _catch_up(node))


async def _catch_up(node: "Node") -> None:
    """Another process, a command beside the server, changed something: look at what it may have been."""
    await node.tokens.catch_up()
    node.poll.rollout = await node.database.read(rollout.current)


def _pass_on(loop: asyncio.AbstractEventLoop, node: "Node", announced: list[object]) -> None:
    # After the loop has closed nobody is left to be told.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(hear, node, announced)


_services: set[asyncio.Task[None]] = set()


def _service(name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    task = asyncio.ensure_future(work)
    _services.add(task)

    def ended(task: asyncio.Task[None]) -> None:
        _services.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a background service failed", service=name, error=repr(error), exc_info=error)

    task.add_done_callback(ended)
    return task


async def _every(seconds: float, work: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(seconds)
        work()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, before_shutdown: Callable[[], None]) -> None:
        super().__init__(config)
        self._before_shutdown = before_shutdown

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn does, without raising the signal again at the end: a stop that was asked for is a success."""
        handled = (signal.SIGINT, signal.SIGTERM)
        original = {number: signal.signal(number, self.handle_exit) for number in handled}
        try:
            yield
        finally:
            for number, handler in original.items():
                signal.signal(number, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Parked polls first: uvicorn would wait for them, and cut them off with a 500.
        self._before_shutdown()
        await super().shutdown(sockets)
