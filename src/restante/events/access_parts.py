"""Everything of access to event polling, put together: the token endpoint, what it sweeps, and what it counts."""

import structlog

from restante.database.database import Database
from restante.delivery.retention import Sweep
from restante.events import assertions, clients
from restante.events.access import AccessOptions, TokenTotals
from restante.events.routes_admin_clients import AdminClientRoutes
from restante.events.routes_token import TokenRoutes
from restante.web.peer import Peers
from restante.web.routes import Route

log = structlog.get_logger()


class EventAccess:
    def __init__(self, database: Database, peers: Peers, options: AccessOptions) -> None:
        self._database = database
        self._peers = peers
        self.options = options
        self.totals = TokenTotals()

    def routes(self) -> list[Route]:
        return [
            *TokenRoutes(self._database, self._peers, self.options, self.totals).routes(),
            *AdminClientRoutes(self._database, self.options, self.warn).routes(),
        ]

    async def warn(self) -> None:
        """Say how clients reach us where that is not as it should be; to who has none it does not matter."""
        if not self.options.warnings():
            return
        count = await self._database.read(clients.count)
        for warning in self.options.warnings() if count else ():
            log.warning(warning)

    def sweeps(self) -> list[Sweep]:
        return [assertions.forget_expired]
