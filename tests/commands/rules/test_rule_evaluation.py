"""When the rules of a site fire, as samples are reported and time passes."""

import pytest

from restante.commands.dispatch import rate_limits
from restante.commands.dispatch.rate_limits import RateRules
from restante.commands.rules import rules
from restante.commands.rules.rule_evaluation import FIRINGS_MAX
from restante.commands.rules.rules import RuleChange
from restante.commands.telemetry.telemetry_records import Batch
from restante.database.connection import Connection
from restante.database.database import Database
from tests.commands.reporting_fixture import ACTOR, GAP_SECONDS, ReportingFleet, sample
from tests.conftest import START_MS, ManualClock

RESTART = ["MINER_RESTART"]
HOT, COOL = 90, 60


def use_up_restarts(conn: Connection, site_id: int) -> None:
    """Use up the rate limit of restarts."""
    (window,) = rate_limits.read_windows(conn, RateRules(), [(site_id, "MINER_RESTART")]).values()
    while window.left:
        window.acquire()
    rate_limits.record_dispatches(conn, [window])


def holds_since(fleet: ReportingFleet) -> list[int | None]:
    """The start of each stored run, in seconds since the start of the test."""
    rows = fleet.rows("SELECT holds_since FROM rule_states ORDER BY rule_id, miner_id")
    return [None if row["holds_since"] is None else (row["holds_since"] - START_MS) // 1000 for row in rows]


async def test_rule_without_duration_fires_on_one_sample(fleet: ReportingFleet) -> None:
    rule = fleet.add_rule()
    assert await fleet.heat(0, 80) == []
    assert await fleet.heat(10, 80.5) == RESTART
    [command] = fleet.rows("SELECT * FROM miner_commands")
    assert (command["miner_id"], command["rule_id"], command["site_id"]) == (fleet.miner_ids[0], rule.id, fleet.site_id)
    assert (command["created_by"], command["status"]) == (f"rule:{rule.id}", "pending")


async def test_rule_with_duration_does_not_fire_on_one_sample(fleet: ReportingFleet) -> None:
    fleet.add_rule(trigger_duration_seconds=60)
    assert await fleet.heat(0, HOT) == []
    assert await fleet.tick(61) == []
    assert await fleet.tick(120) == []


async def test_rule_fires_when_the_condition_held_for_the_duration(fleet: ReportingFleet) -> None:
    fleet.add_rule(trigger_duration_seconds=60)
    assert await fleet.heat(0, HOT) == []
    assert await fleet.heat(30, HOT) == []
    assert await fleet.heat(59, HOT) == []
    assert await fleet.heat(60, HOT) == RESTART


async def test_sample_below_the_threshold_ends_the_run(fleet: ReportingFleet) -> None:
    fleet.add_rule(trigger_duration_seconds=60)
    await fleet.heat(0, HOT)
    await fleet.heat(40, COOL)
    assert holds_since(fleet) == []
    assert await fleet.heat(50, HOT) == []
    assert await fleet.heat(100, HOT) == []
    assert await fleet.heat(110, HOT) == RESTART


async def test_sample_without_the_metric_neither_ends_nor_extends_the_run(fleet: ReportingFleet) -> None:
    fleet.add_rule(trigger_duration_seconds=60)
    miner = fleet.miner_ids[0]
    await fleet.heat(0, HOT)
    await fleet.report(sample(miner, 30, hashrate=5), sample(miner, 31, temp_max=None))
    assert await fleet.heat(60, HOT) == RESTART


async def test_run_starts_again_after_a_gap(fleet: ReportingFleet) -> None:
    fleet.add_rule(trigger_duration_seconds=60)
    await fleet.heat(0, HOT)
    assert await fleet.heat(GAP_SECONDS + 1, HOT) == []
    assert holds_since(fleet) == [GAP_SECONDS + 1]
    assert await fleet.heat(GAP_SECONDS + 61, HOT) == RESTART


async def test_duration_is_measured_in_record_time(fleet: ReportingFleet, clock: ManualClock) -> None:
    """The collector's clock is wrong, and it sends several samples at once."""
    fleet.add_rule(trigger_duration_seconds=60)
    miner = fleet.miner_ids[0]
    await fleet.report(sample(miner, -7200, temp_max=HOT), sample(miner, -7141, temp_max=HOT))
    assert fleet.commands() == []
    assert await fleet.tick(0) == []
    await fleet.report(sample(miner, -7140, temp_max=HOT))
    assert fleet.commands() == RESTART


async def test_rule_does_not_fire_if_the_batch_ends_below_the_threshold(fleet: ReportingFleet) -> None:
    fleet.add_rule(trigger_duration_seconds=60)
    miner = fleet.miner_ids[0]
    hot = [sample(miner, second, temp_max=HOT) for second in range(-300, -100, 10)]
    await fleet.report(*hot, sample(miner, -90, temp_max=COOL))
    assert fleet.commands() == []


async def test_late_samples_are_not_evaluated(fleet: ReportingFleet) -> None:
    fleet.add_rule()
    await fleet.heat(10, COOL)
    await fleet.report(sample(fleet.miner_ids[0], 5, temp_max=HOT))
    assert fleet.commands() == []


async def test_timer_fires_when_the_duration_ends_between_samples(fleet: ReportingFleet) -> None:
    fleet.add_rule(trigger_duration_seconds=60)
    await fleet.heat(0, HOT)
    await fleet.heat(50, HOT)
    assert await fleet.tick(59) == []
    assert await fleet.tick(60) == RESTART


async def test_timer_does_not_fire_on_samples_older_than_the_gap(fleet: ReportingFleet) -> None:
    fleet.add_rule(trigger_duration_seconds=400)
    await fleet.heat(0, HOT)
    await fleet.heat(50, HOT)
    assert await fleet.tick(400) == []
    assert await fleet.tick(5000) == []


async def test_rule_fires_again_only_after_its_cooldown(fleet: ReportingFleet) -> None:
    fleet.add_rule(cooldown_seconds=100)
    assert await fleet.heat(0, HOT) == RESTART
    fleet.rows("UPDATE miner_commands SET status = 'succeeded' RETURNING id")
    assert await fleet.heat(99, HOT) == RESTART
    assert await fleet.tick(99) == RESTART
    assert await fleet.heat(100, HOT) == RESTART * 2


async def test_cooldown_continues_after_the_condition_ends(fleet: ReportingFleet) -> None:
    fleet.add_rule(cooldown_seconds=100)
    await fleet.heat(0, HOT)
    fleet.rows("UPDATE miner_commands SET status = 'succeeded' RETURNING id")
    await fleet.heat(10, COOL)
    assert await fleet.heat(20, HOT) == RESTART
    await fleet.heat(30, COOL)
    assert await fleet.heat(100, HOT) == RESTART * 2


async def test_timer_fires_at_the_end_of_the_cooldown_if_the_condition_holds(fleet: ReportingFleet) -> None:
    fleet.add_rule(cooldown_seconds=100)
    await fleet.heat(0, HOT)
    fleet.rows("UPDATE miner_commands SET status = 'succeeded' RETURNING id")
    await fleet.heat(90, HOT)
    assert await fleet.tick(100) == RESTART * 2


async def test_each_miner_has_its_own_cooldown(fleet: ReportingFleet) -> None:
    fleet.add_rule()
    assert await fleet.heat(0, HOT, fleet.miner_ids[0]) == RESTART
    assert await fleet.heat(1, HOT, fleet.miner_ids[1]) == RESTART * 2


async def test_rule_for_some_miners_ignores_others(fleet: ReportingFleet) -> None:
    fleet.add_rule(miner_ids=fleet.miner_ids[1:2])
    assert await fleet.heat(0, HOT, fleet.miner_ids[0]) == []
    assert await fleet.heat(1, HOT, fleet.miner_ids[1]) == RESTART


async def test_rules_of_another_site_are_not_evaluated(fleet: ReportingFleet) -> None:
    fleet.add_rule(site_id=fleet.other_id)
    assert await fleet.heat(0, HOT) == []
    assert fleet.counters.rule_evals == 0


async def test_all_due_rules_fire_most_urgent_first(fleet: ReportingFleet) -> None:
    fleet.add_rule(action_type="disable")
    fleet.add_rule(action_type="reboot", priority=9)
    assert await fleet.heat(0, HOT) == ["MINER_RESTART", "HASHING_DISABLE"]


async def test_active_command_of_the_rule_is_not_duplicated(fleet: ReportingFleet) -> None:
    fleet.add_rule(cooldown_seconds=100)
    await fleet.heat(0, HOT)
    assert await fleet.heat(100, HOT) == RESTART
    [state] = fleet.rows("SELECT * FROM rule_states")
    [command] = fleet.rows("SELECT command_id FROM miner_commands")
    assert (state["last_outcome"], state["last_command_id"]) == ("DUPLICATE_ACTIVE", command["command_id"])
    assert (state["last_fired_at"], state["quiet_until"]) == (START_MS, START_MS + 200_000)


async def test_rule_changes_take_effect_at_once(fleet: ReportingFleet) -> None:
    rule = fleet.add_rule()
    change = fleet.database.write_now
    change(rules.change, fleet.trail, fleet.box, rule.id, RuleChange(enabled=False), ACTOR)
    assert await fleet.heat(0, HOT) == []
    change(rules.change, fleet.trail, fleet.box, rule.id, RuleChange(enabled=True, trigger_value=95.0), ACTOR)
    assert await fleet.heat(1, HOT) == []
    change(rules.change, fleet.trail, fleet.box, rule.id, RuleChange(trigger_value=85.0), ACTOR)
    assert await fleet.heat(2, HOT) == RESTART
    change(rules.delete, fleet.trail, rule.id, ACTOR)
    assert await fleet.heat(4000, HOT) == RESTART


async def test_duration_continues_after_a_restart(fleet: ReportingFleet) -> None:
    fleet.add_rule(trigger_duration_seconds=60)
    await fleet.heat(0, HOT)
    await fleet.heat(30, HOT)
    fleet.restart()
    assert await fleet.heat(60, HOT) == RESTART


async def test_cooldown_continues_after_a_restart(fleet: ReportingFleet) -> None:
    fleet.add_rule(cooldown_seconds=100)
    await fleet.heat(0, HOT)
    fleet.rows("UPDATE miner_commands SET status = 'succeeded' RETURNING id")
    fleet.restart()
    assert await fleet.heat(50, HOT) == RESTART


async def test_rolled_back_samples_leave_no_run(fleet: ReportingFleet) -> None:
    """Samples of a failed transaction neither start a run nor fire a rule, in memory or in the database."""
    fleet.add_rule(trigger_duration_seconds=60)
    await fleet.heat(0, COOL)

    def fail(conn: Connection, second: int) -> None:
        samples = [sample(fleet.miner_ids[0], second, temp_max=HOT)]
        fleet.rules.evaluate(conn, fleet.rules.prepare(conn, fleet.site_id, samples), samples)
        raise RuntimeError("after everything was done")

    for second in (1, 61):
        with pytest.raises(RuntimeError):
            fleet.database.write_now(fail, second)
    assert holds_since(fleet) == []
    assert await fleet.heat(62, HOT) == []
    assert holds_since(fleet) == [62]


async def test_only_changed_states_are_written(fleet: ReportingFleet) -> None:
    fleet.add_rule(trigger_duration_seconds=600)
    await fleet.heat(0, HOT)
    before = fleet.rows("SELECT revision FROM rule_revisions")[0]["revision"]
    await fleet.heat(10, HOT)
    await fleet.heat(20, COOL, fleet.miner_ids[1])
    assert fleet.rows("SELECT revision FROM rule_revisions")[0]["revision"] == before


async def test_timer_does_not_evaluate_rules_without_a_run(fleet: ReportingFleet) -> None:
    fleet.add_rule(trigger_duration_seconds=60)
    await fleet.heat(0, HOT)
    await fleet.heat(1, HOT)
    await fleet.heat(2, COOL)
    before = fleet.counters.rule_evals
    await fleet.tick(61)
    assert fleet.counters.rule_evals == before


async def test_many_due_rules_fire_in_several_transactions(database: Database, clock: ManualClock) -> None:
    fleet = ReportingFleet(database, clock)
    miners = [fleet.add_miner(fleet.site_id) for _ in range(FIRINGS_MAX + 10)]
    fleet.add_rule()
    await fleet.report(*(sample(miner, 0, temp_max=HOT) for miner in miners))
    assert len(fleet.commands()) == FIRINGS_MAX
    assert len(await fleet.tick(2)) == FIRINGS_MAX + 10


async def test_offline_rule_fires_for_silent_miners_that_have_reported(fleet: ReportingFleet) -> None:
    fleet.add_offline_rule(300)
    await fleet.tick(0)
    await fleet.heat(0, COOL, fleet.miner_ids[0])
    await fleet.heat(100, COOL, fleet.miner_ids[1])
    assert await fleet.tick(299) == []
    assert await fleet.tick(300) == RESTART
    assert await fleet.tick(399) == RESTART
    assert await fleet.tick(400) == RESTART * 2
    assert await fleet.tick(1000) == RESTART * 2


async def test_offline_rule_does_not_fire_for_a_reporting_miner(fleet: ReportingFleet) -> None:
    fleet.add_offline_rule(300)
    for second in range(0, 1000, 100):
        await fleet.heat(second, COOL)
        assert await fleet.tick(second) == []
    assert await fleet.tick(1199) == []
    assert await fleet.tick(1200) == RESTART


async def test_offline_rule_has_a_cooldown(fleet: ReportingFleet) -> None:
    fleet.add_offline_rule(300, cooldown_seconds=600)
    await fleet.heat(0, COOL)
    await fleet.tick(300)
    fleet.rows("UPDATE miner_commands SET status = 'succeeded' RETURNING id")
    assert await fleet.tick(899) == RESTART
    assert await fleet.tick(900) == RESTART * 2


async def test_report_ends_the_silence(fleet: ReportingFleet) -> None:
    fleet.add_offline_rule(300)
    await fleet.heat(0, COOL)
    await fleet.tick(300)
    assert holds_since(fleet) == [0]
    await fleet.heat(310, COOL)
    assert holds_since(fleet) == [None]


async def test_offline_rule_for_some_miners_ignores_others(fleet: ReportingFleet) -> None:
    fleet.add_offline_rule(300, miner_ids=fleet.miner_ids[1:2])
    await fleet.report(*(sample(miner, 0, temp_max=COOL) for miner in fleet.miner_ids))
    assert await fleet.tick(300) == RESTART
    assert fleet.rows("SELECT miner_id FROM miner_commands")[0]["miner_id"] == fleet.miner_ids[1]


async def test_server_downtime_does_not_count_as_silence(fleet: ReportingFleet) -> None:
    fleet.add_offline_rule(300)
    await fleet.heat(0, COOL)
    fleet.restart()
    assert await fleet.tick(5000) == []
    assert await fleet.tick(5299) == []
    assert await fleet.tick(5300) == RESTART


async def test_timer_evaluates_rules_of_all_sites(fleet: ReportingFleet) -> None:
    """Including rules created after the start, and sites that have not reported since the start."""
    await fleet.tick(0)
    await fleet.heat(0, COOL)
    fleet.add_offline_rule(300)
    other = fleet.add_offline_rule(300, site_id=fleet.other_id)
    await fleet.ingest.accept(fleet.other_id, Batch([sample(fleet.foreign_miner, 0)], []))
    assert await fleet.tick(300) == RESTART * 2
    assert {row["rule_id"] for row in fleet.rows("SELECT rule_id FROM miner_commands")} >= {other.id}


async def test_rate_limited_rule_tries_again_when_the_window_frees(database: Database, clock: ManualClock) -> None:
    fleet = ReportingFleet(database, clock)
    rule = fleet.add_rule()
    fleet.database.write_now(use_up_restarts, fleet.site_id)
    assert await fleet.heat(10, HOT) == []
    [state] = fleet.rows("SELECT * FROM rule_states")
    assert (state["last_outcome"], state["last_fired_at"]) == ("RATE_LIMITED", None)
    assert state["quiet_until"] == START_MS + 300_000
    [row] = fleet.rows("SELECT * FROM command_audit WHERE event = 'rule.refused'")
    assert row["actor"] == f"rule:{rule.id}"
    await fleet.heat(200, HOT)
    assert await fleet.tick(299) == []
    assert await fleet.tick(300) == RESTART
