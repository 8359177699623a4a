"""The metrics of the commands protocol, under the names its contract gives them.

What was counted is read from the totals; who holds leases, from the database, when somebody asks. Sites beyond a
bound are shown together.
"""

from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from restante.commands.totals import CommandTotals, Labels
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)


class Meaning(NamedTuple):
    help: str
    labels: tuple[str, ...] = ()


COMMANDS_METRICS = {
    "commands_dispatched": Meaning("Commands handed to collectors, by site and type.", ("site_id", "command_type")),
    "commands_acked": Meaning("ACKs taken, by site and status.", ("site_id", "status")),
    "commands_failed": Meaning("Commands that ended failed, by error code.", ("error_code",)),
    "command_dispatch_duration_seconds": Meaning("Time from when a command could be handed out until it was."),
    "active_leases": Meaning("Commands that collectors hold now, by site.", ("site_id",)),
    "telemetry_ingest_lag_seconds": Meaning("Age of the last batch's records when they came in, on average."),
    "rule_evals": Meaning("Times an automation rule was held against a miner."),
}


def active_leases(conn: Connection) -> list[tuple[int, int]]:
    return [(row["site_id"], row["leases"]) for row in conn.all(SQL.active_leases, now_ms=conn.now_ms)]


class CommandsMetrics(Collector):
    """Register it, and have it refreshed before the registry is read."""

    def __init__(self, database: Database, totals: CommandTotals) -> None:
        self._database = database
        self._totals = totals
        self._leases: dict[str, int] = {}

    async def refresh(self) -> None:
        leases: dict[str, int] = {}
        for site_id, count in await self._database.read(active_leases):
            label = self._totals.sites.of(str(site_id))
            leases[label] = leases.get(label, 0) + count
        self._leases = leases

    def collect(self) -> Iterator[Metric]:
        totals = self._totals
        yield _counter("commands_dispatched", totals.dispatched.counts)
        yield _counter("commands_acked", totals.acked.counts)
        yield _counter("commands_failed", totals.failed.counts)
        yield self._durations()
        yield _gauge("active_leases", {(site,): count for site, count in self._leases.items()})
        yield _gauge("telemetry_ingest_lag_seconds", {(): totals.telemetry_lag_seconds})
        yield _counter("rule_evals", {(): totals.rule_evals})

    def describe(self) -> list[Metric]:
        return []

    def _durations(self) -> HistogramMetricFamily:
        name = "command_dispatch_duration_seconds"
        durations = self._totals.dispatch_durations
        family = HistogramMetricFamily(name, COMMANDS_METRICS[name].help)
        family.add_metric([], durations.cumulative(), durations.sum_seconds)
        return family


def _counter(name: str, values: dict[Labels, float]) -> CounterMetricFamily:
    family = CounterMetricFamily(name, COMMANDS_METRICS[name].help, labels=COMMANDS_METRICS[name].labels)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family


def _gauge(name: str, values: dict[Labels, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, COMMANDS_METRICS[name].help, labels=COMMANDS_METRICS[name].labels)
    for labels, value in values.items():
        family.add_metric(labels, value)
    return family
