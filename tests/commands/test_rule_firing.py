import hashlib
from typing import Any

import pytest

from restante.commands.rule_firing import REFUSED_QUIET_MS, Firing, dedupe_key, wish_of
from restante.commands.rule_standing import ActiveRule, Standing
from restante.database.database import Database
from tests.commands.reporting import World
from tests.conftest import START_MS, ManualClock


@pytest.fixture
def world(database: Database, clock: ManualClock) -> World:
    return World(database, clock)


def standing_of(world: World, miner_id: int | None = None, **wish: Any) -> Standing:
    rule = world.add_rule(**wish)
    [row] = world.rows("SELECT * FROM automation_rules WHERE id = :rule_id", rule_id=rule.id)
    return Standing(ActiveRule.of(row), miner_id or world.miner_ids[0])


def fire(world: World, standing: Standing) -> bool:
    return world.database.write_now(Firing(world.trail, world.options).fire, standing)


def test_the_key_is_the_contracts() -> None:
    digest = hashlib.sha256(b"12:1001:MINER_RESTART:threshold").hexdigest()
    assert dedupe_key(12, 1001, "MINER_RESTART", "threshold") == digest[:32]


def test_the_command_is_what_the_rule_says(world: World) -> None:
    standing = standing_of(world, action_type="set_fan", action_parameters=b'{"speed": 100}', priority=4)
    assert fire(world, standing)
    [command] = world.rows("SELECT * FROM miner_commands")
    rule = standing.rule
    assert (command["command_type"], command["params"], command["priority"]) == ("SET_FAN", '{"speed":100}', 4)
    assert command["dedupe_key"] == dedupe_key(rule.id, standing.miner_id, "SET_FAN", "threshold")
    assert command["rule_id"] == wish_of(standing).rule_id == rule.id
    assert (standing.last_outcome, standing.last_command_id) == ("created", command["command_id"])
    assert (standing.last_fired_at, standing.quiet_until) == (START_MS, START_MS + 1_800_000)


def test_a_duplicate_is_recorded_and_begins_the_cooldown(world: World, clock: ManualClock) -> None:
    standing = standing_of(world, cooldown_seconds=100)
    fire(world, standing)
    first = standing.last_command_id
    clock.advance(100)
    assert not fire(world, standing)
    assert (standing.last_outcome, standing.last_command_id) == ("DUPLICATE_ACTIVE", first)
    assert (standing.last_fired_at, standing.quiet_until) == (START_MS, START_MS + 200_000)
    [told] = world.rows("SELECT * FROM command_audit WHERE event = 'rule.refused'")
    assert (told["chain"], told["actor"]) == (world.site_id, f"rule:{standing.rule.id}")


def test_without_a_cooldown_a_refusal_is_followed_by_a_minute_of_quiet(world: World) -> None:
    standing = standing_of(world, cooldown_seconds=0)
    assert fire(world, standing)
    assert standing.quiet_until == START_MS
    assert not fire(world, standing)
    assert standing.quiet_until == START_MS + REFUSED_QUIET_MS


def test_a_command_that_cannot_be_made_is_no_error(world: World) -> None:
    standing = standing_of(world, miner_id=world.foreign_miner)
    assert not fire(world, standing)
    assert (standing.last_outcome, standing.last_fired_at) == ("INVALID_REQUEST", None)
    assert standing.quiet_until == START_MS + 1_800_000
    assert world.commands() == []
