"""Everything of access to event polling, put together: the token endpoint, what it sweeps, and what it counts."""

from restante.database.database import Database
from restante.delivery.retention import Sweep
from restante.events import assertions
from restante.events.access import AccessOptions, TokenTotals
from restante.events.routes_token import TokenRoutes
from restante.web.peer import Peers
from restante.web.routes import Route


class EventAccess:
    def __init__(self, database: Database, peers: Peers, options: AccessOptions) -> None:
        self._database = database
        self._peers = peers
        self.options = options
        self.totals = TokenTotals()

    def routes(self) -> list[Route]:
        return TokenRoutes(self._database, self._peers, self.options, self.totals).routes()

    def sweeps(self) -> list[Sweep]:
        return [assertions.forget_expired]
