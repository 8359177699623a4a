"""The rules of a site whose telemetry is taken in by several nodes, now by one and now by another."""

import copy

import pytest

from restante.commands.rule_hearing import OthersHeard
from restante.database.database import Database
from tests.commands.reporting import GAP_SECONDS, KEEP, World, sample
from tests.conftest import START_MS, ManualClock

RESTART = ["MINER_RESTART"]
HOT, COOL = 90, 60
FURTHER = GAP_SECONDS * 0.75


@pytest.fixture
def here(database: Database, clock: ManualClock) -> World:
    world = World(database, clock)
    world.restart(OthersHeard(KEEP))
    return world


@pytest.fixture
def there(here: World) -> World:
    """The same site, at another node: what is in memory is its own."""
    node = copy.copy(here)
    node.restart(OthersHeard(KEEP))
    return node


async def test_a_duration_does_not_start_anew_where_others_have_heard_it_go_on(here: World, there: World) -> None:
    here.add_rule(trigger_duration_seconds=int(FURTHER * 3))
    assert await here.heat(0, HOT) == []
    assert await there.heat(FURTHER, HOT) == []
    # More than the gap after what this node has heard itself.
    assert await here.heat(FURTHER * 2, HOT) == []
    assert await there.heat(FURTHER * 3, HOT) == RESTART
    assert await here.heat(FURTHER * 3 + 1, HOT) == RESTART


async def test_a_gap_is_one_though_the_site_is_read_anew(here: World, there: World) -> None:
    here.add_rule(trigger_duration_seconds=60)
    await here.heat(0, HOT)
    late = GAP_SECONDS + 100
    assert await there.heat(late, HOT) == []
    assert await here.heat(late + 30, HOT) == []
    assert await there.heat(late + 60, HOT) == RESTART


async def test_a_stretch_that_another_node_has_seen_end_is_over(here: World, there: World) -> None:
    here.add_rule(trigger_duration_seconds=60)
    await here.heat(0, HOT)
    await there.heat(30, COOL)
    assert await here.heat(60, HOT) == []
    assert await here.tick(100) == []


async def test_it_fires_once_whichever_nodes_timer_comes_first(here: World, there: World) -> None:
    here.add_rule(trigger_duration_seconds=60, cooldown_seconds=600)
    await here.heat(0, HOT)
    await there.heat(50, HOT)
    assert await here.tick(61) == RESTART
    here.rows("UPDATE miner_commands SET status = 'succeeded' RETURNING id")
    assert await there.tick(62) == RESTART
    assert await here.heat(63, HOT) == RESTART
    assert await there.heat(64, HOT) == RESTART


async def test_the_timer_of_a_node_that_takes_in_nothing_ends_a_duration(here: World, there: World) -> None:
    """As where one process answers collectors and another looks after rules."""
    here.add_rule(trigger_duration_seconds=60)
    assert await there.tick(0) == []
    await here.heat(1, HOT)
    assert await there.tick(2) == []
    await here.heat(50, HOT)
    assert await there.tick(60) == []
    assert await there.tick(61) == RESTART


async def test_the_same_for_a_duration_longer_than_the_gap(here: World, there: World) -> None:
    here.add_rule(trigger_duration_seconds=int(FURTHER * 4))
    for step in range(4):
        await here.heat(FURTHER * step, HOT)
        assert await there.tick(FURTHER * step + 1) == []
    assert await there.tick(FURTHER * 4 + 1) == RESTART


async def test_a_record_without_the_metric_carries_nothing_on_at_any_node(here: World, there: World) -> None:
    here.add_rule(trigger_duration_seconds=int(GAP_SECONDS * 2))
    await here.heat(0, HOT)
    there.clock.now_ms = START_MS + int(FURTHER * 1000)
    await there.report(sample(there.miner_ids[0], FURTHER, fan=1))
    assert await here.heat(FURTHER * 2, HOT) == []
    assert await here.heat(FURTHER * 2 + FURTHER, HOT) == []
    assert await here.heat(FURTHER * 4, HOT) == []
    # It began anew at the second hot record.
    assert await here.heat(FURTHER * 2 + GAP_SECONDS * 2, HOT) == RESTART


async def test_what_told_about_it_behind_a_record_that_does_not_counts(here: World, there: World) -> None:
    here.add_rule(trigger_duration_seconds=int(FURTHER * 2))
    await here.heat(0, HOT)
    await there.heat(FURTHER, HOT)
    there.clock.now_ms = START_MS + int((FURTHER + 1) * 1000)
    await there.report(sample(there.miner_ids[0], FURTHER + 1, fan=1))
    assert await here.heat(FURTHER * 2, HOT) == RESTART


async def test_silence_of_a_miner_that_has_reported_to_another_node_only(here: World, there: World) -> None:
    here.add_offline_rule(60)
    assert await there.tick(0) == []
    await here.heat(1, COOL)
    assert await there.tick(61) == RESTART
