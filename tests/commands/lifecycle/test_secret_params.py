import json
from typing import Any

import msgspec
import pytest

from restante.commands.lifecycle import creation, secret_params
from restante.commands.lifecycle.command_types import COMMAND_TYPES
from restante.commands.lifecycle.secret_params import SplitParams, may_have_secrets, seal_stored, split, with_secrets
from restante.commands.rules import rules
from restante.commands.rules.rule_actions import command_request
from restante.commands.rules.rule_state import ActiveRule, MinerRuleState
from restante.commands.rules.rules import Rule, RuleChange, RuleRequest
from restante.commands.sites.collectors import SecretBox
from restante.core.errors import BadInput
from restante.database.database import Database
from restante.identity.master_key import MasterKey, MasterKeyError
from tests.commands.operator_fixture import MASTER_KEY, MinerFleet
from tests.conftest import ManualClock

BOX = SecretBox(MASTER_KEY)
URL = "stratum+tcp://pool.example:3333"
PARAMS = {"pool_password": "hunter2", "pool_url": URL}
SHOWN = {"pool_password": "[secret]", "pool_url": URL}


@pytest.fixture
def fleet(database: Database, clock: ManualClock) -> MinerFleet:
    return MinerFleet(database, clock)


def add_rule(fleet: MinerFleet, params: Any = PARAMS) -> Rule:
    request = RuleRequest(
        "r",
        fleet.site_id,
        "offline",
        "POOL_SET",
        trigger_duration_seconds=60,
        action_parameters=msgspec.Raw(json.dumps(params).encode()),
    )
    return fleet.database.write_now(rules.create, fleet.trail, fleet.box, request, "maker")


def change_rule(fleet: MinerFleet, rule: Rule, **changed: Any) -> Rule:
    return fleet.database.write_now(rules.change, fleet.trail, fleet.box, rule.id, RuleChange(**changed), "maker")


def rule_secrets(fleet: MinerFleet) -> Any:
    [row] = fleet.query("SELECT action_parameters, sealed_params FROM automation_rules")
    assert "hunter" not in row["action_parameters"]
    return fleet.box.open_params(row["sealed_params"])


def test_secret_values_are_masked_and_opened_in_the_same_order() -> None:
    found = split(BOX, "POOL_SET", {**PARAMS, "pool_user": "w"})
    assert found.shown == {**SHOWN, "pool_user": "w"}
    assert list(with_secrets(BOX, found.shown, found.sealed).items()) == list({**PARAMS, "pool_user": "w"}.items())


def test_password_in_a_url_is_masked_and_the_rest_is_shown() -> None:
    url = "stratum+tcp://user:p/w@d@pool.example:3333"
    found = split(BOX, "POOL_SET", {"pool_url": url})
    assert found.shown == {"pool_url": "stratum+tcp://user:[secret]@pool.example:3333"}
    assert with_secrets(BOX, found.shown, found.sealed) == {"pool_url": url}


@pytest.mark.parametrize(
    ("command_type", "params"), [("POOL_SET", {"pool_url": URL}), ("SET_FAN", {"speed": 1}), ("MINER_RESTART", {})]
)
def test_params_without_secrets_are_not_sealed(command_type: str, params: dict[str, Any]) -> None:
    assert split(BOX, command_type, params) == SplitParams(params)


def test_sealed_params_open_with_their_own_master_key_only() -> None:
    sealed = split(BOX, "POOL_SET", PARAMS).sealed
    assert sealed is not None
    with pytest.raises(MasterKeyError):
        SecretBox(MasterKey(bytes(32))).open_params(sealed)


@pytest.mark.parametrize("params", [SHOWN, {"pool_url": "stratum+tcp://u:[secret]@pool.example:3333"}])
def test_mask_instead_of_a_value_is_refused(fleet: MinerFleet, params: dict[str, str]) -> None:
    with pytest.raises(BadInput, match="not its mask"):
        fleet.create(command_type="POOL_SET", params=json.dumps(params).encode())
    assert fleet.count() == 0


def test_types_with_secret_params_are_known_by_all_their_names() -> None:
    assert may_have_secrets("POOL_SET")
    assert may_have_secrets("set_pool")
    assert not may_have_secrets("SET_FAN")
    assert not may_have_secrets("unknown")


def test_every_secret_param_is_a_declared_one() -> None:
    for declared in COMMAND_TYPES.values():
        assert declared.secret_params.keys() <= set(declared.schema.__struct_fields__)


