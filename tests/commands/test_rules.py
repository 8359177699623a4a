from typing import Any

import msgspec
import pytest

from restante.commands import rules
from restante.commands.rules import RULES_MAX, Rule, RuleChange, RuleWish
from restante.core.errors import BadInput, Conflict, NotFound
from restante.database.database import Database
from restante.web.paging import Window
from tests.commands.reporting import ACTOR, World, iso_at
from tests.conftest import START_MS, ManualClock

ALL = Window(100, 0)


@pytest.fixture
def world(database: Database, clock: ManualClock) -> World:
    return World(database, clock)


def change(world: World, rule: Rule, **changed: Any) -> Rule:
    return world.database.write_now(rules.change, world.trail, rule.id, RuleChange(**changed), ACTOR)


def revision(world: World) -> int | None:
    rows = world.rows("SELECT revision FROM rule_revisions WHERE site_id = :site_id", site_id=world.site_id)
    return rows[0]["revision"] if rows else None


def events(world: World) -> list[str]:
    rows = world.rows("SELECT event FROM command_audit WHERE event LIKE 'rule.%' ORDER BY n")
    return [row["event"] for row in rows]


def test_a_rule_with_all_its_defaults(world: World) -> None:
    rule = world.add_rule()
    assert rule == Rule(
        id=rule.id,
        name="too hot",
        site_id=world.site_id,
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
        created_at=iso_at(0),
        updated_at=iso_at(0),
    )
    assert world.database.read_now(rules.get, rule.id) == rule


def test_an_alias_becomes_the_standard_type_and_parameters_are_kept(world: World) -> None:
    rule = world.add_rule(action_type="set_fan", action_parameters=msgspec.Raw(b'{"speed": 100}'))
    assert (rule.action_type, rule.action_parameters) == ("SET_FAN", {"speed": 100})


