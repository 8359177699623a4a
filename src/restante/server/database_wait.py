"""Waiting, at the start, for a PostgreSQL server that cannot be reached yet.

    try ──reached──▶ go on
     ▲ └─cannot be reached─▶ listen, say "not ready" ─▶ knock, later and later ──somebody there──▶ try again

Meanwhile `/healthz` says that the process is alive, and everything else that it is not ready, so that neither a load
balancer nor a supervisor takes it for broken. What waiting does not mend (a wrong password, a schema of a newer
version) ends the start at once, and so does an embedded database: nobody else is going to repair that one.
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
from restante.database.errors import AlreadyRunning, DatabaseError, DatabaseRefused, DatabaseUnavailable
from restante.server.engines import engine_of, place_of
from restante.server.health import Health
from restante.server.settings import Settings
from restante.server.tls import tls_files
from restante.server.tls_listening import ListeningServer
from restante.updates.wire import SHAPE
from restante.web.answer import as_response

log = structlog.get_logger()

T = TypeVar("T")

PAUSES = Backoff(base_seconds=0.05, max_seconds=2.0, attempts_max=2**31)
TOLD_AGAIN_SECONDS = 60.0


class ToldToStop(Exception):
    """Somebody ended the wait with SIGTERM or SIGINT."""


class DatabaseWait:
    """The wait of one server. `sock` is bound, and is as it was afterwards, with whoever has connected meanwhile."""

    def __init__(self, settings: Settings, sock: socket.socket) -> None:
        self._settings = settings
        self._sock = sock
        self._place = place_of(settings)
        self._started_at = time.monotonic()
        self._told_at: float | None = None

    def until_done(self, work: Callable[[], T]) -> T:
        """What the work returns, once it finds the database. ToldToStop, or the error that waiting does not mend."""
        while True:
            try:
                done = work()
                break
            except AlreadyRunning:
                raise
            except DatabaseError as error:
                if not self._may_pass(error):
                    raise type(error)(f"{self._place}: {error}") from error
                self._tell(error)
            asyncio.run(self._answering_until_there())
        if self._told_at is not None:
            log.info("the database is there", waited_seconds=self._waited_seconds())
        return done

    def _may_pass(self, error: DatabaseError) -> bool:
        return (
            self._settings.database is not None
            and isinstance(error, DatabaseUnavailable)
            and not isinstance(error, DatabaseRefused)
            and self._waited_seconds() < self._settings.database_wait_seconds
        )

    def _waited_seconds(self) -> float:
        return round(time.monotonic() - self._started_at, 3)

    def _tell(self, error: DatabaseError) -> None:
        """Once, and then rarely."""
        now = time.monotonic()
        if self._told_at is None or now >= self._told_at + TOLD_AGAIN_SECONDS:
            self._told_at = now
            log.warning(
                "the database cannot be reached, it is waited for",
                database=self._place,
                error=str(error),
                waited_seconds=self._waited_seconds(),
                wait_seconds_max=self._settings.database_wait_seconds,
            )

    async def _answering_until_there(self) -> None:
        """Until it is worth another try: a connection was made, was refused for good, or it has taken too long."""
        config = uvicorn.Config(
            self._answer,
            interface="asgi3",
            lifespan="off",
            ws="none",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
        )
        server = ListeningServer(config, tls_files(self._settings), self._settings.header_deadline_seconds)
        knocking = asyncio.ensure_future(self._knock_until_there(server))
        try:
            # A copy, as closing a server closes its socket.
            await server.serve([self._sock.dup()])
        finally:
            knocking.cancel()
            with suppress(asyncio.CancelledError):
                await knocking
        if server.is_told_to_stop:
            raise ToldToStop

    async def _knock_until_there(self, server: uvicorn.Server) -> None:
        attempts = 0
        while (error := await _knocked(engine_of(self._settings))) is not None and self._may_pass(error):
            self._tell(error)
            attempts += 1
            await asyncio.sleep(PAUSES.delay_seconds(attempts) or 0.0)
        server.should_exit = True

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/healthz":
            answer = SHAPE.success(Health("ok", self._settings.roles))
        else:
            answer = SHAPE.error(Unavailable("the database cannot be reached yet", retry_after_seconds=1))
        await as_response(answer)(scope, receive, send)


async def _knocked(engine: Engine) -> DatabaseError | None:
    """Try to connect; what stood in the way. In a thread that nobody waits for if the server is told to stop."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[DatabaseError | None] = loop.create_future()

    def knock() -> None:
        error = None
        try:
            with closing(engine.connect(writable=True)):
                pass
        except DatabaseError as failed:
            error = failed
        # After the loop has closed nobody is left to be told.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_settle, outcome, error)

    threading.Thread(target=knock, name="restante-knock", daemon=True).start()
    return await outcome


def _settle(outcome: "asyncio.Future[DatabaseError | None]", error: DatabaseError | None) -> None:
    if not outcome.done():
        outcome.set_result(error)