def test_rule_keeps_its_secret_when_it_is_sent_back_masked(fleet: MinerFleet) -> None:
    rule = add_rule(fleet)
    assert rule.action_parameters == SHOWN
    for changed in ({"enabled": False}, {"action_parameters": msgspec.Raw(json.dumps(SHOWN).encode())}):
        assert change_rule(fleet, rule, **changed).action_parameters == SHOWN
        assert rule_secrets(fleet) == {"pool_password": "hunter2"}
    other = msgspec.Raw(json.dumps({**PARAMS, "pool_password": "hunter3"}).encode())
    assert change_rule(fleet, rule, action_parameters=other).action_parameters == SHOWN
    assert rule_secrets(fleet) == {"pool_password": "hunter3"}


def test_rule_without_the_secret_refuses_a_mask(fleet: MinerFleet) -> None:
    rule = add_rule(fleet, {"pool_url": URL})
    with pytest.raises(BadInput) as raised:
        change_rule(fleet, rule, action_parameters=msgspec.Raw(json.dumps(SHOWN).encode()))
    assert raised.value.field == "action_parameters.pool_password"


def test_command_of_a_rule_has_the_secret_of_the_rule(fleet: MinerFleet) -> None:
    add_rule(fleet)
    [row] = fleet.query("SELECT * FROM automation_rules")
    request = command_request(MinerRuleState(ActiveRule.of(row), fleet.miner))
    created = fleet.write(creation.create, request, "rule:1", fleet.options)
    assert fleet.params(created.command_id) == SHOWN
    [stored] = fleet.query("SELECT params, sealed_params FROM miner_commands")
    assert with_secrets(fleet.box, json.loads(stored["params"]), stored["sealed_params"]) == PARAMS


OLD = [
    # As an older version stored them; as they are then shown; the sealed values.
    (json.dumps(PARAMS), SHOWN, {"pool_password": "hunter2"}),
    (json.dumps({"url": URL, "password": "hunter2"}), SHOWN, {"pool_password": "hunter2"}),
    (json.dumps({"pools": [{"url": URL, "password": "hunter2"}]}), SHOWN, {"pool_password": "hunter2"}),
    (json.dumps({**PARAMS, "target_ids": [2, 1]}), {**SHOWN, "target_ids": [2, 1]}, {"pool_password": "hunter2"}),
    (json.dumps({"pool_id": 1}), {"pool_id": 1}, None),
    (
        json.dumps({"pools": [{"url": URL, "password": "hunter2"}, {"password": "hunter2"}]}),
        {"pools": [{"url": URL, "password": "[secret]"}, {"password": "[secret]"}]},
        None,
    ),
]


@pytest.mark.parametrize(("stored", "shown", "secrets"), OLD)
def test_rows_of_an_older_version_are_masked_at_once_and_sealed_at_start(
    fleet: MinerFleet, stored: str, shown: Any, secrets: Any
) -> None:
    created = fleet.create(command_type="POOL_SET", params=json.dumps({"pool_url": URL}).encode())
    fleet.query("UPDATE miner_commands SET params = :params, sealed_params = NULL RETURNING id", params=stored)
    fleet.query("UPDATE revisions SET value = 0 WHERE name = 'sealed_params' RETURNING value")
    assert b"hunter2" not in bytes(fleet.show(created.command_id).params)
    assert seal_stored(fleet.database, fleet.box) == ("hunter2" in stored)
    [row] = fleet.query("SELECT params, sealed_params FROM miner_commands")
    assert json.loads(row["params"]) == fleet.params(created.command_id) == shown
    assert (row["sealed_params"] and fleet.box.open_params(row["sealed_params"])) == secrets
    assert seal_stored(fleet.database, fleet.box) == 0


def test_sealing_continues_over_several_batches(fleet: MinerFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secret_params, "BATCH_ROWS", 2)
    for _ in range(5):
        fleet.create(command_type="POOL_SET", params=json.dumps({"pool_url": URL}).encode())
    add_rule(fleet)
    fleet.query("UPDATE miner_commands SET params = :params RETURNING id", params=json.dumps(PARAMS))
    fleet.query(
        "UPDATE automation_rules SET action_parameters = :params, sealed_params = NULL RETURNING id",
        params=json.dumps(PARAMS),
    )
    fleet.query("UPDATE revisions SET value = 0 WHERE name = 'sealed_params' RETURNING value")
    assert seal_stored(fleet.database, fleet.box) == 6
    rows = fleet.query("SELECT params, sealed_params FROM miner_commands")
    assert {row["params"] for row in rows} == {json.dumps(SHOWN, separators=(",", ":"))}
    assert all(fleet.box.open_params(row["sealed_params"]) == {"pool_password": "hunter2"} for row in rows)
    assert rule_secrets(fleet) == {"pool_password": "hunter2"}
