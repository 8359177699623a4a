"""The eight command types, under every name they go by, and what parameters each wants.

A parameter that the kind knows is checked; others pass through to the collector, signed like all: a collector may know
more than this server. `checked_params` is the only way parameters come into a command.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from restante.commands.params import parse_params
from restante.core.errors import BadInput
from restante.web.ask import convert

Text = Annotated[str, Meta(min_length=1, max_length=500)]
Percent = Annotated[int, Meta(ge=0, le=100)]
Megahertz = Annotated[int, Meta(ge=1, le=10_000)]
Url = Annotated[str, Meta(min_length=1, max_length=500, pattern=r"^[^\s\x00-\x1f]+$")]
Credential = Annotated[str, Meta(max_length=500)]
PowerModeName = Literal["LOW", "NORMAL", "HIGH"]


class Explained(msgspec.Struct):
    reason: Text | UnsetType | None = UNSET


class Restart(Explained):
    delay_sec: Annotated[int, Meta(ge=0, le=86_400)] | UnsetType = UNSET
    force: bool | UnsetType = UNSET


class Pool(msgspec.Struct):
    url: Url
    user: Credential | UnsetType = UNSET
    worker: Credential | UnsetType = UNSET
    password: Credential | UnsetType = UNSET


class PoolSet(Explained):
    pools: Annotated[list[Pool], Meta(min_length=1, max_length=10)] | UnsetType = UNSET
    pool_url: Url | UnsetType = UNSET
    url: Url | UnsetType = UNSET
    user: Credential | UnsetType = UNSET
    worker: Credential | UnsetType = UNSET
    password: Credential | UnsetType = UNSET


class SetFan(Explained):
    speed: Percent | UnsetType = UNSET
    fan_speed: Percent | UnsetType = UNSET
    speed_percent: Percent | UnsetType = UNSET


class SetFrequency(Explained):
    frequency: Megahertz | UnsetType = UNSET
    frequency_mhz: Megahertz | UnsetType = UNSET


class PowerMode(Explained):
    mode: PowerModeName | UnsetType = UNSET
    power_mode: PowerModeName | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class CommandType:
    """`one_of`: the spellings of the parameter that it cannot do without, of which exactly one is given."""

    name: str
    aliases: tuple[str, ...]
    schema: type[msgspec.Struct]
    one_of: tuple[str, ...] = ()


COMMAND_TYPES = {
    kind.name: kind
    for kind in (
        CommandType("MINER_RESTART", ("reboot", "restart"), Restart),
        CommandType("DEVICE_REBOOT", ("device_reboot",), Restart),
        CommandType("HASHING_ENABLE", ("start", "enable"), Explained),
        CommandType("HASHING_DISABLE", ("stop", "disable"), Explained),
        CommandType("POOL_SET", ("set_pool", "pool_set"), PoolSet, ("pools", "pool_url", "url")),
        CommandType("SET_FAN", ("set_fan",), SetFan, ("speed", "fan_speed", "speed_percent")),
        CommandType("SET_FREQUENCY", ("set_frequency",), SetFrequency, ("frequency", "frequency_mhz")),
        CommandType("POWER_MODE", ("power_mode",), PowerMode, ("mode", "power_mode")),
    )
}
_BY_ALIAS = {alias: kind.name for kind in COMMAND_TYPES.values() for alias in kind.aliases}

# Where a command for many miners says which: the server's to fill in, from the miners the wish names.
TARGETS_PARAM = "target_ids"


def standard_type(name: str, field: str = "command_type") -> str:
    """The standard name of a command type, for its own name or a legacy one."""
    if name in COMMAND_TYPES:
        return name
    try:
        return _BY_ALIAS[name]
    except KeyError:
        raise BadInput(field, f"one of {', '.join(COMMAND_TYPES)} or a legacy name of these") from None


def checked_params(command_type: str, raw: bytes, field: str = "params") -> dict[str, Any]:
    """The parameters of a JSON text, if they can be signed and are what a command of this standard type wants."""
    params = parse_params(raw, field)
    kind = COMMAND_TYPES[command_type]
    if TARGETS_PARAM in params:
        raise BadInput(f"{field}.{TARGETS_PARAM}", f"no such parameter; name the miners in {TARGETS_PARAM} beside it")
    convert(params, kind.schema, field)
    if kind.one_of and sum(name in params for name in kind.one_of) != 1:
        raise BadInput(f"{field}.{kind.one_of[0]}", f"a value, under exactly one of: {', '.join(kind.one_of)}")
    return params
