"""Shared Signals as one component: streams, their poll, and the routes for operators."""

from collections.abc import Iterable

from restante.database.database import Database
from restante.delivery.presence import Presence
from restante.events.counters import EventCounters
from restante.events.inbox.component import InboxPollComponent
from restante.events.inbox.inbox import SHARED_SIGNALS
from restante.events.inbox.poll import EventPoll, PollOptions
from restante.events.outgoing_http import OutgoingClient
from restante.events.ssf.options import SharedSignalsOptions
from restante.events.ssf.routes_admin import AdminStreamRoutes
from restante.events.ssf.routes_control import StreamControlRoutes
from restante.events.ssf.routes_poll import StreamPollRoutes
from restante.events.ssf.routes_streams import StreamRoutes
from restante.identity.master_key import MasterKey
from restante.web.component import MetricSample
from restante.web.routes import Route


class SharedSignalsComponent(InboxPollComponent):
    def __init__(
        self,
        database: Database,
        master_key: MasterKey,
        client: OutgoingClient,
        presence: Presence,
        counters: EventCounters,
        poll: PollOptions,
        options: SharedSignalsOptions,
    ) -> None:
        self._database = database
        self._master_key = master_key
        self._client = client
        self._options = options
        self.poll = EventPoll(database, poll, presence, counters, profile=SHARED_SIGNALS)

    def routes(self) -> list[Route]:
        return [
            *StreamControlRoutes(self._database, self._options).routes(),
            *StreamRoutes(self._database, self._client, self._master_key, self._options).routes(),
            *StreamPollRoutes(self._database, self.poll).routes(),
            *AdminStreamRoutes(self._database).routes(),
        ]

    def metrics(self) -> Iterable[MetricSample]:
        yield MetricSample("restante_parked_event_polls", self.parked_count)
        yield MetricSample("restante_waits_ended_early", self.poll.ended_early)
