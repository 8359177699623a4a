"""What fires when: the rules of a site as samples come in and time goes by."""

import pytest

from restante.commands import rate_windows, rules
from restante.commands.rate_windows import RateRules
from restante.commands.rule_evaluation import FIRINGS_MAX
from restante.commands.rules import RuleChange
from restante.commands.telemetry_records import Batch
from restante.database.connection import Connection
from restante.database.database import Database
from tests.commands.reporting import ACTOR, GAP_SECONDS, World, sample
from tests.conftest import START_MS, ManualClock

RESTART = ["MINER_RESTART"]
HOT, COOL = 90, 60


@pytest.fixture
def world(database: Database, clock: ManualClock) -> World:
    return World(database, clock)


def use_up_restarts(conn: Connection, site_id: int) -> None:
    """As many as may be handed out within a window are."""
    (window,) = rate_windows.windows_of(conn, RateRules(), [(site_id, "MINER_RESTART")]).values()
    while window.left:
        window.take()
    rate_windows.note_taken(conn, [window])


def holds_since(world: World) -> list[int | None]:
    """Since which second of the tests each kept standing holds."""
    rows = world.rows("SELECT holds_since FROM rule_states ORDER BY rule_id, miner_id")
    return [None if row["holds_since"] is None else (row["holds_since"] - START_MS) // 1000 for row in rows]


async def test_without_a_duration_one_sample_fires(world: World) -> None:
    rule = world.add_rule()
    assert await world.heat(0, 80) == []
    assert await world.heat(10, 80.5) == RESTART
    [command] = world.rows("SELECT * FROM miner_commands")
    assert (command["miner_id"], command["rule_id"], command["site_id"]) == (world.miner_ids[0], rule.id, world.site_id)
    assert (command["created_by"], command["status"]) == (f"rule:{rule.id}", "pending")


async def test_one_hot_sample_is_no_fire(world: World) -> None:
    world.add_rule(trigger_duration_seconds=60)
    assert await world.heat(0, HOT) == []
    assert await world.tick(61) == []
    assert await world.tick(120) == []


async def test_a_duration_that_is_held_fires(world: World) -> None:
    world.add_rule(trigger_duration_seconds=60)
    assert await world.heat(0, HOT) == []
    assert await world.heat(30, HOT) == []
    assert await world.heat(59, HOT) == []
    assert await world.heat(60, HOT) == RESTART


async def test_a_sample_that_breaks_it_starts_it_anew(world: World) -> None:
    world.add_rule(trigger_duration_seconds=60)
    await world.heat(0, HOT)
    await world.heat(40, COOL)
    assert holds_since(world) == []
    assert await world.heat(50, HOT) == []
    assert await world.heat(100, HOT) == []
    assert await world.heat(110, HOT) == RESTART


async def test_a_sample_without_the_metric_neither_breaks_nor_carries_on(world: World) -> None:
    world.add_rule(trigger_duration_seconds=60)
    miner = world.miner_ids[0]
    await world.heat(0, HOT)
    await world.report(sample(miner, 30, hashrate=5), sample(miner, 31, temp_max=None))
    assert await world.heat(60, HOT) == RESTART


async def test_a_gap_does_not_count_as_holding(world: World) -> None:
    world.add_rule(trigger_duration_seconds=60)
    await world.heat(0, HOT)
    assert await world.heat(GAP_SECONDS + 1, HOT) == []
    assert holds_since(world) == [GAP_SECONDS + 1]
    assert await world.heat(GAP_SECONDS + 61, HOT) == RESTART


async def test_the_duration_is_of_record_time(world: World, clock: ManualClock) -> None:
    """A collector whose clock is wrong, and which sends several samples at once."""
    world.add_rule(trigger_duration_seconds=60)
    miner = world.miner_ids[0]
    await world.report(sample(miner, -7200, temp_max=HOT), sample(miner, -7141, temp_max=HOT))
    assert world.commands() == []
    assert await world.tick(0) == []
    await world.report(sample(miner, -7140, temp_max=HOT))
    assert world.commands() == RESTART


async def test_what_a_batch_says_at_its_end_counts(world: World) -> None:
    world.add_rule(trigger_duration_seconds=60)
    miner = world.miner_ids[0]
    hot = [sample(miner, second, temp_max=HOT) for second in range(-300, -100, 10)]
    await world.report(*hot, sample(miner, -90, temp_max=COOL))
    assert world.commands() == []


async def test_late_samples_are_not_evaluated(world: World) -> None:
    world.add_rule()
    await world.heat(10, COOL)
    await world.report(sample(world.miner_ids[0], 5, temp_max=HOT))
    assert world.commands() == []


async def test_the_timer_ends_a_duration_between_two_samples(world: World) -> None:
    world.add_rule(trigger_duration_seconds=60)
    await world.heat(0, HOT)
    await world.heat(50, HOT)
    assert await world.tick(59) == []
    assert await world.tick(60) == RESTART


async def test_the_timer_does_not_act_on_what_was_heard_too_long_ago(world: World) -> None:
    world.add_rule(trigger_duration_seconds=400)
    await world.heat(0, HOT)
    await world.heat(50, HOT)
    assert await world.tick(400) == []
    assert await world.tick(5000) == []


async def test_the_cooldown_is_kept_and_then_it_fires_again(world: World) -> None:
    world.add_rule(cooldown_seconds=100)
    assert await world.heat(0, HOT) == RESTART
    world.rows("UPDATE miner_commands SET status = 'succeeded' RETURNING id")
    assert await world.heat(99, HOT) == RESTART
    assert await world.tick(99) == RESTART
    assert await world.heat(100, HOT) == RESTART * 2


async def test_the_cooldown_outlives_recovery(world: World) -> None:
    world.add_rule(cooldown_seconds=100)
    await world.heat(0, HOT)
    world.rows("UPDATE miner_commands SET status = 'succeeded' RETURNING id")
    await world.heat(10, COOL)
    assert await world.heat(20, HOT) == RESTART
    await world.heat(30, COOL)
    assert await world.heat(100, HOT) == RESTART * 2


async def test_the_timer_fires_when_the_cooldown_ends_and_it_still_holds(world: World) -> None:
    world.add_rule(cooldown_seconds=100)
    await world.heat(0, HOT)
    world.rows("UPDATE miner_commands SET status = 'succeeded' RETURNING id")
    await world.heat(90, HOT)
    assert await world.tick(100) == RESTART * 2


async def test_each_miner_has_its_own_cooldown(world: World) -> None:
    world.add_rule()
    assert await world.heat(0, HOT, world.miner_ids[0]) == RESTART
    assert await world.heat(1, HOT, world.miner_ids[1]) == RESTART * 2


async def test_a_rule_for_some_miners_leaves_others_alone(world: World) -> None:
    world.add_rule(miner_ids=world.miner_ids[1:2])
    assert await world.heat(0, HOT, world.miner_ids[0]) == []
    assert await world.heat(1, HOT, world.miner_ids[1]) == RESTART


async def test_rules_of_another_site_are_not_evaluated(world: World) -> None:
    world.add_rule(site_id=world.other_id)
    assert await world.heat(0, HOT) == []
    assert world.totals.rule_evals == 0


async def test_every_rule_that_holds_fires_the_most_urgent_first(world: World) -> None:
    world.add_rule(action_type="disable")
    world.add_rule(action_type="reboot", priority=9)
    assert await world.heat(0, HOT) == ["MINER_RESTART", "HASHING_DISABLE"]


async def test_an_active_command_of_the_rule_is_not_doubled(world: World) -> None:
    world.add_rule(cooldown_seconds=100)
    await world.heat(0, HOT)
    assert await world.heat(100, HOT) == RESTART
    [state] = world.rows("SELECT * FROM rule_states")
    [command] = world.rows("SELECT command_id FROM miner_commands")
    assert (state["last_outcome"], state["last_command_id"]) == ("DUPLICATE_ACTIVE", command["command_id"])
    assert (state["last_fired_at"], state["quiet_until"]) == (START_MS, START_MS + 200_000)


async def test_changes_of_rules_count_at_once(world: World) -> None:
    rule = world.add_rule()
    change = world.database.write_now
    change(rules.change, world.trail, rule.id, RuleChange(enabled=False), ACTOR)
    assert await world.heat(0, HOT) == []
    change(rules.change, world.trail, rule.id, RuleChange(enabled=True, trigger_value=95.0), ACTOR)
    assert await world.heat(1, HOT) == []
    change(rules.change, world.trail, rule.id, RuleChange(trigger_value=85.0), ACTOR)
    assert await world.heat(2, HOT) == RESTART
    change(rules.delete, world.trail, rule.id, ACTOR)
    assert await world.heat(4000, HOT) == RESTART


async def test_a_duration_goes_on_after_a_restart(world: World) -> None:
    world.add_rule(trigger_duration_seconds=60)
    await world.heat(0, HOT)
    await world.heat(30, HOT)
    world.restart()
    assert await world.heat(60, HOT) == RESTART


async def test_a_cooldown_goes_on_after_a_restart(world: World) -> None:
    world.add_rule(cooldown_seconds=100)
    await world.heat(0, HOT)
    world.rows("UPDATE miner_commands SET status = 'succeeded' RETURNING id")
    world.restart()
    assert await world.heat(50, HOT) == RESTART


async def test_what_is_rolled_back_was_never_observed(world: World) -> None:
    """In memory as in the database: the samples of a failed transaction neither begin nor fire anything."""
    world.add_rule(trigger_duration_seconds=60)
    await world.heat(0, COOL)

    def fail(conn: Connection, second: int) -> None:
        samples = [sample(world.miner_ids[0], second, temp_max=HOT)]
        world.rules.observe(conn, world.rules.ready(conn, world.site_id, samples), samples)
        raise RuntimeError("after everything was done")

    for second in (1, 61):
        with pytest.raises(RuntimeError):
            world.database.write_now(fail, second)
    assert holds_since(world) == []
    assert await world.heat(62, HOT) == []
    assert holds_since(world) == [62]


async def test_only_changes_are_written(world: World) -> None:
    world.add_rule(trigger_duration_seconds=600)
    await world.heat(0, HOT)
    before = world.rows("SELECT revision FROM rule_revisions")[0]["revision"]
    await world.heat(10, HOT)
    await world.heat(20, COOL, world.miner_ids[1])
    assert world.rows("SELECT revision FROM rule_revisions")[0]["revision"] == before


async def test_a_rule_that_has_nothing_to_do_with_a_miner_is_not_looked_at_by_the_timer(world: World) -> None:
    world.add_rule(trigger_duration_seconds=60)
    await world.heat(0, HOT)
    await world.heat(1, HOT)
    await world.heat(2, COOL)
    before = world.totals.rule_evals
    await world.tick(61)
    assert world.totals.rule_evals == before


async def test_a_site_all_ablaze_is_served_in_parts(database: Database, clock: ManualClock) -> None:
    world = World(database, clock)
    miners = [world.add_miner(world.site_id) for _ in range(FIRINGS_MAX + 10)]
    world.add_rule()
    await world.report(*(sample(miner, 0, temp_max=HOT) for miner in miners))
    assert len(world.commands()) == FIRINGS_MAX
    assert len(await world.tick(2)) == FIRINGS_MAX + 10


async def test_silence_fires_for_miners_that_have_reported(world: World) -> None:
    world.add_offline_rule(300)
    await world.tick(0)
    await world.heat(0, COOL, world.miner_ids[0])
    await world.heat(100, COOL, world.miner_ids[1])
    assert await world.tick(299) == []
    assert await world.tick(300) == RESTART
    assert await world.tick(399) == RESTART
    assert await world.tick(400) == RESTART * 2
    assert await world.tick(1000) == RESTART * 2


async def test_who_reports_is_not_silent(world: World) -> None:
    world.add_offline_rule(300)
    for second in range(0, 1000, 100):
        await world.heat(second, COOL)
        assert await world.tick(second) == []
    assert await world.tick(1199) == []
    assert await world.tick(1200) == RESTART


async def test_silence_has_its_cooldown(world: World) -> None:
    world.add_offline_rule(300, cooldown_seconds=600)
    await world.heat(0, COOL)
    await world.tick(300)
    world.rows("UPDATE miner_commands SET status = 'succeeded' RETURNING id")
    assert await world.tick(899) == RESTART
    assert await world.tick(900) == RESTART * 2


async def test_a_miner_that_is_back_is_no_longer_held_silent(world: World) -> None:
    world.add_offline_rule(300)
    await world.heat(0, COOL)
    await world.tick(300)
    assert holds_since(world) == [0]
    await world.heat(310, COOL)
    assert holds_since(world) == [None]


async def test_silence_of_some_miners_only(world: World) -> None:
    world.add_offline_rule(300, miner_ids=world.miner_ids[1:2])
    await world.report(*(sample(miner, 0, temp_max=COOL) for miner in world.miner_ids))
    assert await world.tick(300) == RESTART
    assert world.rows("SELECT miner_id FROM miner_commands")[0]["miner_id"] == world.miner_ids[1]


async def test_the_servers_own_absence_is_nobodys_silence(world: World) -> None:
    world.add_offline_rule(300)
    await world.heat(0, COOL)
    world.restart()
    assert await world.tick(5000) == []
    assert await world.tick(5299) == []
    assert await world.tick(5300) == RESTART


async def test_rules_of_many_sites_are_looked_at_by_the_timer(world: World) -> None:
    """Those made since, by whomever, and those of sites nobody has heard of since the start."""
    await world.tick(0)
    await world.heat(0, COOL)
    world.add_offline_rule(300)
    other = world.add_offline_rule(300, site_id=world.other_id)
    await world.ingest.take(world.other_id, Batch([sample(world.foreign_miner, 0)], []))
    assert await world.tick(300) == RESTART * 2
    assert {row["rule_id"] for row in world.rows("SELECT rule_id FROM miner_commands")} >= {other.id}


async def test_over_the_rate_limit_it_is_tried_when_the_window_frees(database: Database, clock: ManualClock) -> None:
    world = World(database, clock)
    rule = world.add_rule()
    world.database.write_now(use_up_restarts, world.site_id)
    assert await world.heat(10, HOT) == []
    [state] = world.rows("SELECT * FROM rule_states")
    assert (state["last_outcome"], state["last_fired_at"]) == ("RATE_LIMITED", None)
    assert state["quiet_until"] == START_MS + 300_000
    [told] = world.rows("SELECT * FROM command_audit WHERE event = 'rule.refused'")
    assert told["actor"] == f"rule:{rule.id}"
    await world.heat(200, HOT)
    assert await world.tick(299) == []
    assert await world.tick(300) == RESTART
