from typing import Any

import msgspec
import pytest

from restante.commands.lifecycle.command_types import COMMAND_TYPES, checked_params, readable_params, standard_type
from restante.core.errors import BadInput

# Copied from the table of the specification.
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


def test_types_and_aliases_are_those_of_the_specification() -> None:
    assert {name: list(each.aliases) for name, each in COMMAND_TYPES.items()} == ALIASES
    for name, aliases in ALIASES.items():
        assert {standard_type(alias) for alias in [name, *aliases]} == {name}


@pytest.mark.parametrize("name", ["", "SELF_DESTRUCT", "miner_restart", "Reboot", " restart"])
def test_unknown_type_is_refused(name: str) -> None:
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
        ("POOL_SET", {"pool_url": "stratum+tcp://pool.example.com:3333", "pool_user": "w", "pool_password": "x"}),
        ("POOL_SET", {"pool_id": 0, "reason": "back to the first"}),
        ("SET_FAN", {"speed": 100}),
        ("SET_FAN", {"speed": 0, "reason": None}),
        ("SET_FREQUENCY", {"frequency": 525}),
        ("POWER_MODE", {"mode": "LOW"}),
        ("POWER_MODE", {"power_mode": "HIGH"}),
    ],
)
def test_valid_parameters_are_accepted(command_type: str, params: dict[str, Any]) -> None:
    assert checked_params(command_type, msgspec.json.encode(params)) == params


POOL = "stratum+tcp://pool.example.com:3333"


@pytest.mark.parametrize(
    ("command_type", "params", "normalised"),
    [
        ("POOL_SET", {"url": POOL}, {"pool_url": POOL}),
        ("POOL_SET", {"pool_url": POOL, "user": "u"}, {"pool_url": POOL, "pool_user": "u"}),
        ("POOL_SET", {"pool_url": POOL, "worker": "w"}, {"pool_url": POOL, "pool_user": "w"}),
        ("POOL_SET", {"url": POOL, "password": ""}, {"pool_url": POOL, "pool_password": ""}),
        (
            "POOL_SET",
            {"pools": [{"url": POOL, "worker": "w", "password": "x"}], "reason": "moved"},
            {"pool_url": POOL, "pool_user": "w", "pool_password": "x", "reason": "moved"},
        ),
        ("POOL_SET", {"pools": [{"pool_url": POOL}], "pool_user": "w"}, {"pool_url": POOL, "pool_user": "w"}),
        ("POOL_SET", {"pools": [{"pool_id": 2}]}, {"pool_id": 2}),
        ("SET_FAN", {"fan_speed": 60}, {"speed": 60}),
        ("SET_FAN", {"speed_percent": 60}, {"speed": 60}),
        ("SET_FREQUENCY", {"frequency_mhz": 525}, {"frequency": 525}),
    ],
)
def test_every_spelling_becomes_the_name_that_collectors_read(
    command_type: str, params: dict[str, Any], normalised: dict[str, Any]
) -> None:
    assert checked_params(command_type, msgspec.json.encode(params)) == normalised
    assert msgspec.json.decode(readable_params(command_type, msgspec.json.encode(params).decode())) == normalised


def test_stored_parameters_with_the_right_names_are_left_as_they_are() -> None:
    for command_type, stored in [
        ("SET_FAN", '{"speed":5,"target_ids":[1,2]}'),
        ("POOL_SET", '{"pool_id":1}'),
        ("MINER_RESTART", '{"anything": 1}'),
    ]:
        assert readable_params(command_type, stored) is stored


def test_stored_parameters_keep_their_targets() -> None:
    assert readable_params("SET_FAN", '{"fan_speed":5,"target_ids":[2,1]}') == '{"speed":5,"target_ids":[2,1]}'


