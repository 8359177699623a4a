from typing import Any

import msgspec
import pytest

from restante.commands.command_types import COMMAND_TYPES, checked_params, standard_type
from restante.core.errors import BadInput

# The specification's table, read again.
ALIASES = {
    "MINER_RESTART": ["reboot", "restart"],
    "DEVICE_REBOOT": ["device_reboot"],
    "HASHING_ENABLE": ["start", "enable"],
    "HASHING_DISABLE": ["stop", "disable"],
    "POOL_SET": ["set_pool", "pool_set"],
    "SET_FAN": ["set_fan"],
    "SET_FREQUENCY": ["set_frequency"],
    "POWER_MODE": ["power_mode"],
}


def test_the_types_and_aliases_are_those_of_the_specification() -> None:
    assert {name: list(kind.aliases) for name, kind in COMMAND_TYPES.items()} == ALIASES
    for name, aliases in ALIASES.items():
        assert {standard_type(alias) for alias in [name, *aliases]} == {name}


@pytest.mark.parametrize("name", ["", "SELF_DESTRUCT", "miner_restart", "Reboot", " restart"])
def test_anything_else_is_refused(name: str) -> None:
    with pytest.raises(BadInput) as refused:
        standard_type(name, "action_type")
    assert refused.value.field == "action_type"


@pytest.mark.parametrize(
    ("command_type", "params"),
    [
        ("MINER_RESTART", {}),
        ("MINER_RESTART", {"reason": "scheduled_maintenance"}),
        ("MINER_RESTART", {"reason": None, "nested": {"a": [1, None]}, "ünï": "ok"}),
        ("DEVICE_REBOOT", {"delay_sec": 30, "force": True}),
        ("HASHING_ENABLE", {}),
        ("HASHING_DISABLE", {"reason": "curtailment"}),
        ("POOL_SET", {"pool_url": "stratum+tcp://pool.example.com:3333", "worker": "w", "password": "x"}),
        ("POOL_SET", {"pools": [{"url": "stratum+tcp://pool.example.com:3333", "user": "w"}]}),
        ("SET_FAN", {"speed": 100}),
        ("SET_FAN", {"fan_speed": 0}),
        ("SET_FREQUENCY", {"frequency": 525}),
        ("POWER_MODE", {"mode": "LOW"}),
        ("POWER_MODE", {"power_mode": "HIGH"}),
    ],
)
def test_parameters_that_fit(command_type: str, params: dict[str, Any]) -> None:
    assert checked_params(command_type, msgspec.json.encode(params)) == params


@pytest.mark.parametrize(
    ("command_type", "params", "field"),
    [
        ("MINER_RESTART", {"reason": 7}, "reason"),
        ("MINER_RESTART", {"reason": "x" * 501}, "reason"),
        ("MINER_RESTART", {"delay_sec": -1}, "delay_sec"),
        ("DEVICE_REBOOT", {"force": "yes"}, "force"),
        ("HASHING_ENABLE", {"reason": ""}, "reason"),
        ("POOL_SET", {}, "pools"),
        ("POOL_SET", {"pools": []}, "pools"),
        ("POOL_SET", {"pools": [{"user": "w"}]}, "pools[0].url"),
        ("POOL_SET", {"pool_url": "a b"}, "pool_url"),
        ("POOL_SET", {"pool_url": "a", "url": "b"}, "pools"),
        ("SET_FAN", {}, "speed"),
        ("SET_FAN", {"speed": 101}, "speed"),
        ("SET_FAN", {"speed": "50"}, "speed"),
        ("SET_FAN", {"speed": 50, "fan_speed": 60}, "speed"),
        ("SET_FREQUENCY", {"frequency": 0}, "frequency"),
        ("SET_FREQUENCY", {}, "frequency"),
        ("POWER_MODE", {"mode": "TURBO"}, "mode"),
        ("POWER_MODE", {"mode": "low"}, "mode"),
        ("POWER_MODE", {}, "mode"),
        ("MINER_RESTART", {"target_ids": [1]}, "target_ids"),
    ],
)
def test_parameters_that_do_not_fit_are_named(command_type: str, params: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as refused:
        checked_params(command_type, msgspec.json.encode(params))
    assert refused.value.field == f"params.{field}"


def test_what_cannot_be_signed_is_no_parameter_either() -> None:
    with pytest.raises(BadInput, match="floating-point"):
        checked_params("SET_FAN", b'{"speed": 50.0}')