@pytest.mark.parametrize(
    ("wish", "field"),
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
def test_what_is_no_rule_is_refused(world: World, wish: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as raised:
        world.add_rule(**wish)
    assert raised.value.field == field
    assert world.database.read_now(rules.list_page, None, None, ALL).items == []
    assert revision(world) is None


def test_miners_must_be_the_sites_own_each_once(world: World) -> None:
    own = world.miner_ids[0]
    assert world.add_rule(miner_ids=[own]).miner_ids == [own]
    for wrong in ([own, world.foreign_miner], [own, own]):
        with pytest.raises(BadInput) as raised:
            world.add_rule(miner_ids=wrong)
        assert raised.value.field == "miner_ids"


def test_a_site_has_so_many_rules(world: World) -> None:
    world.add_rule()
    columns = "name, site_id, trigger_type, action_type, action_parameters, created_by, created_at, updated_at"
    world.rows(
        f"WITH RECURSIVE n (n) AS (SELECT 2 UNION ALL SELECT n + 1 FROM n WHERE n < {RULES_MAX}) "
        f"INSERT INTO automation_rules ({columns}) SELECT {columns} FROM automation_rules, n RETURNING id"
    )
    with pytest.raises(Conflict):
        world.add_rule()
    world.add_rule(site_id=world.other_id)


def test_replacing_a_rule(world: World, clock: ManualClock) -> None:
    rule = world.add_rule(miner_ids=world.miner_ids[:1], cooldown_seconds=5)
    clock.advance(60)
    wish = RuleWish(
        name="slow",
        site_id=world.site_id,
        trigger_type="threshold",
        trigger_metric="hashrate",
        trigger_operator="<=",
        trigger_value=10.0,
        action_type="DEVICE_REBOOT",
        enabled=False,
    )
    replaced = world.database.write_now(rules.replace, world.trail, rule.id, wish, "another")
    assert (replaced.name, replaced.trigger_metric, replaced.trigger_operator) == ("slow", "hashrate", "<=")
    assert (replaced.miner_ids, replaced.cooldown_seconds, replaced.enabled) == (None, 1800, False)
    assert (replaced.created_by, replaced.created_at, replaced.updated_at) == (ACTOR, iso_at(0), iso_at(60))


def test_a_rule_stays_at_its_site(world: World) -> None:
    rule = world.add_rule()
    wish = RuleWish("x", world.other_id, "threshold", "restart", None, "temp_max", ">", 1.0)
    with pytest.raises(BadInput) as raised:
        world.database.write_now(rules.replace, world.trail, rule.id, wish, ACTOR)
    assert raised.value.field == "site_id"


def test_changing_a_part_leaves_the_rest(world: World) -> None:
    rule = world.add_rule(action_type="set_fan", action_parameters=msgspec.Raw(b'{"speed": 7}'), priority=3)
    changed = change(world, rule, trigger_value=90.0, miner_ids=[world.miner_ids[0]])
    assert changed == msgspec.structs.replace(rule, trigger_value=90.0, miner_ids=[world.miner_ids[0]])
    assert change(world, rule, miner_ids=None).miner_ids is None
    with pytest.raises(BadInput):
        change(world, rule, trigger_metric=None)


async def test_a_changed_rule_begins_anew_and_keeps_to_its_new_cooldown(world: World) -> None:
    rule = world.add_rule(cooldown_seconds=1000)
    await world.heat(0, 90)
    change(world, rule, cooldown_seconds=10)
    [state] = world.rows("SELECT * FROM rule_states")
    assert (state["holds_since"], state["quiet_until"]) == (None, START_MS + 10_000)


async def test_a_deleted_rule_is_gone_with_its_states(world: World) -> None:
    rule = world.add_rule()
    await world.heat(0, 90)
    world.database.write_now(rules.delete, world.trail, rule.id, ACTOR)
    assert world.rows("SELECT * FROM rule_states") == []
    for call in (rules.get, lambda conn, rule_id: rules.states(conn, rule_id, ALL)):
        with pytest.raises(NotFound):
            world.database.read_now(call, rule.id)
    with pytest.raises(NotFound):
        world.database.write_now(rules.delete, world.trail, rule.id, ACTOR)
    with pytest.raises(NotFound):
        change(world, rule, enabled=True)


async def test_where_a_rule_stands(world: World) -> None:
    rule = world.add_rule()
    await world.heat(5, 90)
    [state] = world.database.read_now(rules.states, rule.id, ALL).items
    assert (state.miner_id, state.holds_since, state.last_fired_at) == (world.miner_ids[0], iso_at(5), iso_at(5))
    assert (state.last_outcome, state.quiet_until) == ("created", iso_at(1805))
    assert state.last_command_id == world.rows("SELECT command_id FROM miner_commands")[0]["command_id"]


def test_lists_by_site_and_by_whether_they_are_enabled(world: World) -> None:
    first = world.add_rule()
    second = world.add_rule(enabled=False)
    third = world.add_rule(site_id=world.other_id)

    def ids(site_id: int | None, enabled: bool | None, window: Window = ALL) -> list[int]:
        return [rule.id for rule in world.database.read_now(rules.list_page, site_id, enabled, window).items]

    assert ids(None, None) == [first.id, second.id, third.id]
    assert ids(world.site_id, None) == [first.id, second.id]
    assert ids(world.site_id, True) == [first.id]
    assert ids(None, False) == [second.id]
    assert ids(None, None, Window(1, first.id)) == [second.id]
    assert world.database.read_now(rules.list_page, None, None, Window(2, 0)).next == second.id


def test_every_change_is_another_revision_and_a_row_of_the_trail(world: World) -> None:
    seen = [revision(world)]
    rule = world.add_rule(action_type="set_pool", action_parameters=msgspec.Raw(b'{"url":"a:1","password":"hush"}'))
    seen.append(revision(world))
    change(world, rule, enabled=False)
    seen.append(revision(world))
    world.database.write_now(rules.delete, world.trail, rule.id, ACTOR)
    seen.append(revision(world))
    assert len(set(seen)) == 4
    assert events(world) == ["rule.created", "rule.changed", "rule.deleted"]
    assert not any("hush" in row["detail"] for row in world.rows("SELECT detail FROM command_audit"))
