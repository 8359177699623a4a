"""Rule evaluation when several nodes receive the telemetry of one site in turn."""

import copy

import pytest

from restante.commands.rules.rule_sync import RuleSync
from restante.database.database import Database
from tests.commands.reporting_fixture import GAP_SECONDS, HISTORY_RECORDS, ReportingFleet, sample
from tests.conftest import START_MS, ManualClock

RESTART = ["MINER_RESTART"]
HOT, COOL = 90, 60
STEP_SECONDS = GAP_SECONDS * 0.75


@pytest.fixture
def node(database: Database, clock: ManualClock) -> ReportingFleet:
    fleet = ReportingFleet(database, clock)
    fleet.restart(RuleSync(HISTORY_RECORDS))
    return fleet


@pytest.fixture
def other(node: ReportingFleet) -> ReportingFleet:
    """Another node with the same database and its own memory."""
    other = copy.copy(node)
    other.restart(RuleSync(HISTORY_RECORDS))
    return other


async def test_run_continues_through_samples_of_another_node(node: ReportingFleet, other: ReportingFleet) -> None:
    node.add_rule(trigger_duration_seconds=int(STEP_SECONDS * 3))
    assert await node.heat(0, HOT) == []
    assert await other.heat(STEP_SECONDS, HOT) == []
    # This is more than the gap after the last sample that this node received itself.
    assert await node.heat(STEP_SECONDS * 2, HOT) == []
    assert await other.heat(STEP_SECONDS * 3, HOT) == RESTART
    assert await node.heat(STEP_SECONDS * 3 + 1, HOT) == RESTART


async def test_gap_ends_the_run_after_the_site_is_read_again(node: ReportingFleet, other: ReportingFleet) -> None:
    node.add_rule(trigger_duration_seconds=60)
    await node.heat(0, HOT)
    late = GAP_SECONDS + 100
    assert await other.heat(late, HOT) == []
    assert await node.heat(late + 30, HOT) == []
    assert await other.heat(late + 60, HOT) == RESTART


async def test_run_that_ended_on_another_node_is_over(node: ReportingFleet, other: ReportingFleet) -> None:
    node.add_rule(trigger_duration_seconds=60)
    await node.heat(0, HOT)
    await other.heat(30, COOL)
    assert await node.heat(60, HOT) == []
    assert await node.tick(100) == []


async def test_rule_fires_once_across_the_timers_of_all_nodes(node: ReportingFleet, other: ReportingFleet) -> None:
    node.add_rule(trigger_duration_seconds=60, cooldown_seconds=600)
    await node.heat(0, HOT)
    await other.heat(50, HOT)
    assert await node.tick(61) == RESTART
    node.rows("UPDATE miner_commands SET status = 'succeeded' RETURNING id")
    assert await other.tick(62) == RESTART
    assert await node.heat(63, HOT) == RESTART
    assert await other.heat(64, HOT) == RESTART


async def test_timer_of_a_node_without_telemetry_fires_when_the_duration_ends(
    node: ReportingFleet, other: ReportingFleet
) -> None:
    """As in a deployment where one process serves collectors and another evaluates rules."""
    node.add_rule(trigger_duration_seconds=60)
    assert await other.tick(0) == []
    await node.heat(1, HOT)
    assert await other.tick(2) == []
    await node.heat(50, HOT)
    assert await other.tick(60) == []
    assert await other.tick(61) == RESTART


async def test_timer_of_a_node_without_telemetry_handles_a_duration_longer_than_the_gap(
    node: ReportingFleet, other: ReportingFleet
) -> None:
    node.add_rule(trigger_duration_seconds=int(STEP_SECONDS * 4))
    for step in range(4):
        await node.heat(STEP_SECONDS * step, HOT)
        assert await other.tick(STEP_SECONDS * step + 1) == []
    assert await other.tick(STEP_SECONDS * 4 + 1) == RESTART


async def test_record_without_the_metric_extends_no_run_on_any_node(
    node: ReportingFleet, other: ReportingFleet
) -> None:
    node.add_rule(trigger_duration_seconds=int(GAP_SECONDS * 2))
    await node.heat(0, HOT)
    other.clock.now_ms = START_MS + int(STEP_SECONDS * 1000)
    await other.report(sample(other.miner_ids[0], STEP_SECONDS, fan=1))
    assert await node.heat(STEP_SECONDS * 2, HOT) == []
    assert await node.heat(STEP_SECONDS * 2 + STEP_SECONDS, HOT) == []
    assert await node.heat(STEP_SECONDS * 4, HOT) == []
    # The run started again at the second hot record.
    assert await node.heat(STEP_SECONDS * 2 + GAP_SECONDS * 2, HOT) == RESTART


async def test_run_is_extended_by_a_record_behind_one_without_the_metric(
    node: ReportingFleet, other: ReportingFleet
) -> None:
    node.add_rule(trigger_duration_seconds=int(STEP_SECONDS * 2))
    await node.heat(0, HOT)
    await other.heat(STEP_SECONDS, HOT)
    other.clock.now_ms = START_MS + int((STEP_SECONDS + 1) * 1000)
    await other.report(sample(other.miner_ids[0], STEP_SECONDS + 1, fan=1))
    assert await node.heat(STEP_SECONDS * 2, HOT) == RESTART


async def test_offline_rule_fires_for_a_miner_that_reported_only_to_another_node(
    node: ReportingFleet, other: ReportingFleet
) -> None:
    node.add_offline_rule(60)
    assert await other.tick(0) == []
    await node.heat(1, COOL)
    assert await other.tick(61) == RESTART
