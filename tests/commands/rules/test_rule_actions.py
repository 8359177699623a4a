import hashlib
from dataclasses import replace
from typing import Any

import pytest

from restante.commands.rules.rule_actions import REFUSED_COOLDOWN_MIN_MS, RuleActions, command_request, dedupe_key
from restante.commands.rules.rule_state import ActiveRule, MinerRuleState
from tests.commands.reporting_fixture import ReportingFleet
from tests.conftest import START_MS, ManualClock


def state_of(fleet: ReportingFleet, miner_id: int | None = None, **changed: Any) -> MinerRuleState:
    rule = fleet.add_rule(**changed)
    [row] = fleet.rows("SELECT * FROM automation_rules WHERE id = :rule_id", rule_id=rule.id)
    return MinerRuleState(ActiveRule.of(row), miner_id or fleet.miner_ids[0])


def fire(fleet: ReportingFleet, state: MinerRuleState) -> bool:
    return fleet.database.write_now(RuleActions(fleet.trail, fleet.options).fire, state)


def test_dedupe_key_follows_the_contract() -> None:
    digest = hashlib.sha256(b"12:1001:MINER_RESTART:threshold").hexdigest()
    assert dedupe_key(12, 1001, "MINER_RESTART", "threshold") == digest[:32]


def test_command_has_the_action_of_the_rule(fleet: ReportingFleet) -> None:
    state = state_of(fleet, action_type="set_fan", action_parameters=b'{"speed": 100}', priority=4)
    assert fire(fleet, state)
    [command] = fleet.rows("SELECT * FROM miner_commands")
    rule = state.rule
    assert (command["command_type"], command["params"], command["priority"]) == ("SET_FAN", '{"speed":100}', 4)
    assert command["dedupe_key"] == dedupe_key(rule.id, state.miner_id, "SET_FAN", "threshold")
    assert command["rule_id"] == command_request(state).rule_id == rule.id
    assert (state.last_outcome, state.last_command_id) == ("created", command["command_id"])
    assert (state.last_fired_at, state.quiet_until) == (START_MS, START_MS + 1_800_000)


@pytest.mark.parametrize(
    ("stored", "sent", "outcome"),
    [('{"fan_speed":100}', ['{"speed":100}'], "created"), ('{"fan_speed":100,"fan_id":1}', [], "INVALID_REQUEST")],
)
def test_rule_of_an_older_version_sends_the_names_that_collectors_read(
    fleet: ReportingFleet, stored: str, sent: list[str], outcome: str
) -> None:
    state = state_of(fleet, action_type="set_fan", action_parameters=b'{"speed": 1}')
    state.rule = replace(state.rule, action_parameters=stored.encode())
    fire(fleet, state)
    assert [row["params"] for row in fleet.rows("SELECT params FROM miner_commands")] == sent
    assert state.last_outcome == outcome


def test_duplicate_command_is_audited_and_starts_the_cooldown(fleet: ReportingFleet, clock: ManualClock) -> None:
    state = state_of(fleet, cooldown_seconds=100)
    fire(fleet, state)
    first = state.last_command_id
    clock.advance(100)
    assert not fire(fleet, state)
    assert (state.last_outcome, state.last_command_id) == ("DUPLICATE_ACTIVE", first)
    assert (state.last_fired_at, state.quiet_until) == (START_MS, START_MS + 200_000)
    [row] = fleet.rows("SELECT * FROM command_audit WHERE event = 'rule.refused'")
    assert (row["chain"], row["actor"]) == (fleet.site_id, f"rule:{state.rule.id}")


def test_refusal_without_a_cooldown_pauses_the_rule_for_a_minute(fleet: ReportingFleet) -> None:
    state = state_of(fleet, cooldown_seconds=0)
    assert fire(fleet, state)
    assert state.quiet_until == START_MS
    assert not fire(fleet, state)
    assert state.quiet_until == START_MS + REFUSED_COOLDOWN_MIN_MS


def test_refused_command_is_recorded_as_outcome(fleet: ReportingFleet) -> None:
    state = state_of(fleet, miner_id=fleet.foreign_miner)
    assert not fire(fleet, state)
    assert (state.last_outcome, state.last_fired_at) == ("INVALID_REQUEST", None)
    assert state.quiet_until == START_MS + 1_800_000
    assert fleet.commands() == []
