"""Event polling as one component: the poll of the clients' inboxes, and their retention."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from restante.database.database import Database
from restante.delivery.presence import Presence
from restante.delivery.retention import Sweep
from restante.events import metrics
from restante.events.api_versions import ApiPaths
from restante.events.counters import EventCounters
from restante.events.inbox.component import InboxPollComponent
from restante.events.inbox.fast_poll import fast_polls
from restante.events.inbox.inbox_retention import evict, write_last_poll
from restante.events.inbox.poll import EventPoll, PollOptions
from restante.events.inbox.routes import PollRoutes
from restante.events.publishing import event_audit
from restante.identity.clients.client_tokens import ClientTokens
from restante.web.component import MetricSample, Service
from restante.web.fast_lane_api import PollPost
from restante.web.routes import Route

DAY_SECONDS = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsOptions:
    """This protocol's settings. With `keep_audit_days` 0 the audit rows of events are never removed."""

    paths: ApiPaths
    poll: PollOptions
    keep_acknowledged_days: int
    keep_audit_days: int
    # An access token needs one of these scopes to poll.
    scopes: tuple[str, ...]


class EventsComponent(InboxPollComponent):
    def __init__(self, database: Database, client_tokens: ClientTokens, options: EventsOptions) -> None:
        self._database = database
        self._tokens = client_tokens
        self._options = options
        self.counters = EventCounters()
        self.presence = Presence(database, write_last_poll)
        self.poll = EventPoll(database, options.poll, self.presence, self.counters)
        self._inbox_counts: dict[str, int] = {}

    def routes(self) -> list[Route]:
        return [route for base in self._options.paths.bases() for route in PollRoutes(self.poll, base).routes()]

    def fast_polls(self) -> list[PollPost]:
        return fast_polls(self.poll, self._tokens, self._options.paths.bases(), self._options.scopes)

    def services(self) -> list[Service]:
        return [Service("clients' presence", self.presence.run, role="api")]

    def sweeps(self) -> list[Sweep]:
        keep_seconds = self._options.keep_acknowledged_days * DAY_SECONDS
        sweeps: list[Sweep] = [partial(evict, keep_seconds=keep_seconds)]
        if days := self._options.keep_audit_days:
            sweeps.append(partial(event_audit.forget_old, keep_seconds=days * DAY_SECONDS))
        return sweeps

    async def read_metrics(self) -> None:
        self._inbox_counts = await self._database.read(metrics.inbox_counts)

    def metrics(self) -> Iterable[MetricSample]:
        counters = self.counters
        yield MetricSample("restante_event_polls", counters.idle, ("idle",))
        yield MetricSample("restante_event_polls", counters.with_events, ("events",))
        yield MetricSample("restante_event_polls", counters.acknowledge_only, ("acknowledge_only",))
        yield MetricSample("restante_event_polls", counters.rate_limited, ("rate_limited",))
        yield MetricSample("restante_events_delivered", counters.delivered)
        yield MetricSample("restante_events_acknowledged", counters.acknowledged)
        yield MetricSample("restante_events_errored", counters.errored)
        yield MetricSample("restante_parked_event_polls", self.parked_count)
        yield MetricSample("restante_waits_ended_early", self.poll.ended_early)
        for status, count in self._inbox_counts.items():
            yield MetricSample("restante_event_inbox", count, (status,))

    async def finish(self) -> None:
        await self.presence.try_once()
