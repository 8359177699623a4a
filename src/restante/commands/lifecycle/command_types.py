"""The eight command types: all their names, and the parameters that each takes.

Every parameter of a command has passed `checked_params`. A type with `param_names` has only the parameters that
collectors read, under the names that they read: see `param_names`. In the other types a declared parameter is checked,
and others pass through to the collector, signed like the rest: a collector may know more than this server.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from restante.commands.lifecycle.param_names import ParamNames
from restante.commands.lifecycle.params import parse_params
from restante.core.commands.canonical import canonical_json
from restante.core.decoding import convert
from restante.core.errors import BadInput
from restante.core.masking import mask_url_passwords, mask_value

Text = Annotated[str, Meta(min_length=1, max_length=500)]
Percent = Annotated[int, Meta(ge=0, le=100)]
Megahertz = Annotated[int, Meta(ge=1, le=10_000)]
Url = Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^[^\s\x00-\x1f]+$")]
PoolNumber = Annotated[int, Meta(ge=0, le=1000)]
Credential = Annotated[str, Meta(max_length=500)]
PowerModeName = Literal["LOW", "NORMAL", "HIGH"]


class WithReason(msgspec.Struct):
    reason: Text | UnsetType | None = UNSET


class Restart(WithReason):
    delay_sec: Annotated[int, Meta(ge=0, le=86_400)] | UnsetType = UNSET
    force: bool | UnsetType = UNSET


class PoolSet(WithReason):
    pool_url: Url | UnsetType = UNSET
    pool_user: Credential | UnsetType = UNSET
    pool_password: Credential | UnsetType = UNSET
    pool_id: PoolNumber | UnsetType = UNSET


class SetFan(WithReason):
    speed: Percent | UnsetType = UNSET


class SetFrequency(WithReason):
    frequency: Megahertz | UnsetType = UNSET


class PowerMode(WithReason):
    mode: PowerModeName | UnsetType = UNSET
    power_mode: PowerModeName | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class CommandType:
    """A command type. Everything about it is declared here.

    `legacy_name`: the field `command` of a poll response, which older collectors read instead of `command_type`.
    `aliases`: names that operators may use instead of `name`.
    `one_of`: alternative parameters. A command has exactly one of them.
    `beside`: parameters that are allowed only beside a certain other one.
    `param_names`: the names that collectors read, for a type that they would otherwise carry out as something else.
    `secret_params`: parameters that only collectors may read, each with the function that masks its value. A value that
    its mask does not change is not secret. See `secret_params.py`.
    """

    name: str
    legacy_name: str
    aliases: tuple[str, ...]
    schema: type[msgspec.Struct]
    one_of: tuple[str, ...] = ()
    beside: Mapping[str, str] = field(default_factory=dict)
    param_names: ParamNames | None = None
    secret_params: Mapping[str, Callable[[str], str]] = field(default_factory=dict)


def _param_names(command_type: str, list_name: str | None = None, **spellings: tuple[str, ...]) -> ParamNames:
    """`spellings`: by the name that collectors read, the other accepted ones. Every type takes a reason."""
    standard = {name: name for name in (*spellings, "reason")}
    others = {other: name for name, listed in spellings.items() for other in listed}
    return ParamNames(command_type, {**standard, **others}, list_name)


_POOL_NAMES = _param_names(
    "POOL_SET",
    "pools",
    pool_url=("url",),
    pool_user=("user", "worker"),
    pool_password=("password",),
    pool_id=(),
)
_FAN_NAMES = _param_names("SET_FAN", speed=("fan_speed", "speed_percent"))
_FREQUENCY_NAMES = _param_names("SET_FREQUENCY", frequency=("frequency_mhz",))


COMMAND_TYPES = {
    each.name: each
    for each in (
        CommandType("MINER_RESTART", "restart", ("reboot", "restart"), Restart),
        CommandType("DEVICE_REBOOT", "reboot", ("device_reboot",), Restart),
        CommandType("HASHING_ENABLE", "enable", ("start", "enable"), WithReason),
        CommandType("HASHING_DISABLE", "disable", ("stop", "disable"), WithReason),
        CommandType(
            "POOL_SET",
            "set_pool",
            ("set_pool", "pool_set"),
            PoolSet,
            ("pool_url", "pool_id"),
            {"pool_user": "pool_url", "pool_password": "pool_url"},
            _POOL_NAMES,
            {"pool_password": mask_value, "pool_url": mask_url_passwords},
        ),
        CommandType("SET_FAN", "set_fan", ("set_fan",), SetFan, ("speed",), param_names=_FAN_NAMES),
        CommandType(
            "SET_FREQUENCY",
            "set_frequency",
            ("set_frequency",),
            SetFrequency,
            ("frequency",),
            param_names=_FREQUENCY_NAMES,
        ),
        CommandType("POWER_MODE", "power_mode", ("power_mode",), PowerMode, ("mode", "power_mode")),
    )
}
_NAME_BY_ALIAS = {alias: each.name for each in COMMAND_TYPES.values() for alias in each.aliases}

# The parameter that names the miners of a command for many. The server fills it in.
TARGETS_PARAM = "target_ids"

_stored_params = msgspec.json.Decoder(dict[str, Any])


def standard_type(name: str, field: str = "command_type") -> str:
    """Return the standard name for a standard name or an alias."""
    if name in COMMAND_TYPES:
        return name
    try:
        return _NAME_BY_ALIAS[name]
    except KeyError:
        raise BadInput(field, f"one of {', '.join(COMMAND_TYPES)} or a legacy name of these") from None


def checked_params(command_type: str, raw: bytes, field: str = "params") -> dict[str, Any]:
    """Parse, check and normalise the parameters of a command of this standard type; raise BadInput if they are not
    valid."""
    params = parse_params(raw, field)
    if TARGETS_PARAM in params:
        raise BadInput(f"{field}.{TARGETS_PARAM}", f"no such parameter; name the miners in {TARGETS_PARAM} beside it")
    return normalised(COMMAND_TYPES[command_type], params, field)


def params_digest(params: str) -> str:
    """For the audit trail, which does not have the values. Secret parameters are masked in `params`: a digest of a
    password would let its reader test guesses."""
    return hashlib.sha256(params.encode()).hexdigest()


def readable_params(command_type: str, stored: str) -> str:
    """The stored parameters under the names that collectors read; raise BadInput if that is not possible.

    An older version of this server stored them as they were given.
    """
    declared = COMMAND_TYPES[command_type]
    if declared.param_names is None:
        return stored
    params = _stored_params.decode(stored)
    if len(params) == 1 and declared.one_of[0] in params:
        # The usual case: every version has checked the value of this parameter.
        return stored
    targets = {name: params.pop(name) for name in (TARGETS_PARAM,) if name in params}
    readable = normalised(declared, params, "params")
    return stored if readable == params else canonical_json({**readable, **targets}).decode()


def normalised(declared: CommandType, params: dict[str, Any], field: str) -> dict[str, Any]:
    """The parameters under the names that collectors read, checked."""
    if declared.param_names is None:
        _check_values(declared, params, field)
        return params
    named = declared.param_names.normalise(params, field)
    try:
        _check_values(declared, named.values, field)
    except BadInput as error:
        raise named.as_given(error) from None
    return named.values


def _check_values(declared: CommandType, params: dict[str, Any], field: str) -> None:
    convert(params, declared.schema, field)
    if declared.one_of and sum(name in params for name in declared.one_of) != 1:
        names = f"exactly one of: {', '.join(declared.one_of)}" if len(declared.one_of) > 1 else "this name"
        raise BadInput(f"{field}.{declared.one_of[0]}", f"a value, under {names}")
    for name, other in declared.beside.items():
        if name in params and other not in params:
            raise BadInput(f"{field}.{name}", f"no value without {other}")
