"""Waiting at the start for a PostgreSQL server that is not reachable yet.

    work ──reachable──▶ continue
     ▲ └──unreachable──▶ listen, respond "not ready" ──▶ probe with backoff ──reachable──┐
     └──────────────────────────────────────────────────────────────────────────────────┘

While the server waits, `/healthz` reports that the process is alive and all other paths report that it is not ready, so
neither a load balancer nor a supervisor takes it for broken. An error that waiting cannot fix (a wrong password, a
schema of a newer version) ends the start at once, and so does any error of an embedded database, which no other process
repairs.
"""

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from typing import TypeVar

import structlog
import uvicorn
from starlette.types import Receive, Scope, Send

from restante.core.backoff import Backoff
from restante.core.errors import Unavailable
from restante.database.engine import Engine
from restante.database.errors import AlreadyRunning, ConnectionRejected, DatabaseError, DatabaseUnavailable
from restante.server.config.settings import Settings
from restante.server.engines import database_location, engine_of
from restante.server.http.listening_server import ListeningServer
from restante.server.http.tls.files import tls_files
from restante.server.monitoring.health import Health
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.response import to_starlette

log = structlog.get_logger()

T = TypeVar("T")

PROBE_BACKOFF = Backoff(base_seconds=0.05, max_seconds=2.0, attempts_max=2**31)
LOG_INTERVAL_SECONDS = 60.0


class StoppedWhileWaiting(Exception):
    """SIGTERM or SIGINT ended the wait."""


class DatabaseWait:
    """The wait of one server. `sock` is bound; it stays open, with the connections in its backlog."""

    def __init__(self, settings: Settings, sock: socket.socket) -> None:
        self._settings = settings
        self._sock = sock
        self._location = database_location(settings)
        self._started_at = time.monotonic()
        self._logged_at: float | None = None

    def run_when_reachable(self, work: Callable[[], T]) -> T:
        """Run the work until the database is reachable, and return its result.

        Raises StoppedWhileWaiting, or an error that waiting cannot fix.
        """
        while True:
            try:
                result = work()
                break
            except AlreadyRunning:
                raise
            except DatabaseError as error:
                if not self._is_temporary(error):
                    raise type(error)(f"{self._location}: {error}") from error
                self._log_wait(error)
            asyncio.run(self._respond_until_reachable())
        if self._logged_at is not None:
            log.info("database reachable", waited_seconds=self._waited_seconds())
        return result

    def _is_temporary(self, error: DatabaseError) -> bool:
        return (
            self._settings.database is not None
            and isinstance(error, DatabaseUnavailable)
            and not isinstance(error, ConnectionRejected)
            and self._waited_seconds() < self._settings.database_wait_seconds
        )

    def _waited_seconds(self) -> float:
        return round(time.monotonic() - self._started_at, 3)

    def _log_wait(self, error: DatabaseError) -> None:
        """Log the first time, and then rarely."""
        now = time.monotonic()
        if self._logged_at is None or now >= self._logged_at + LOG_INTERVAL_SECONDS:
            self._logged_at = now
            log.warning(
                "waiting for the database",
                database=self._location,
                error=str(error),
                waited_seconds=self._waited_seconds(),
                wait_seconds_max=self._settings.database_wait_seconds,
            )

    async def _respond_until_reachable(self) -> None:
        """Serve "not ready" until another attempt makes sense: reachable, refused for good, or out of time."""
        config = uvicorn.Config(
            self._respond,
            interface="asgi3",
            lifespan="off",
            ws="none",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
        )
        server = ListeningServer(config, tls_files(self._settings), self._settings.header_deadline_seconds)
        probing = asyncio.ensure_future(self._probe_until_reachable(server))
        try:
            # A duplicate, because closing a server closes its socket.
            await server.serve([self._sock.dup()])
        finally:
            probing.cancel()
            with suppress(asyncio.CancelledError):
                await probing
        if server.was_stopped_by_signal:
            raise StoppedWhileWaiting

    async def _probe_until_reachable(self, server: uvicorn.Server) -> None:
        attempts = 0
        while (error := await _probe(engine_of(self._settings))) is not None and self._is_temporary(error):
            self._log_wait(error)
            attempts += 1
            await asyncio.sleep(PROBE_BACKOFF.delay_seconds(attempts) or 0.0)
        server.should_exit = True

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/healthz":
            response = RESPONSE_FORMAT.success(Health("ok", self._settings.roles))
        else:
            response = RESPONSE_FORMAT.error(Unavailable("the database cannot be reached yet", retry_after_seconds=1))
        await to_starlette(response)(scope, receive, send)


async def _probe(engine: Engine) -> DatabaseError | None:
    """Try to connect and return the error, if any. Runs in a daemon thread, so that a stop does not wait for it."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[DatabaseError | None] = loop.create_future()

    def connect() -> None:
        error = None
        try:
            with closing(engine.connect(writable=True)):
                pass
        except DatabaseError as connect_error:
            error = connect_error
        # The loop may be closed by now.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_set_result, outcome, error)

    threading.Thread(target=connect, name="restante-probe", daemon=True).start()
    return await outcome


def _set_result(outcome: "asyncio.Future[DatabaseError | None]", error: DatabaseError | None) -> None:
    if not outcome.done():
        outcome.set_result(error)