@pytest.mark.parametrize(
    ("command_type", "params", "message"),
    [
        ("SET_FAN", {"fanspeed": 60}, "params.fanspeed: expected .*did you mean speed"),
        ("SET_FAN", {"speed": 60, "Speed": 60}, "params.Speed: expected .*did you mean speed"),
        ("SET_FAN", {"speed": 60, "fan_speed": 60}, "params.fan_speed: expected either this or params.speed"),
        ("SET_FREQUENCY", {"freq": 600}, "params.freq: expected .*: frequency, reason"),
        ("SET_FREQUENCY", {"frequency_mhz": 0}, "params.frequency_mhz: "),
        ("POOL_SET", {"pool_url": POOL, "pass": "x"}, "params.pass: expected .*did you mean pool_password"),
        ("POOL_SET", {"url": POOL, "user": "u", "worker": "w"}, "params.worker: expected .*params.user.*pool_user"),
        ("POOL_SET", {"pools": [{"url": POOL}], "url": POOL}, r"params.url: expected .*params.pools\[0\].url"),
        ("POOL_SET", {"pools": [{"url": POOL}, {"url": POOL}]}, "params.pools: expected a list of exactly one"),
        ("POOL_SET", {"pools": [{"url": POOL, "quota": 1}]}, r"params.pools\[0\].quota: "),
        ("POOL_SET", {"pools": [POOL]}, "params.pools: "),
        ("POOL_SET", {"pools": {"url": POOL}}, "params.pools: "),
        ("POOL_SET", {"pool_url": POOL, "pool_id": 1}, "params.pool_url: expected .*exactly one of: pool_url, pool_id"),
        ("POOL_SET", {"pool_id": 1, "password": "x"}, "params.password: expected no value without pool_url"),
        ("POOL_SET", {"pool_id": -1}, "params.pool_id: "),
        ("POOL_SET", {"pool_id": True}, "params.pool_id: "),
    ],
)
def test_what_a_collector_would_carry_out_differently_is_refused(
    command_type: str, params: dict[str, Any], message: str
) -> None:
    raw = msgspec.json.encode(params)
    with pytest.raises(BadInput, match=message):
        checked_params(command_type, raw)
    with pytest.raises(BadInput, match=message):
        readable_params(command_type, raw.decode())


@pytest.mark.parametrize(
    ("command_type", "params", "field"),
    [
        ("MINER_RESTART", {"reason": 7}, "reason"),
        ("MINER_RESTART", {"reason": "x" * 501}, "reason"),
        ("MINER_RESTART", {"delay_sec": -1}, "delay_sec"),
        ("DEVICE_REBOOT", {"force": "yes"}, "force"),
        ("HASHING_ENABLE", {"reason": ""}, "reason"),
        ("POOL_SET", {}, "pool_url"),
        ("POOL_SET", {"pools": []}, "pools"),
        ("POOL_SET", {"pools": [{"user": "w"}]}, "pool_url"),
        ("POOL_SET", {"pool_url": "a b"}, "pool_url"),
        ("POOL_SET", {"url": "a b"}, "url"),
        ("POOL_SET", {"pool_url": "a", "url": "b"}, "url"),
        ("SET_FAN", {}, "speed"),
        ("SET_FAN", {"speed": 101}, "speed"),
        ("SET_FAN", {"speed": "50"}, "speed"),
        ("SET_FAN", {"speed": 50, "fan_speed": 60}, "fan_speed"),
        ("SET_FREQUENCY", {"frequency": 0}, "frequency"),
        ("SET_FREQUENCY", {}, "frequency"),
        ("POWER_MODE", {"mode": "TURBO"}, "mode"),
        ("POWER_MODE", {"mode": "low"}, "mode"),
        ("POWER_MODE", {}, "mode"),
        ("MINER_RESTART", {"target_ids": [1]}, "target_ids"),
    ],
)
def test_invalid_parameter_is_named(command_type: str, params: dict[str, Any], field: str) -> None:
    with pytest.raises(BadInput) as refused:
        checked_params(command_type, msgspec.json.encode(params))
    assert refused.value.field == f"params.{field}"


def test_parameter_that_cannot_be_signed_is_refused() -> None:
    with pytest.raises(BadInput, match="floating-point"):
        checked_params("SET_FAN", b'{"speed": 50.0}')
