"""`GET /metrics` in the Prometheus text format: every metric of the server, declared in one list.

Hot paths count with plain integers. At a scrape each component reads what it needs from the database
(`read_metrics`) and for its samples (`metrics`). Labels never carry an id, a token or anything else that a caller can
choose freely.

To add a metric: declare it in `METRICS`, yield a `MetricSample` in the component, document it in `docs/operations.md`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, GCCollector, Histogram, PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from restante.core.errors import InvalidToken, NotAuthenticated
from restante.server.cluster.worker_metrics import WorkerMetrics
from restante.server.monitoring.metrics_listener import is_token_valid
from restante.updates.response_format import RESPONSE_FORMAT
from restante.web.component import Component, HistogramValue, MetricSample
from restante.web.request import ApiRequest
from restante.web.response import NO_STORE, ApiResponse
from restante.web.routes import Access, ResponseInfo, Route

# Labels that name a tenant, and their value if tenants are not shown.
TENANT_LABELS = frozenset(["site_id"])
ALL = "all"


@dataclass(frozen=True, slots=True)
class MetricDeclaration:
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()


def _counter(help: str, *labels: str) -> MetricDeclaration:
    return MetricDeclaration("counter", help, labels)


def _gauge(help: str, *labels: str) -> MetricDeclaration:
    return MetricDeclaration("gauge", help, labels)


# The names of the metrics of edge commands are part of that protocol's contract.
COMMANDS_METRICS = {
    "commands_dispatched": _counter("Commands dispatched to collectors, by site and type.", "site_id", "command_type"),
    "commands_acked": _counter("ACKs accepted, by site and status.", "site_id", "status"),
    "commands_failed": _counter("Commands that ended failed, by error code.", "error_code"),
    "command_dispatch_duration_seconds": MetricDeclaration(
        "histogram", "Time from when a command became available until it was dispatched."
    ),
    "active_leases": _gauge("Commands leased to collectors now, by site.", "site_id"),
    "telemetry_ingest_lag_seconds": _gauge("Average age of the last batch's records when they arrived."),
    "rule_evals": _counter("Evaluations of an automation rule for a miner."),
}

METRICS = {
    "restante_polls": _counter("Polls for device updates answered, by outcome.", "outcome"),
    "restante_signals_delivered": _counter("Signals delivered to devices."),
    "restante_parked_polls": _gauge("Parked polls for device updates and commands."),
    "restante_waits_ended_early": _counter("Waits ended because their device, collector or client had too many."),
    "restante_unknown_miner_records": _counter(
        "Stored reports of miners that are not registered, by site and kind (telemetry, safety).", "site_id", "kind"
    ),
    "restante_collector_over_budget": _counter(
        "Requests of collectors refused over a budget (bytes, telemetry, repeats).", "budget"
    ),
    "restante_audit_set_back": _gauge("Whether the audit trail lacks the row in audit.head of this server."),
    "restante_audit_anchors": _counter("Heads of the audit trail sent to the anchor, by outcome.", "outcome"),
    "restante_known_tails": _gauge("Devices whose idle polls are answered from memory."),
    "restante_cached_tokens": _gauge("Verified device tokens in memory."),
    "restante_connections": _gauge("Open client connections."),
    "restante_connections_refused": _counter("Connections refused, for any reason."),
    "restante_connections_refused_address": _counter("Connections refused because their address had too many."),
    "restante_connections_refused_descriptors": _counter("Connections refused for want of file descriptors."),
    "restante_idle_connections_closed": _counter("Idle connections closed to make room for others."),
    "restante_slow_senders_cut": _counter("Requests cut off because they arrived too slowly."),
    "restante_oversized_requests": _counter("Requests refused because of the size of their target or headers."),
    "restante_fast_lane_requests": _counter("Requests answered by the fast lane."),
    "restante_outbox_rows": _gauge("Outbox rows, by status.", "status"),
    "restante_jobs": _gauge("Bulk jobs that have not ended, by state.", "state"),
    "restante_rollouts": _gauge("Rollouts that have not ended, by state.", "state"),
    "restante_certificate_renewals": _counter("Renewals of certificates by calendar, by outcome.", "outcome"),
    "restante_job_items": _counter("Items of bulk jobs, by result.", "state"),
    "restante_outbox_oldest_pending_seconds": _gauge("Age of the oldest pending outbox row."),
    "restante_outbox_dispatched": _counter("Outbox rows dispatched, by outcome.", "outcome"),
    "restante_outbox_source_up": _gauge("Whether an outbox can be reached.", "source"),
    "restante_outbox_source_delivered": _counter("Rows delivered, by outbox.", "source"),
    "restante_outbox_source_retried": _counter("Rows put back for a retry, by outbox.", "source"),
    "restante_outbox_source_failed": _counter("Rows given up, by outbox.", "source"),
    "restante_outbox_source_stale": _counter("Rows not published because the lease had ended, by outbox.", "source"),
    "restante_outbox_source_errors": _counter("Dispatch rounds that failed as a whole, by outbox.", "source"),
    "restante_outbox_source_listening": _gauge("Whether notifications of an outbox are received.", "source"),
    "restante_token_requests": _counter("Requests for clients' access tokens, by outcome.", "outcome"),
    "restante_client_refusals": _counter("Refused requests for clients' access tokens, by reason.", "reason"),
    "restante_redis_up": _gauge("Whether Redis is configured, answers, and accepts writes."),
    "restante_redis_reads": _counter("Reads of the log while Redis is configured.", "outcome"),
    "restante_redis_copies": _counter("Runs of signals copied to streams."),
    "restante_redis_rebuilds": _counter("Streams rebuilt from the database."),
    "restante_redis_rings": _counter("Notifications from Redis that another server changed a stream."),
    "restante_redis_windows": _counter("Claims checked against the rate limits in Redis first.", "outcome"),
    "restante_notices": _counter("Messages of other nodes: by notification (told), or by a scan (found).", "how"),
    "restante_commits": _counter("Write transactions committed."),
    "restante_writes": _counter("Writes made; several share one commit."),
    "restante_clock_ahead_seconds": _gauge("How far the embedded database's clock is ahead of a clock set back."),
    "restante_seconds_since_write": _gauge("Seconds since a commit last changed something."),
    "restante_event_polls": _counter("Polls for events answered, by outcome.", "outcome"),
    "restante_events_delivered": _counter("Events delivered to clients; a redelivery counts again."),
    "restante_events_acknowledged": _counter("Events that clients acknowledged."),
    "restante_events_errored": _counter("Events that clients reported as errored."),
    "restante_parked_event_polls": _gauge("Parked polls for events, of Open Banking and Shared Signals."),
    "restante_event_inbox": _gauge("Events in the inboxes, by status.", "status"),
    "restante_events_published": _counter("Events published through this server, counted for each client."),
    "restante_events_signed": _counter("Event tokens signed."),
    "restante_events_sign_failures": _counter("Failures to sign an event because its key cannot be opened."),
    "restante_event_signing_seconds": _counter("CPU time that the signing processes spent signing."),
    "restante_event_pushes": _counter("Events pushed to receivers, by outcome.", "outcome"),
    "restante_event_pushes_given_up": _counter("Events that are no longer pushed and left to polling."),
    "restante_event_circuits_open": _gauge("Receivers that are not called now because they failed repeatedly."),
    **COMMANDS_METRICS,
}


@dataclass(frozen=True, slots=True)
class MetricsOptions:
    """`token`: readers of the metrics must send it. `is_apart`: the metrics are served at a separate address.
    `shows_tenants`: labels may name a tenant."""

    token: str | None = field(default=None, repr=False)
    is_apart: bool = False
    shows_tenants: bool = False


class Metrics:
    def __init__(
        self,
        components: Iterable[Component],
        server_samples: Callable[[], Iterable[MetricSample]],
        options: MetricsOptions,
    ) -> None:
        self._components = components
        self._server_samples = server_samples
        self._options = options
        # Set in a worker process: the metrics of the other workers.
        self.worker_metrics: WorkerMetrics | None = None
        # Set while the metrics are served at a separate address.
        self.own_port: int | None = None
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
            "Time from request to response in the application, including the wait of a long poll.",
            ["method", "route"],
            registry=self._registry,
        )
        self._registry.register(_SampleCollector(self.samples, options.shows_tenants))

    def routes(self) -> list[Route]:
        if self._options.is_apart:
            return []
        return [
            Route(
                "GET",
                "/metrics",
                self.metrics,
                Access.open,
                "Prometheus metrics",
                response_format=RESPONSE_FORMAT,
                tag="server",
                errors=(401,),
                responses=(ResponseInfo(200, str, media_type="text/plain"),),
            )
        ]

    async def metrics(self, request: ApiRequest) -> ApiResponse:
        authorization = request.http.headers.get("authorization")
        if not is_token_valid(authorization, self._options.token):
            raise NotAuthenticated() if authorization is None else InvalidToken()
        return ApiResponse(200, ((b"content-type", CONTENT_TYPE_LATEST.encode()), NO_STORE), await self.of_all())

    async def of_all(self) -> bytes:
        """The metrics of this process, and of the other workers if there are any."""
        body = await self.own()
        return body if self.worker_metrics is None else await self.worker_metrics.of_all_workers(body)

    async def own(self) -> bytes:
        """The metrics of this process alone."""
        for component in self._components:
            await component.read_metrics()
        return generate_latest(self._registry)

    def observe(self, route: Route, status: int, seconds: float) -> None:
        self._requests.labels(route.method, route.path, str(status)).inc()
        self._durations.labels(route.method, route.path).observe(seconds)

    def samples(self) -> Iterator[MetricSample]:
        yield from self._server_samples()
        for component in self._components:
            yield from component.metrics()


@dataclass(eq=False)
class _SampleCollector(Collector):
    samples: Callable[[], Iterable[MetricSample]]
    shows_tenants: bool

    def collect(self) -> Iterator[Metric]:
        values: dict[str, dict[tuple[str, ...], float | HistogramValue]] = {name: {} for name in METRICS}
        for name, value, shown in self.samples():
            labels = shown if self.shows_tenants else _without_tenants(METRICS[name].labels, shown)
            before = values[name].get(labels)
            if isinstance(value, HistogramValue) or before is None or isinstance(before, HistogramValue):
                values[name][labels] = value
            else:
                values[name][labels] = before + value
        for name, declaration in METRICS.items():
            yield _family(name, declaration, values[name])

    def describe(self) -> list[Metric]:
        return []


def _without_tenants(names: tuple[str, ...], values: tuple[str, ...]) -> tuple[str, ...]:
    if TENANT_LABELS.isdisjoint(names):
        return values
    return tuple(ALL if name in TENANT_LABELS else value for name, value in zip(names, values, strict=True))


def _family(name: str, declaration: MetricDeclaration, values: dict[tuple[str, ...], float | HistogramValue]) -> Metric:
    if declaration.kind == "histogram":
        histogram = HistogramMetricFamily(name, declaration.help, labels=declaration.labels)
        for labels, value in values.items():
            if isinstance(value, HistogramValue):
                histogram.add_metric(labels, value.buckets, value.sum)
        return histogram
    kind = CounterMetricFamily if declaration.kind == "counter" else GaugeMetricFamily
    family = kind(name, declaration.help, labels=declaration.labels)
    for labels, value in values.items():
        if not isinstance(value, HistogramValue):
            family.add_metric(labels, value)
    return family
