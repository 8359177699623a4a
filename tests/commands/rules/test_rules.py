from typing import Any

import msgspec
import pytest

from restante.commands.rules import rules
from restante.commands.rules.rules import RULES_MAX, Rule, RuleChange, RuleRequest
from restante.core.errors import BadInput, Conflict, NotFound
from restante.core.iso_time import iso_precise
from restante.database.paging import PageRequest
from tests.commands.reporting_fixture import ACTOR, ReportingFleet
from tests.conftest import START_MS, ManualClock

ALL = PageRequest(100, 0)


def change(fleet: ReportingFleet, rule: Rule, **changed: Any) -> Rule:
    return fleet.database.write_now(rules.change, fleet.trail, fleet.box, rule.id, RuleChange(**changed), ACTOR)


def revision(fleet: ReportingFleet) -> int | None:
    rows = fleet.rows("SELECT revision FROM rule_revisions WHERE site_id = :site_id", site_id=fleet.site_id)
    return rows[0]["revision"] if rows else None


def events(fleet: ReportingFleet) -> list[str]:
    rows = fleet.rows("SELECT event FROM command_audit WHERE event LIKE 'rule.%' ORDER BY n")
    return [row["event"] for row in rows]


def test_rule_has_its_defaults(fleet: ReportingFleet) -> None:
    rule = fleet.add_rule()
    assert rule == Rule(
        id=rule.id,
        name="too hot",
        site_id=fleet.site_id,
        miner_ids=None,
        trigger_type="threshold",
        trigger_metric="temp_max",
        trigger_operator=">",
        trigger_value=80.0,
        trigger_duration_seconds=0,
        action_type="MINER_RESTART",
        action_parameters={},
        cooldown_seconds=1800,
        priority=0,
        enabled=True,
        created_by=ACTOR,
        created_at=iso_precise(START_MS),
        updated_at=iso_precise(START_MS),
    )
    assert fleet.database.read_now(rules.get, rule.id) == rule


