"""Access of clients to event polling as one component: the token endpoint, and registration by operators."""

from collections.abc import Iterable

import structlog

from restante.database.database import Database
from restante.delivery.retention import Sweep
from restante.events.clients import clients
from restante.events.clients.access import AccessOptions, TokenCounters
from restante.events.clients.authentication import assertions
from restante.events.clients.authentication.remote_keys import RemoteKeys
from restante.events.clients.authentication.routes_token import TokenRoutes
from restante.events.clients.refusals import Refusals
from restante.events.clients.routes_admin import AdminClientRoutes, MakeKeys
from restante.events.clients.routes_client_state import ClientStateRoutes, NewestPoll
from restante.web.client_cert import ClientCertificates
from restante.web.component import Component, MetricSample, Service
from restante.web.routes import Route

log = structlog.get_logger()


class ClientAccessComponent(Component):
    def __init__(
        self,
        database: Database,
        client_certificates: ClientCertificates,
        options: AccessOptions,
        make_keys: MakeKeys,
        newest_poll: NewestPoll,
        remote_keys: RemoteKeys,
    ) -> None:
        self._database = database
        self._newest_poll = newest_poll
        self._remote_keys = remote_keys
        self._make_keys = make_keys
        self._client_certificates = client_certificates
        self.options = options
        self.counters = TokenCounters()
        self.refusals = Refusals(database)

    def routes(self) -> list[Route]:
        token_routes = TokenRoutes(
            self._database,
            self._client_certificates,
            self.options,
            self.counters,
            self.refusals,
            self._remote_keys,
        )
        admin_routes = AdminClientRoutes(
            self._database, self.options, self.warn, self._make_keys, self._newest_poll, self._remote_keys
        )
        return [
            *token_routes.routes(),
            *admin_routes.routes(),
            *ClientStateRoutes(self._database, self._newest_poll).routes(),
        ]

    async def start(self) -> None:
        await self.warn()

    async def warn(self) -> None:
        """Log how the settings weaken the access of clients, if any client is registered."""
        if not self.options.warnings():
            return
        count = await self._database.read(clients.count)
        for warning in self.options.warnings() if count else ():
            log.warning(warning)

    def services(self) -> list[Service]:
        return [Service("client refusals", self.refusals.run, role="api")]

    async def finish(self) -> None:
        await self.refusals.write()

    def sweeps(self) -> list[Sweep]:
        return [assertions.forget_expired]

    def metrics(self) -> Iterable[MetricSample]:
        for outcome, count in self.counters.requests.items():
            yield MetricSample("restante_token_requests", count, (outcome,))
        for reason, count in self.refusals.counts.items():
            yield MetricSample("restante_client_refusals", count, (reason,))
