"""Starting and stopping, in the order that loses nothing.

start:  components read what polls need · services start · listen
commit: components handle its events in the event loop, then the cluster publishes them to the other nodes
stop:   answer the parked polls · stop listening · finish accepted work · stop the services · write presence
"""

import asyncio
import gc
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog
import uvicorn
from starlette.applications import Starlette
from starlette.types import Lifespan

from restante.database.errors import DatabaseUnavailable
from restante.server.background_services import kept_running
from restante.server.config.setting_types import Address
from restante.server.config.settings import Settings
from restante.server.data_folder import DataFolder
from restante.server.http.connection_limits import ConnectionLimits, raise_descriptor_limit
from restante.server.http.fast_lane import fast_lane_class
from restante.server.http.listening_server import ListeningServer
from restante.server.http.local_socket import LocalSocket, local_lane_class, open_local_socket
from restante.server.http.tls.files import tls_files
from restante.server.monitoring.metrics_listener import serving_metrics

if TYPE_CHECKING:
    from restante.server.app import Node

log = structlog.get_logger()

BACKLOG = 4096
GARBAGE_THRESHOLD = 50_000
LAST_STEP_SECONDS = 0.5
HANGING_STEP_SECONDS = 0.1
# Of the time for a stop: for services to end after the requests, and for connections to close after the services.
SERVICES_SECONDS = 0.6
CLOSING_SECONDS = 0.4
FINISH_SECONDS = 10.0
HSTS_SECONDS = 365 * 86_400


@contextmanager
def listening(address: Address) -> Iterator[socket.socket]:
    """A socket bound to the address. Bound first of all, so that an address in use ends the start early."""
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((address.host, address.port))
        except OSError as error:
            raise OSError(f"cannot listen on {address}: {error.strerror or error}") from error
        yield sock


def serve(
    node: "Node",
    sock: socket.socket,
    when_listening: Callable[[], None] = lambda: None,
    *,
    has_local_socket: bool = True,
) -> None:
    """Answer on the socket until SIGTERM or SIGINT, and on the Unix socket of the data folder.

    `when_listening` is called once, when clients can connect to both.
    """
    limit_descriptors(node.lane.limits)
    collect_garbage_rarely()
    # Of several processes with different roles on one data folder, that with the API serves the socket.
    has_local_socket = has_local_socket and "api" in node.settings.roles
    local = open_local_socket(DataFolder(node.settings.data).socket_path) if has_local_socket else None
    try:
        server_of(node, server_config(node), local, when_listening).run([sock])
    finally:
        if local is not None:
            local.close()


def server_of(
    node: "Node",
    config: uvicorn.Config,
    local: LocalSocket | None = None,
    when_listening: Callable[[], None] = lambda: None,
) -> ListeningServer:
    return _Server(node, config, local, when_listening)


def server_config(node: "Node", **changed: Any) -> uvicorn.Config:
    """The configuration with which uvicorn serves the node."""
    settings = node.settings
    options: dict[str, Any] = {
        "http": fast_lane_class(node.lane),
        "loop": "uvloop",
        "ws": "none",
        "lifespan": "on",
        "access_log": False,
        "log_config": None,
        "server_header": False,
        "headers": default_headers(settings),
        "proxy_headers": False,
        "backlog": backlog_of(node.lane.limits),
        "timeout_keep_alive": settings.keep_alive_seconds,
        # Requests that wait for the database have been answered by then: see `stop_parking`.
        "timeout_graceful_shutdown": max(CLOSING_SECONDS, settings.shutdown_seconds),
    }
    return uvicorn.Config(node.application(), **{**options, **changed})


def limit_descriptors(limits: ConnectionLimits) -> None:
    """Every connection is an open file: raise the limit of descriptors, and say if it is too low all the same."""
    limit = raise_descriptor_limit()
    limits.set_descriptor_limit(limit)
    needed = limits.connections_max + limits.descriptor_reserve
    if limit < needed:
        log.warning(
            "the limit of file descriptors is too low for connections_max; further connections will be refused",
            limit=limit,
            needed=needed,
            connections_max=limits.connections_max,
        )


