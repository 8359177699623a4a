"""Starting and stopping, in the order that loses nothing.

    start: signing keys · dispatcher, wrap worker, presence, retention, clocks · listen
    stop:  answer the parked polls · listen no more · finish accepted work · stop the services · write presence

Also the ear of the process: what commits announce is heard here, in the event loop, and passed on to whom it concerns.
"""

import asyncio
import gc
import resource
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

import structlog
import uvicorn
from starlette.applications import Starlette
from starlette.types import Lifespan

from restante.core.backoff import Backoff
from restante.database.errors import DatabaseUnavailable
from restante.database.writer import ForeignCommit, NewsLost
from restante.delivery.log import Published
from restante.delivery.outbox import Enqueued
from restante.identity.callers import DeviceRevoked
from restante.identity.signing_keys import KeysRotated
from restante.server.fast_lane import fast_lane_class
from restante.server.services import kept_running
from restante.server.setting_kinds import Address
from restante.server.tls import TlsFiles, tls_files
from restante.server.tls_listening import ListeningServer
from restante.updates import rollout
from restante.updates.assignments import WrapsPending
from restante.updates.rollout import RolloutChanged

if TYPE_CHECKING:
    from restante.server.app import Node

log = structlog.get_logger()

BACKLOG = 4096
GARBAGE_THRESHOLD = 50_000
# Nine seconds in all.
READ_AGAIN = Backoff(base_seconds=0.05, max_seconds=1.0, attempts_max=13)


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
    collect_garbage_rarely()
    server_of(node, server_config(node)).run([sock])


def server_of(node: "Node", config: uvicorn.Config) -> ListeningServer:
    files = tls_files(node.settings)
    return _Server(config, files, node.settings.header_deadline_seconds, lambda: stop_parking(node))


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
        "timeout_keep_alive": settings.keep_alive_seconds,
        "timeout_graceful_shutdown": max(1, round(settings.shutdown_seconds)),
    }
    return uvicorn.Config(node.application(), **{**options, **changed})


def raise_file_limit() -> None:
    """A parked poll is an open file: take as many as the system lets us have."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def collect_garbage_rarely() -> None:
    """What is remembered for a million devices is no garbage: looking through it again and again costs polls. Nor is
    what was loaded until now, not even once: that would be a tenth of the start."""
    gc.freeze()
    gc.set_threshold(GARBAGE_THRESHOLD, 20, 50)


def stop_parking(node: "Node") -> None:
    bells = (node.poll.bell, node.commands.poll.bell, node.events.poll.bell, node.signals.poll.bell)
    log.info("stopping", parked=sum(bell.waiting_count for bell in bells))
    node.lane.is_closing = True
    node.poll.close()
    node.commands.close()
    node.events.close()
    node.signals.close()


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
    await _read_first(node)
    log.info("started", listen=str(node.settings.listen), data=str(node.settings.data))
    if node.neighbours is not None:
        node.neighbours.start()
    colleagues = node.metrics.colleagues
    async with (
        kept_running(node.services(), node.settings.shutdown_seconds),
        nullcontext() if colleagues is None else colleagues.answering(node.metrics.own),
    ):
        try:
            yield
        finally:
            node.poll.close()
            node.commands.close()
            node.events.close()
            node.signals.close()
    await node.presence.try_once()
    await node.commands.finish()
    await node.events.finish()
    node.event_push.close()
    if node.neighbours is not None:
        await asyncio.to_thread(node.neighbours.close)
    log.info("stopped")


async def _read_first(node: "Node") -> None:
    """What polls need to know. A database that goes away in this very moment is given a while to come back."""
    attempts = 0
    while True:
        try:
            await node.tokens.start()
            node.poll.rollout = await node.database.read(rollout.current)
            await node.event_access.warn()
            return
        except DatabaseUnavailable:
            attempts += 1
            pause = READ_AGAIN.delay_seconds(attempts)
            if pause is None:
                raise
            await asyncio.sleep(pause)


def hear(node: "Node", announced: list[object]) -> None:
    """Pass on what a commit announced. Runs in the event loop."""
    for event in announced:
        try:
            _hear_one(node, event)
        except Exception:
            # What was not heard may be news: knowledge that may be wrong is dropped, and read again.
            log.exception("an announcement could not be passed on", announced=type(event).__name__)
            node.tokens.forget_all()
            node.client_tokens.forget_all()
            node.poll.look_again()
            node.events.poll.bell.ring_all()
            node.signals.poll.bell.ring_all()


def _hear_one(node: "Node", event: object) -> None:
    node.commands.hear(event)
    node.events.hear(event)
    node.event_push.hear(event)
    node.signals.hear(event)
    match event:
        case Published():
            node.poll.hear(event)
            node.redis.copy(event)
        case Enqueued():
            node.runner.ring()
        case WrapsPending():
            node.wrap_worker.ring()
        case DeviceRevoked(device_id=device_id):
            node.tokens.forget_device(device_id)
        case RolloutChanged(rollout=changed):
            node.poll.rollout = changed
        case NewsLost():
            node.tokens.forget_all()
            node.client_tokens.forget_all()
            node.poll.look_again()
        case KeysRotated():
            node.foreign_commits.ring()
        case ForeignCommit():
            node.runner.ring()
            node.wrap_worker.ring()
            node.foreign_commits.ring()


def _pass_on(loop: asyncio.AbstractEventLoop, node: "Node", announced: list[object]) -> None:
    # After the loop has closed nobody is left to be told.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(_hear_and_tell, node, announced)


def _hear_and_tell(node: "Node", announced: list[object]) -> None:
    hear(node, announced)
    if node.neighbours is not None:
        node.neighbours.tell(announced)


class _Server(ListeningServer):
    def __init__(
        self,
        config: uvicorn.Config,
        files: TlsFiles | None,
        handshake_seconds: float,
        before_shutdown: Callable[[], None],
    ) -> None:
        super().__init__(config, files, handshake_seconds)
        self._before_shutdown = before_shutdown

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Parked polls first: uvicorn would wait for them, and cut them off with a 500.
        self._before_shutdown()
        await super().shutdown(sockets)
