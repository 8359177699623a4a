"""Every metric the server gives out, in one place: `GET /metrics` in the Prometheus text format.

The hot paths count with plain integers; a collector reads them when somebody asks. Labels never carry an id, a token
or anything else a caller can choose freely.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from prometheus_client import CollectorRegistry, Counter, GCCollector, Histogram, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from restante.commands.poll import CommandPoll
from restante.commands.totals import CommandTotals
from restante.database.database import Database
from restante.delivery import outbox
from restante.delivery.dispatcher import Dispatcher
from restante.events.access import TokenTotals
from restante.events.parts import EventsParts
from restante.events.push_parts import EventPush
from restante.identity.device_tokens import DeviceTokens
from restante.server.colleagues import Colleagues
from restante.server.commands_metrics import CommandsMetrics
from restante.server.events_metrics import EventsMetrics
from restante.server.fast_lane import LaneShared
from restante.server.neighbours import Neighbours
from restante.server.outside_outboxes import OutsideOutboxes
from restante.server.redis_parts import RedisParts
from restante.updates.poll import Poll
from restante.updates.wire import SHAPE
from restante.web.answer import NO_STORE, Answer
from restante.web.ask import Ask
from restante.web.routes import Access, Route


class MetricsSources(NamedTuple):
    """Whose counts are given out."""

    database: Database
    poll: Poll
    dispatcher: Dispatcher
    lane: LaneShared
    tokens: DeviceTokens
    commands: CommandTotals
    outboxes: OutsideOutboxes
    events: EventsParts
    token_requests: TokenTotals
    event_push: EventPush
    command_poll: CommandPoll
    redis: RedisParts
    neighbours: Neighbours | None = None


class Meaning(NamedTuple):
    kind: type[CounterMetricFamily] | type[GaugeMetricFamily]
    help: str
    label: str | None = None


METRICS = {
    "restante_polls": Meaning(CounterMetricFamily, "Polls for device updates answered, by outcome.", "outcome"),
    "restante_signals_delivered": Meaning(CounterMetricFamily, "Signals handed to devices."),
    "restante_parked_polls": Meaning(GaugeMetricFamily, "Polls that wait for a signal or a command now."),
    "restante_known_tails": Meaning(GaugeMetricFamily, "Devices whose idle polls are answered from memory."),
    "restante_cached_tokens": Meaning(GaugeMetricFamily, "Verified device tokens in memory."),
    "restante_connections": Meaning(GaugeMetricFamily, "Open client connections."),
    "restante_connections_refused": Meaning(CounterMetricFamily, "Connections refused over the cap."),
    "restante_slow_senders_cut": Meaning(CounterMetricFamily, "Requests cut off because they arrived too slowly."),
    "restante_fast_lane_requests": Meaning(CounterMetricFamily, "Requests answered by the fast lane."),
    "restante_outbox_rows": Meaning(GaugeMetricFamily, "Outbox rows, by status.", "status"),
    "restante_outbox_oldest_pending_seconds": Meaning(GaugeMetricFamily, "Age of the oldest pending outbox row."),
    "restante_outbox_dispatched": Meaning(CounterMetricFamily, "Outbox rows dispatched, by outcome.", "outcome"),
    "restante_outbox_source_up": Meaning(GaugeMetricFamily, "Whether an outbox can be reached.", "source"),
    "restante_outbox_source_delivered": Meaning(CounterMetricFamily, "Rows delivered, by outbox.", "source"),
    "restante_outbox_source_retried": Meaning(CounterMetricFamily, "Rows put back, by outbox.", "source"),
    "restante_outbox_source_failed": Meaning(CounterMetricFamily, "Rows given up, by outbox.", "source"),
    "restante_outbox_source_stale": Meaning(
        CounterMetricFamily, "Rows not published because the lease was over, by outbox.", "source"
    ),
    "restante_outbox_source_errors": Meaning(
        CounterMetricFamily, "Passes that failed as a whole, by outbox.", "source"
    ),
    "restante_outbox_source_listening": Meaning(
        GaugeMetricFamily, "Whether it is heard when an outbox has something.", "source"
    ),
    "restante_token_requests": Meaning(
        CounterMetricFamily, "Requests for clients' access tokens, by outcome.", "outcome"
    ),
    "restante_redis_up": Meaning(GaugeMetricFamily, "Whether Redis is configured and answers."),
    "restante_redis_reads": Meaning(CounterMetricFamily, "Reads of the log while Redis is configured.", "outcome"),
    "restante_redis_copies": Meaning(CounterMetricFamily, "Runs of signals copied to streams."),
    "restante_redis_rebuilds": Meaning(CounterMetricFamily, "Streams rebuilt from the database."),
    "restante_redis_rings": Meaning(CounterMetricFamily, "Changes of streams by others, heard from Redis."),
    "restante_redis_windows": Meaning(CounterMetricFamily, "Claims that Redis was asked about first.", "outcome"),
    "restante_notices": Meaning(
        CounterMetricFamily, "Other nodes' commits heard of: told by them, or found by looking.", "how"
    ),
    "restante_commits": Meaning(CounterMetricFamily, "Write transactions committed."),
    "restante_writes": Meaning(CounterMetricFamily, "Writes made; several share one commit."),
}


class Metrics:
    def __init__(self, sources: MetricsSources) -> None:
        self._sources = sources
        # The other workers, where there are several.
        self.colleagues: Colleagues | None = None
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self._requests = Counter(
            "restante_http_requests",
            "Requests answered by the application, by route and status.",
            ["method", "route", "status"],
            registry=self._registry,
        )
        self._durations = Histogram(
            "restante_http_request_duration_seconds",
            "Time from request to answer in the application; a long poll's wait is in it.",
            ["method", "route"],
            registry=self._registry,
        )
        self._counts: dict[str, int | None] = {}
        self._registry.register(_Collector(self))
        self._commands = CommandsMetrics(sources.database, sources.commands)
        self._registry.register(self._commands)
        self._events = EventsMetrics(sources.database, sources.events, sources.event_push)
        self._registry.register(self._events)

    def routes(self) -> list[Route]:
        return [Route("GET", "/metrics", self.metrics, Access.open, "Prometheus metrics", shape=SHAPE, tag="server")]

    async def metrics(self, _ask: Ask) -> Answer:
        body = await self.own()
        if self.colleagues is not None:
            body = await self.colleagues.everyones(body)
        return Answer(200, ((b"content-type", CONTENT_TYPE_LATEST.encode()), NO_STORE), body)

    async def own(self) -> bytes:
        """What this process alone has to say."""
        self._counts = await self._sources.database.read(outbox.counts)
        await self._commands.refresh()
        await self._events.refresh()
        return generate_latest(self._registry)

    def observe(self, route: Route, status: int, seconds: float) -> None:
        self._requests.labels(route.method, route.path, str(status)).inc()
        self._durations.labels(route.method, route.path).observe(seconds)

    def values(self) -> Iterator[tuple[str, str | None, float]]:
        """Every metric of METRICS: name, label value, value."""
        poll, totals = self._sources.poll, self._sources.poll.totals
        yield "restante_polls", "idle", totals.idle
        yield "restante_polls", "signals", totals.with_signals
        yield "restante_polls", "cursor_expired", totals.cursor_expired
        yield "restante_polls", "rate_limited", totals.rate_limited
        yield "restante_signals_delivered", None, totals.signals
        yield "restante_parked_polls", None, poll.bell.waiting_count + self._sources.command_poll.bell.waiting_count
        yield "restante_known_tails", None, len(poll.bell.known)
        yield "restante_cached_tokens", None, self._sources.tokens.cached_count
        yield from self._lane_values()
        yield from self._outbox_values()
        yield from self._sources.redis.values()
        yield from self._notices_values()
        yield "restante_commits", None, self._sources.database.commits
        yield "restante_writes", None, self._sources.database.writes

    def _lane_values(self) -> Iterator[tuple[str, str | None, float]]:
        lane = self._sources.lane
        yield "restante_connections", None, lane.connections
        yield "restante_connections_refused", None, lane.refused_connections
        yield "restante_slow_senders_cut", None, lane.slow_senders_cut
        yield "restante_fast_lane_requests", None, lane.hot_requests

    def _notices_values(self) -> Iterator[tuple[str, str | None, float]]:
        neighbours = self._sources.neighbours
        late = neighbours.late_count if neighbours is not None else 0
        yield "restante_notices", "told", neighbours.heard_count - late if neighbours is not None else 0
        yield "restante_notices", "found", late

    def _outbox_values(self) -> Iterator[tuple[str, str | None, float]]:
        totals = self._sources.dispatcher.totals
        for name, value in (
            ("restante_outbox_source_up", 1),
            ("restante_outbox_source_delivered", totals.delivered),
            ("restante_outbox_source_retried", totals.retried),
            ("restante_outbox_source_failed", totals.failed),
            ("restante_outbox_source_stale", totals.stale),
            ("restante_outbox_source_errors", totals.errors),
            ("restante_outbox_source_listening", 1),
        ):
            yield name, outbox.OWN_SOURCE, value
        yield from self._sources.outboxes.values()
        yield "restante_outbox_dispatched", "delivered", totals.delivered
        yield "restante_outbox_dispatched", "retried", totals.retried
        yield "restante_outbox_dispatched", "failed", totals.failed
        for outcome, count in self._sources.token_requests.requests.items():
            yield "restante_token_requests", outcome, count
        yield "restante_outbox_rows", "pending", self._counts.get("pending") or 0
        yield "restante_outbox_rows", "failed", self._counts.get("failed") or 0
        yield "restante_outbox_oldest_pending_seconds", None, (self._counts.get("oldest_pending_ms") or 0) / 1000


@dataclass(eq=False)
class _Collector(Collector):
    metrics: Metrics

    def collect(self) -> Iterator[Metric]:
        families = {
            name: meaning.kind(name, meaning.help, labels=[meaning.label] if meaning.label else None)
            for name, meaning in METRICS.items()
        }
        for name, label, value in self.metrics.values():
            families[name].add_metric([label] if label else [], value)
        yield from families.values()

    def describe(self) -> list[Metric]:
        return []