def test_alias_becomes_the_standard_type_and_parameters_are_kept(fleet: ReportingFleet) -> None:
    rule = fleet.add_rule(action_type="set_fan", action_parameters=msgspec.Raw(b'{"speed": 100}'))
    assert (rule.action_type, rule.action_parameters) == ("SET_FAN", {"speed": 100})


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"site_id": 999}, "site_id"),
        ({"name": " hot"}, "name"),
        ({"trigger_metric": None}, "trigger_metric"),
        ({"trigger_operator": None}, "trigger_operator"),
        ({"trigger_value": None}, "trigger_value"),
        ({"trigger_metric": "miner_id"}, "trigger_metric"),
        ({"trigger_metric": "ts"}, "trigger_metric"),
        ({"action_type": "explode"}, "action_type"),
        ({"action_type": "SET_FAN"}, "action_parameters.speed"),
        ({"action_type": "SET_FAN", "action_parameters": msgspec.Raw(b'{"speed": 101}')}, "action_parameters.speed"),
        ({"action_parameters": msgspec.Raw(b'{"x": 1.5}')}, "action_parameters"),
        ({"action_parameters": msgspec.Raw(b'{"x": 1, "x": 2}')}, "action_parameters"),
        ({"action_parameters": msgspec.Raw(b"[]")}, "action_parameters"),
        ({"miner_ids": [999]}, "miner_ids"),
        ({"trigger_type": "offline", "trigger_duration_seconds": 60}, "trigger_metric"),
        (
            {
                "trigger_type": "offline",
                "trigger_duration_seconds": 9,
                "trigger_metric": None,
                "trigger_operator": None,
                "trigger_value": None,
            },
            "trigger_duration_seconds",
        ),
    ],
)
def test_invalid_rule_is_refused(fleet: ReportingFleet, changed: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as raised:
        fleet.add_rule(**changed)
    assert raised.value.field == field
    assert fleet.database.read_now(rules.list_page, None, None, ALL).items == []
    assert revision(fleet) is None


def test_rule_names_miners_of_its_site_once_each(fleet: ReportingFleet) -> None:
    own = fleet.miner_ids[0]
    assert fleet.add_rule(miner_ids=[own]).miner_ids == [own]
    for wrong in ([own, fleet.foreign_miner], [own, own]):
        with pytest.raises(BadInput) as raised:
            fleet.add_rule(miner_ids=wrong)
        assert raised.value.field == "miner_ids"


def test_rules_of_a_site_are_limited(fleet: ReportingFleet) -> None:
    fleet.add_rule()
    columns = "name, site_id, trigger_type, action_type, action_parameters, created_by, created_at, updated_at"
    fleet.rows(
        f"WITH RECURSIVE n (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM n WHERE n < {RULES_MAX}) "
        f"INSERT INTO automation_rules ({columns}) SELECT {columns} FROM automation_rules, n RETURNING id"
    )
    with pytest.raises(Conflict):
        fleet.add_rule()
    fleet.add_rule(site_id=fleet.other_id)


def test_replaced_rule_has_new_values_and_keeps_its_creation(fleet: ReportingFleet, clock: ManualClock) -> None:
    rule = fleet.add_rule(miner_ids=fleet.miner_ids[:1], cooldown_seconds=5)
    clock.advance(60)
    request = RuleRequest(
        name="slow",
        site_id=fleet.site_id,
        trigger_type="threshold",
        trigger_metric="hashrate",
        trigger_operator="<=",
        trigger_value=10.0,
        action_type="DEVICE_REBOOT",
        enabled=False,
    )
    replaced = fleet.database.write_now(rules.replace, fleet.trail, fleet.box, rule.id, request, "another")
    assert (replaced.name, replaced.trigger_metric, replaced.trigger_operator) == ("slow", "hashrate", "<=")
    assert (replaced.miner_ids, replaced.cooldown_seconds, replaced.enabled) == (None, 1800, False)
    assert (replaced.created_by, replaced.created_at, replaced.updated_at) == (
        ACTOR,
        iso_precise(START_MS),
        iso_precise(START_MS + 60_000),
    )


def test_rule_cannot_move_to_another_site(fleet: ReportingFleet) -> None:
    rule = fleet.add_rule()
    request = RuleRequest("x", fleet.other_id, "threshold", "restart", None, "temp_max", ">", 1.0)
    with pytest.raises(BadInput) as raised:
        fleet.database.write_now(rules.replace, fleet.trail, fleet.box, rule.id, request, ACTOR)
    assert raised.value.field == "site_id"


def test_changing_some_fields_keeps_the_others(fleet: ReportingFleet) -> None:
    rule = fleet.add_rule(action_type="set_fan", action_parameters=msgspec.Raw(b'{"speed": 7}'), priority=3)
    changed = change(fleet, rule, trigger_value=90.0, miner_ids=[fleet.miner_ids[0]])
    assert changed == msgspec.structs.replace(rule, trigger_value=90.0, miner_ids=[fleet.miner_ids[0]])
    assert change(fleet, rule, miner_ids=None).miner_ids is None
    with pytest.raises(BadInput):
        change(fleet, rule, trigger_metric=None)


async def test_changed_rule_restarts_its_run_and_uses_its_new_cooldown(fleet: ReportingFleet) -> None:
    rule = fleet.add_rule(cooldown_seconds=1000)
    await fleet.heat(0, 90)
    change(fleet, rule, cooldown_seconds=10)
    [state] = fleet.rows("SELECT * FROM rule_states")
    assert (state["holds_since"], state["quiet_until"]) == (None, START_MS + 10_000)


async def test_deleted_rule_is_gone_with_its_states(fleet: ReportingFleet) -> None:
    rule = fleet.add_rule()
    await fleet.heat(0, 90)
    fleet.database.write_now(rules.delete, fleet.trail, rule.id, ACTOR)
    assert fleet.rows("SELECT * FROM rule_states") == []
    for call in (rules.get, lambda conn, rule_id: rules.states(conn, rule_id, ALL)):
        with pytest.raises(NotFound):
            fleet.database.read_now(call, rule.id)
    with pytest.raises(NotFound):
        fleet.database.write_now(rules.delete, fleet.trail, rule.id, ACTOR)
    with pytest.raises(NotFound):
        change(fleet, rule, enabled=True)


async def test_states_show_run_last_firing_and_outcome(fleet: ReportingFleet) -> None:
    rule = fleet.add_rule()
    await fleet.heat(5, 90)
    [state] = fleet.database.read_now(rules.states, rule.id, ALL).items
    assert (state.miner_id, state.holds_since, state.last_fired_at) == (
        fleet.miner_ids[0],
        iso_precise(START_MS + 5_000),
        iso_precise(START_MS + 5_000),
    )
    assert (state.last_outcome, state.quiet_until) == ("created", iso_precise(START_MS + 1_805_000))
    assert state.last_command_id == fleet.rows("SELECT command_id FROM miner_commands")[0]["command_id"]


def test_rules_are_listed_by_site_and_enabled(fleet: ReportingFleet) -> None:
    first = fleet.add_rule()
    second = fleet.add_rule(enabled=False)
    third = fleet.add_rule(site_id=fleet.other_id)

    def ids(site_id: int | None, enabled: bool | None, page: PageRequest = ALL) -> list[int]:
        return [rule.id for rule in fleet.database.read_now(rules.list_page, site_id, enabled, page).items]

    assert ids(None, None) == [first.id, second.id, third.id]
    assert ids(fleet.site_id, None) == [first.id, second.id]
    assert ids(fleet.site_id, True) == [first.id]
    assert ids(None, False) == [second.id]
    assert ids(None, None, PageRequest(1, first.id)) == [second.id]
    assert fleet.database.read_now(rules.list_page, None, None, PageRequest(2, 0)).next == second.id


def test_every_change_gives_a_new_revision_and_an_audit_row(fleet: ReportingFleet) -> None:
    seen = [revision(fleet)]
    rule = fleet.add_rule(action_type="set_pool", action_parameters=msgspec.Raw(b'{"url":"a:1","password":"hush"}'))
    seen.append(revision(fleet))
    change(fleet, rule, enabled=False)
    seen.append(revision(fleet))
    fleet.database.write_now(rules.delete, fleet.trail, rule.id, ACTOR)
    seen.append(revision(fleet))
    assert len(set(seen)) == 4
    assert events(fleet) == ["rule.created", "rule.changed", "rule.deleted"]
    assert not any("hush" in row["detail"] for row in fleet.rows("SELECT detail FROM command_audit"))
