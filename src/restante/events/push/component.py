"""Push as one component: event subscriptions, and the service that pushes events to receivers."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from restante.database.commit_events import ForeignCommit
from restante.database.connection import Connection
from restante.database.database import Database
from restante.events.api_versions import ApiBase
from restante.events.outgoing_http import OutgoingClient
from restante.events.push import push_queue
from restante.events.push.pusher import Pusher, PushOptions
from restante.events.push.receivers import PushDue
from restante.events.push.routes import SubscriptionRoutes
from restante.events.signing.message_signatures import MessageSignatures
from restante.identity.master_key import MasterKey
from restante.web.component import Component, EventHandler, MetricSample, Service
from restante.web.routes import Route


@dataclass(frozen=True, slots=True)
class SubscriptionOptions:
    """Where subscriptions are served, and how their messages are signed."""

    bases: list[ApiBase]
    base_url: str
    signatures: MessageSignatures


class PushComponent(Component):
    def __init__(
        self,
        database: Database,
        master_key: MasterKey,
        options: PushOptions,
        subscriptions: SubscriptionOptions,
        client: OutgoingClient | None = None,
    ) -> None:
        self._database = database
        self._options = options
        self._subscriptions = subscriptions
        self.pusher = Pusher(database, master_key, options, client)
        self._open_circuits = 0

    def routes(self) -> list[Route]:
        client, options = self.pusher.client, self._subscriptions
        all_routes = (
            SubscriptionRoutes(self._database, client, base, options.base_url, options.signatures)
            for base in options.bases
        )
        return [route for routes in all_routes for route in routes.routes()]

    def services(self) -> list[Service]:
        return [Service("event push", self.pusher.run, self.pusher.stop, role="push")]

    def release_leases(self, conn: Connection) -> None:
        push_queue.release_all(conn)

    def commit_event_handlers(self) -> Mapping[type, EventHandler]:
        return {PushDue: lambda _: self.pusher.wake(), ForeignCommit: lambda _: self.pusher.wake()}

    def recheck(self) -> None:
        self.pusher.wake()

    async def read_metrics(self) -> None:
        failures = self._options.rules.circuit_failures
        self._open_circuits = await self._database.read(push_queue.open_circuits, failures)

    def metrics(self) -> Iterable[MetricSample]:
        counters = self.pusher.counters
        yield MetricSample("restante_event_pushes", counters.delivered, ("delivered",))
        yield MetricSample("restante_event_pushes", counters.refused, ("refused",))
        yield MetricSample("restante_event_pushes", counters.failed, ("failed",))
        yield MetricSample("restante_event_pushes_given_up", counters.given_up)
        yield MetricSample("restante_event_circuits_open", self._open_circuits)

    async def finish(self) -> None:
        self.pusher.close()
