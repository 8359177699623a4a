from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from restante.commands import creation
from restante.commands.creation import CommandWish
from restante.commands.totals import OTHER, SITES_MAX
from restante.database.database import Database
from restante.server.commands_metrics import COMMANDS_METRICS, CommandsMetrics
from tests.commands.reporting import World
from tests.conftest import START_MS, ManualClock

# To the letter of the contract.
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
def world(database: Database, clock: ManualClock) -> World:
    return World(database, clock)


async def samples(world: World) -> dict[tuple[str, tuple[str, ...]], float]:
    """Each value under its name and its labels' values, in the order of the labels' names."""
    text = (await exposed(world)).decode()
    return {
        (each.name, tuple(value for _label, value in sorted(each.labels.items()))): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
    }


async def exposed(world: World) -> bytes:
    metrics = CommandsMetrics(world.database, world.totals)
    registry = CollectorRegistry()
    registry.register(metrics)
    await metrics.refresh()
    return generate_latest(registry)


def add_lease(world: World, site_id: int, miner_id: int, until_ms: int, status: str = "dispatched") -> None:
    wish = CommandWish(site_id=site_id, miner_id=miner_id, command_type="restart")
    made = world.database.write_now(creation.create, world.trail, wish, "tests")
    world.rows(
        "UPDATE miner_commands SET status = :status, lease_until = :until_ms WHERE command_id = :id RETURNING id",
        status=status,
        until_ms=until_ms,
        id=made.command_id,
    )


async def test_the_names_and_kinds_of_the_contract(world: World) -> None:
    text = (await exposed(world)).decode()
    for name, kind in NAMES.items():
        assert f"# TYPE {name} {kind}" in text
    assert len(COMMANDS_METRICS) == len(NAMES)


async def test_real_figures(world: World) -> None:
    totals = world.totals
    totals.count_dispatched(world.site_id, "SET_FAN", 3.0)
    totals.count_acked(world.site_id, "failed")
    totals.count_failed("LEASE_EXPIRED")
    totals.rule_evals = 42
    totals.telemetry_lag_seconds = 1.5
    found = await samples(world)
    site = str(world.site_id)
    assert found["commands_dispatched_total", ("SET_FAN", site)] == 1
    assert found["commands_acked_total", (site, "failed")] == 1
    assert found["commands_failed_total", ("LEASE_EXPIRED",)] == 1
    assert found["rule_evals_total", ()] == 42
    assert found["telemetry_ingest_lag_seconds", ()] == 1.5
    assert found["command_dispatch_duration_seconds_bucket", ("2.5",)] == 0
    assert found["command_dispatch_duration_seconds_bucket", ("5.0",)] == 1
    assert found["command_dispatch_duration_seconds_count", ()] == 1
    assert found["command_dispatch_duration_seconds_sum", ()] == 3


async def test_active_leases_are_those_that_run_now(world: World) -> None:
    first, second, third, fourth = world.miner_ids
    add_lease(world, world.site_id, first, START_MS + 1)
    add_lease(world, world.site_id, second, START_MS + 1, "running")
    add_lease(world, world.site_id, third, START_MS)
    add_lease(world, world.site_id, fourth, START_MS + 1, "succeeded")
    found = await samples(world)
    assert found["active_leases", (str(world.site_id),)] == 2
    assert found["active_leases", (str(world.other_id),)] == 0


async def test_sites_beyond_the_bound_are_shown_together(world: World) -> None:
    for site_id in range(1000, 1000 + SITES_MAX):
        world.totals.sites.of(str(site_id))
    add_lease(world, world.site_id, world.miner_ids[0], START_MS + 1)
    add_lease(world, world.other_id, world.foreign_miner, START_MS + 1)
    found: dict[Any, float] = await samples(world)
    assert found["active_leases", (OTHER,)] == 2
