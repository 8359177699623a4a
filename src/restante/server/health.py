"""Is the process alive (`/healthz`), and can it serve (`/readyz`): for load balancers and supervisors."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec

from restante.core.errors import Unavailable
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.errors import DatabaseError
from restante.identity import revisions
from restante.updates.wire import SHAPE
from restante.web.ask import Ask
from restante.web.routes import Access, Route

READY_WITHIN_SECONDS = 2.0
FREE_BYTES_MIN = 16 * 1024 * 1024


class Health(msgspec.Struct, omit_defaults=True):
    status: str
    # What this process does.
    roles: tuple[str, ...]
    # What cannot be reached now and is gone on without: no reason to take the server out of service.
    away: list[str] = []


class HealthRoutes:
    def __init__(
        self, database: Database, data: Path, roles: tuple[str, ...], away: Callable[[], list[str]] = list
    ) -> None:
        self._database = database
        self._data = data
        self._roles = roles
        self._away = away

    def routes(self) -> list[Route]:
        return [
            Route("GET", "/healthz", self.alive, Access.open, "Is the process alive", shape=SHAPE, tag="server"),
            Route(
                "GET",
                "/readyz",
                self.ready,
                Access.open,
                "Can the server read and write",
                shape=SHAPE,
                tag="server",
                refusals=(503,),
            ),
        ]

    async def alive(self, _ask: Ask) -> Health:
        return Health("ok", self._roles)

    async def ready(self, _ask: Ask) -> Health:
        """Ready means that a read is answered, a write gets its turn, and there is room to keep it."""
        if shutil.disk_usage(self._data).free < FREE_BYTES_MIN:
            raise Unavailable("the disk is full", retry_after_seconds=1)
        try:
            async with asyncio.timeout(READY_WITHIN_SECONDS):
                await self._database.read(revisions.current)
                await self._database.write(_nothing)
        except (TimeoutError, DatabaseError) as error:
            raise Unavailable("the database does not answer", retry_after_seconds=1) from error
        return Health("ready", self._roles, self._away())


def _nothing(_conn: Connection) -> None:
    """A write that changes nothing: it proves that the writer takes turns."""
