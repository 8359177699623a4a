from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from restante.commands.counters import OTHER, SITES_MAX
from restante.commands.lifecycle import creation
from restante.commands.lifecycle.creation import CommandRequest
from restante.database.database import Database
from restante.server.monitoring.metrics import COMMANDS_METRICS, Metrics, MetricsOptions
from tests.commands.edge_fixture import CommandsHarness
from tests.commands.reporting_fixture import ReportingFleet
from tests.conftest import START_MS, ManualClock

# The contract fixes these names.
NAMES = {
    "commands_dispatched_total": "counter",
    "commands_acked_total": "counter",
    "commands_failed_total": "counter",
    "command_dispatch_duration_seconds": "histogram",
    "active_leases": "gauge",
    "telemetry_ingest_lag_seconds": "gauge",
    "rule_evals_total": "counter",
}


@pytest.fixture
def fleet(database: Database, clock: ManualClock) -> ReportingFleet:
    return ReportingFleet(database, clock)


async def samples(fleet: ReportingFleet) -> dict[tuple[str, tuple[str, ...]], float]:
    """The value of each metric by its name and its label values, ordered by label name."""
    text = (await exposed(fleet)).decode()
    return {
        (sample.name, tuple(value for _label, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def exposed(fleet: ReportingFleet) -> bytes:
    component = CommandsHarness(fleet.database).component
    component.counters = fleet.counters
    return await Metrics([component], lambda: (), MetricsOptions(shows_tenants=True)).own()


def add_lease(fleet: ReportingFleet, site_id: int, miner_id: int, until_ms: int, status: str = "dispatched") -> None:
    request = CommandRequest(site_id=site_id, miner_id=miner_id, command_type="restart")
    command = fleet.database.write_now(creation.create, fleet.trail, request, "tests", fleet.options)
    fleet.rows(
        "UPDATE miner_commands SET status = :status, lease_until = :until_ms WHERE command_id = :id RETURNING id",
        status=status,
        until_ms=until_ms,
        id=command.command_id,
    )


async def test_metrics_have_the_names_and_types_of_the_contract(fleet: ReportingFleet) -> None:
    text = (await exposed(fleet)).decode()
    for name, metric_type in NAMES.items():
        assert f"# TYPE {name} {metric_type}" in text
    assert len(COMMANDS_METRICS) == len(NAMES)


async def test_metrics_show_the_values_of_the_counters(fleet: ReportingFleet) -> None:
    counters = fleet.counters
    counters.count_dispatched(fleet.site_id, "SET_FAN", 3.0)
    counters.count_acked(fleet.site_id, "failed")
    counters.count_failed("LEASE_EXPIRED")
    counters.rule_evals = 42
    counters.telemetry_lag_seconds = 1.5
    values = await samples(fleet)
    site = str(fleet.site_id)
    assert values["commands_dispatched_total", ("SET_FAN", site)] == 1
    assert values["commands_acked_total", (site, "failed")] == 1
    assert values["commands_failed_total", ("LEASE_EXPIRED",)] == 1
    assert values["rule_evals_total", ()] == 42
    assert values["telemetry_ingest_lag_seconds", ()] == 1.5
    assert values["command_dispatch_duration_seconds_bucket", ("2.5",)] == 0
    assert values["command_dispatch_duration_seconds_bucket", ("5.0",)] == 1
    assert values["command_dispatch_duration_seconds_count", ()] == 1
    assert values["command_dispatch_duration_seconds_sum", ()] == 3


async def test_active_leases_counts_unexpired_leases_per_site(fleet: ReportingFleet) -> None:
    first, second, third, fourth = fleet.miner_ids
    add_lease(fleet, fleet.site_id, first, START_MS + 1)
    add_lease(fleet, fleet.site_id, second, START_MS + 1, "running")
    add_lease(fleet, fleet.site_id, third, START_MS)
    add_lease(fleet, fleet.site_id, fourth, START_MS + 1, "succeeded")
    values = await samples(fleet)
    assert values["active_leases", (str(fleet.site_id),)] == 2
    assert values["active_leases", (str(fleet.other_id),)] == 0


async def test_sites_beyond_the_bound_are_shown_as_other(fleet: ReportingFleet) -> None:
    for site_id in range(1000, 1000 + SITES_MAX):
        fleet.counters.sites.of(str(site_id))
    add_lease(fleet, fleet.site_id, fleet.miner_ids[0], START_MS + 1)
    add_lease(fleet, fleet.other_id, fleet.foreign_miner, START_MS + 1)
    values: dict[Any, float] = await samples(fleet)
    assert values["active_leases", (OTHER,)] == 2
