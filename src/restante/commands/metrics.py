"""The metrics of edge commands, under the names that the contract gives them.

Counters are read from memory, active leases from the database. Sites beyond a bound share one label.
"""

from collections.abc import Iterator, Mapping

from restante.commands.counters import CommandCounters
from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.web.component import HistogramValue, MetricSample

SQL = queries_beside(__file__)


def active_leases(conn: Connection) -> list[tuple[int, int]]:
    """The number of leased commands of each site that has any."""
    return [(row["site_id"], row["leases"]) for row in conn.all(SQL.active_leases, now_ms=conn.now_ms)]


def samples(counters: CommandCounters, leases: Mapping[str, int]) -> Iterator[MetricSample]:
    for name, counted in (
        ("commands_dispatched", counters.dispatched),
        ("commands_acked", counters.acked),
        ("commands_failed", counters.failed),
        ("restante_unknown_miner_records", counters.unknown_miner_records),
        ("restante_collector_over_budget", counters.over_budget),
    ):
        for labels, value in counted.counts.items():
            yield MetricSample(name, value, labels)
    durations = counters.dispatch_durations
    yield MetricSample(
        "command_dispatch_duration_seconds", HistogramValue(durations.cumulative(), durations.sum_seconds)
    )
    for site, count in leases.items():
        yield MetricSample("active_leases", count, (site,))
    yield MetricSample("telemetry_ingest_lag_seconds", counters.telemetry_lag_seconds)
    yield MetricSample("rule_evals", counters.rule_evals)
