import pytest

from restante.commands.rules.rule_state import ActiveRule, MinerRuleState, SiteRules
from restante.core.commands.condition_run import ConditionRun
from restante.core.commands.thresholds import Threshold


def rule(rule_id: int, miner_ids: list[int] | None = None, threshold: Threshold | None = None) -> ActiveRule:
    return ActiveRule(
        id=rule_id,
        site_id=1,
        miner_ids=None if miner_ids is None else frozenset(miner_ids),
        trigger_type="threshold" if threshold else "offline",
        threshold=threshold,
        duration_ms=0,
        action_type="MINER_RESTART",
        action_parameters=b"{}",
        sealed_params=None,
        cooldown_ms=0,
        priority=0,
    )


HOT = Threshold("temp_max", ">", 80.0)
ROW = {
    "id": 3,
    "site_id": 1,
    "miner_ids": "[4,5]",
    "trigger_type": "threshold",
    "trigger_metric": "temp_max",
    "trigger_operator": ">",
    "trigger_value": 80.0,
    "trigger_duration_seconds": 60,
    "action_type": "SET_FAN",
    "action_parameters": '{"speed":1}',
    "sealed_params": None,
    "cooldown_seconds": 1800,
    "priority": 2,
}
STATE = {
    "rule_id": 3,
    "miner_id": 4,
    "holds_since": 1000,
    "last_fired_at": None,
    "last_outcome": None,
    "last_command_id": None,
    "quiet_until": None,
    "ts": 5000,
    "received_at": 6000,
}


def test_active_rule_is_read_from_its_row() -> None:
    active = ActiveRule.of(ROW)
    assert (active.threshold, active.duration_ms, active.cooldown_ms) == (HOT, 60_000, 1_800_000)
    assert (active.action_parameters, active.priority) == (b'{"speed":1}', 2)
    assert [active.is_for(miner_id) for miner_id in (3, 4, 5)] == [False, True, True]
    assert ActiveRule.of({**ROW, "miner_ids": None}).is_for(99)
    assert ActiveRule.of({**ROW, "trigger_type": "offline"}).threshold is None


@pytest.mark.parametrize(
    ("threshold", "fields", "is_decided"),
    [
        (HOT, {"temp_max": 1}, True),
        (HOT, {"hashrate": 1}, False),
        (HOT, {"temp_max": None}, False),
        (None, {}, True),
    ],
)
def test_record_decides_a_rule_only_if_it_has_the_metric(
    threshold: Threshold | None, fields: dict[str, object], is_decided: bool
) -> None:
    assert rule(1, threshold=threshold).is_decided_by(fields) is is_decided


def test_state_is_read_with_the_newest_record_of_its_miner() -> None:
    site = SiteRules.read(1, 77, [ROW], [STATE])
    state = site.states[4][3]
    assert state.run == ConditionRun(1000, 5000, 6000)
    assert state.columns() == {name: STATE[name] for name in state.columns()}


def test_state_of_a_miner_without_telemetry_has_no_run() -> None:
    site = SiteRules.read(1, 77, [ROW], [{**STATE, "ts": None, "received_at": None}])
    assert site.states[4][3].run is None


def test_state_without_run_firing_or_cooldown_is_empty() -> None:
    empty = MinerRuleState(rule(1), 4)
    assert empty.is_empty
    assert not MinerRuleState(rule(1), 4, run=ConditionRun(1, 1, 1)).is_empty
    assert not MinerRuleState(rule(1), 4, last_fired_at=1).is_empty
    assert not MinerRuleState(rule(1), 4, quiet_until=1).is_empty


def test_states_are_added_found_and_dropped() -> None:
    site = SiteRules(1, None, [])
    hot = rule(1, threshold=HOT)
    state = site.get_or_add(hot, 4)
    assert site.get_or_add(hot, 4) is state
    site.drop(state)
    assert site.states == {}


def test_miners_with_the_same_rules_share_thresholds() -> None:
    site = SiteRules(1, None, [rule(1, threshold=HOT), rule(2, [5], HOT), rule(3)])
    assert site.thresholds_for(4) is site.thresholds_for(6)
    assert site.thresholds_for(5) is not site.thresholds_for(4)
    assert (site.thresholds_for(4).rule_count, site.thresholds_for(5).rule_count) == (1, 2)
    assert {each.id for each in site.thresholds_for(5).thresholds.crossed_by({"temp_max": 99})} == {1, 2}
