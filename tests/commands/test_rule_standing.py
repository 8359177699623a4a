import pytest

from restante.commands.rule_standing import ActiveRule, SiteRules, Standing
from restante.core.holding import Holding
from restante.core.thresholds import Threshold


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


def test_a_rule_as_it_is_stored() -> None:
    active = ActiveRule.of(ROW)
    assert (active.threshold, active.duration_ms, active.cooldown_ms) == (HOT, 60_000, 1_800_000)
    assert (active.action_parameters, active.priority) == (b'{"speed":1}', 2)
    assert [active.is_for(miner_id) for miner_id in (3, 4, 5)] == [False, True, True]
    assert ActiveRule.of({**ROW, "miner_ids": None}).is_for(99)
    assert ActiveRule.of({**ROW, "trigger_type": "offline"}).threshold is None


@pytest.mark.parametrize(
    ("threshold", "fields", "is_told"),
    [
        (HOT, {"temp_max": 1}, True),
        (HOT, {"hashrate": 1}, False),
        (HOT, {"temp_max": None}, False),
        (None, {}, True),
    ],
)
def test_what_a_record_tells_a_rule(threshold: Threshold | None, fields: dict[str, object], is_told: bool) -> None:
    assert rule(1, threshold=threshold).is_told_about_by(fields) is is_told


def test_a_standing_is_read_with_the_last_that_was_heard() -> None:
    site = SiteRules.read(1, 77, [ROW], [STATE])
    standing = site.standings[4][3]
    assert standing.holding == Holding(1000, 5000, 6000)
    assert standing.columns() == {name: STATE[name] for name in standing.columns()}


def test_a_standing_of_a_miner_of_which_nothing_is_known_holds_nothing() -> None:
    site = SiteRules.read(1, 77, [ROW], [{**STATE, "ts": None, "received_at": None}])
    assert site.standings[4][3].holding is None


def test_a_blank_standing_is_one_that_says_nothing() -> None:
    blank = Standing(rule(1), 4)
    assert blank.is_blank
    assert not Standing(rule(1), 4, holding=Holding(1, 1, 1)).is_blank
    assert not Standing(rule(1), 4, last_fired_at=1).is_blank
    assert not Standing(rule(1), 4, quiet_until=1).is_blank


def test_standings_are_found_made_and_dropped() -> None:
    site = SiteRules(1, None, [])
    hot = rule(1, threshold=HOT)
    standing = site.standing(hot, 4)
    assert site.standing(hot, 4) is standing
    site.drop(standing)
    assert site.standings == {}


def test_miners_with_the_same_rules_share_a_plan() -> None:
    site = SiteRules(1, None, [rule(1, threshold=HOT), rule(2, [5], HOT), rule(3)])
    assert site.plan_for(4) is site.plan_for(6)
    assert site.plan_for(5) is not site.plan_for(4)
    assert (site.plan_for(4).rule_count, site.plan_for(5).rule_count) == (1, 2)
    assert {each.id for each in site.plan_for(5).thresholds.crossed_by({"temp_max": 99})} == {1, 2}