def backlog_of(limits: ConnectionLimits) -> int:
    """How many connections may wait to be accepted. All that wait are accepted at once, so if descriptors are few,
    no more may wait than the reserve can hold."""
    if limits.descriptor_limit >= limits.connections_max + limits.descriptor_reserve + BACKLOG:
        return BACKLOG
    return min(BACKLOG, max(limits.descriptor_reserve // 2, limits.descriptor_limit // 16))


def default_headers(settings: Settings) -> list[tuple[str, str]]:
    """The headers of every response, in the fast lane too: browsers keep to the media type, and to https."""
    headers = [("x-content-type-options", "nosniff")]
    # Browsers apply it to every port of a host, so a developer's server on loopback does not send it.
    if (settings.public_url or "").startswith("https://"):
        headers.append(("strict-transport-security", f"max-age={HSTS_SECONDS}"))
    return headers


def collect_garbage_rarely() -> None:
    """Collect less often: scanning what is cached for a million devices costs polls and finds no garbage.

    Objects loaded so far are never scanned: the first scan would take a tenth of the start.
    """
    gc.freeze()
    gc.set_threshold(GARBAGE_THRESHOLD, 20, 50)


def stop_parking(node: "Node") -> None:
    log.info("stopping", parked=node.components.parked_count)
    node.lane.is_closing = True
    seconds = node.settings.shutdown_seconds
    node.stop_by = time.monotonic() + seconds - min(CLOSING_SECONDS, seconds / 4)
    # Only calls that a hanging database does not answer fail then. All steps after them must fit into the rest.
    node.database.end_at(node.stop_by - min(SERVICES_SECONDS, seconds / 3))
    node.components.close()


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
    node.database.on_commit(lambda events: _in_loop(loop, node, events))
    await node.components.start()
    log.info("started", listen=str(node.settings.listen), data=str(node.settings.data))
    if node.cluster is not None:
        node.cluster.start()
    worker_metrics = node.metrics.worker_metrics
    async with (
        kept_running(node.services(), lambda: _seconds_left(node)),
        nullcontext() if worker_metrics is None else worker_metrics.serving(node.metrics.own),
        _metrics_apart(node),
    ):
        try:
            yield
        finally:
            node.stop_by = min(node.stop_by, time.monotonic() + node.settings.shutdown_seconds)
            node.components.close()
    try:
        # A database that hangs fails its calls earlier.
        async with asyncio.timeout(FINISH_SECONDS):
            await node.components.finish()
    except (TimeoutError, DatabaseUnavailable) as error:
        log.error("stopping without writing state that is only in memory", error=str(error) or "no answer in time")
    if node.cluster is not None:
        await asyncio.to_thread(node.cluster.close, _seconds_left(node))
    log.info("stopped")


def _seconds_left(node: "Node") -> float:
    """How long the next step of the stop may take: a while, even if all the time was used.

    A database that hangs is not worth the wait.
    """
    least = HANGING_STEP_SECONDS if node.database.is_hanging else LAST_STEP_SECONDS
    return max(least, node.stop_by - time.monotonic())


@asynccontextmanager
async def _metrics_apart(node: "Node") -> AsyncIterator[None]:
    settings, address = node.settings, node.settings.metrics_listen
    if address is None:
        yield
        return
    is_shared = settings.workers > 1
    async with serving_metrics(address, node.metrics.of_all, settings.metrics_token, shared=is_shared) as port:
        node.metrics.own_port = port
        log.info("serving metrics", listen=str(Address(address.host, port)))
        yield


def _in_loop(loop: asyncio.AbstractEventLoop, node: "Node", events: list[object]) -> None:
    # After the loop has closed there is nothing left to do.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(_handle_commit, node, events)


def _handle_commit(node: "Node", events: list[object]) -> None:
    node.components.handle_commit_events(events)
    if node.cluster is not None:
        node.cluster.publish(events)


class _Server(ListeningServer):
    def __init__(
        self, node: "Node", config: uvicorn.Config, local: LocalSocket | None, when_listening: Callable[[], None]
    ) -> None:
        super().__init__(config, tls_files(node.settings), node.settings.header_deadline_seconds)
        self._node = node
        self._local = local
        self._when_listening = when_listening
        self._local_server: asyncio.AbstractServer | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.should_exit:
            return
        if self._local is not None:
            protocol = partial(self.protocol_of, local_lane_class(self._node.lane))
            loop = asyncio.get_running_loop()
            self._local_server = await loop.create_unix_server(protocol, sock=self._local.socket)
        self._when_listening()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        # Answer the parked polls first: uvicorn would wait for them, and end them with a 500.
        stop_parking(self._node)
        if self._local_server is not None:
            self._local_server.close()
        await super().shutdown(sockets)
