"""What values the settings of edge commands may have, beside plain numbers."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from restante.commands.command_types import standard_type
from restante.commands.rate_windows import DEFAULT_LIMIT, DEFAULT_LIMITS, RateLimit, RateRules
from restante.core.errors import BadInput
from restante.server.setting_kinds import Explained

DEFAULT = "default"
LIMIT_MAX = 1_000_000
WINDOW_MAX_SECONDS = 86_400

_RATE = re.compile(r"\s*(?P<name>\w+)\s*=\s*(?P<limit>[0-9]{1,9})\s*/\s*(?P<window>[0-9]{1,9})\s*", re.ASCII)


class TypeNames(tuple[str, ...]):
    """Command types, written with commas between them."""

    __slots__ = ()

    def __str__(self) -> str:
        return ", ".join(self)


@dataclass(frozen=True, slots=True)
class RateLimits:
    expected: str = "TYPE=LIMIT/SECONDS, with commas between several; `default` stands for all other types"

    def read(self, raw: object, /) -> RateRules:
        """From TOML a table of pairs, from anywhere else the text; what is not named keeps its limit."""
        if isinstance(raw, RateRules):
            return raw
        given = dict(_pairs_of_table(raw) if isinstance(raw, Mapping) else _pairs_of_text(str(raw)))
        default = given.pop(DEFAULT, DEFAULT_LIMIT)
        return RateRules({**DEFAULT_LIMITS, **given}, default)


@dataclass(frozen=True, slots=True)
class CommandTypes:
    expected: str = "a list of command types"

    def read(self, raw: object, /) -> TypeNames:
        """From TOML a list, from anywhere else the names with commas between them."""
        names = raw if isinstance(raw, list | tuple) else str(raw).split(",")
        return TypeNames(_type(str(name).strip()) for name in names if str(name).strip())


def _pairs_of_text(text: str) -> Iterable[tuple[str, RateLimit]]:
    for part in filter(str.strip, text.split(",")):
        found = _RATE.fullmatch(part)
        if found is None:
            raise ValueError
        yield _rule(found["name"], int(found["limit"]), int(found["window"]))


def _pairs_of_table(table: Mapping[object, object]) -> Iterable[tuple[str, RateLimit]]:
    for name, pair in table.items():
        match pair:
            case [int(limit), int(window)]:
                yield _rule(str(name), limit, window)
            case _:
                raise Explained(f"{name} is not a pair of a limit and a window")


def _rule(name: str, limit: int, window_seconds: int) -> tuple[str, RateLimit]:
    if not 1 <= limit <= LIMIT_MAX or not 1 <= window_seconds <= WINDOW_MAX_SECONDS:
        raise Explained(f"a limit is 1 to {LIMIT_MAX}, a window 1 to {WINDOW_MAX_SECONDS} seconds")
    return (name if name == DEFAULT else _type(name)), RateLimit(limit, window_seconds)


def _type(name: str) -> str:
    try:
        return standard_type(name)
    except BadInput:
        raise Explained(f"{name} is no command type") from None
