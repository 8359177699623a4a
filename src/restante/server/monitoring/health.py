"""Health checks for load balancers and supervisors: `/healthz` (the process runs) and `/readyz` (it can serve).

Clients in the field call `/health` before they start: the same as `/readyz`.
"""

from collections.abc import Callable
from pathlib import Path

import msgspec

from restante.core.errors import Unavailable
from restante.database.database import Database
from restante.server.monitoring.readiness import Readiness
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.request import ApiRequest
from restante.web.routes import Access, Route


class Health(msgspec.Struct, omit_defaults=True):
    status: str
    # The roles of this process.
    roles: tuple[str, ...]
    # External systems that cannot be reached. The server works without them and stays in service.
    away: list[str] = []


class HealthRoutes:
    def __init__(
        self, database: Database, data: Path, roles: tuple[str, ...], away: Callable[[], list[str]] = list
    ) -> None:
        self._readiness = Readiness(database, data)
        self._roles = roles
        self._away = away

    def routes(self) -> list[Route]:
        return [
            Route(
                "GET",
                "/healthz",
                self.alive,
                Access.open,
                "Is the process alive",
                response_format=RESPONSE_FORMAT,
                tag="server",
            ),
            *(
                Route(
                    "GET",
                    path,
                    self.ready,
                    Access.open,
                    "Can the server read and write",
                    response_format=RESPONSE_FORMAT,
                    tag="server",
                    errors=(503,),
                )
                for path in ("/readyz", "/health")
            ),
        ]

    async def alive(self, _request: ApiRequest) -> Health:
        return Health("ok", self._roles)

    async def ready(self, _request: ApiRequest) -> Health:
        """Ready means that a read succeeds, writes reach the disk, and files and free space are there."""
        problem = await self._readiness.problem()
        if problem is not None:
            raise Unavailable(problem, retry_after_seconds=1)
        return Health("ready", self._roles, self._away())
