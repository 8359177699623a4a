"""The names of parameters: every accepted spelling becomes the one name that collectors read.

    {"fan_speed": 60} ──▶ {"speed": 60}        {"pools": [{"url": u, "worker": w}]} ──▶ {"pool_url": u, "pool_user": w}

A collector ignores a name that it does not know, carries the command out with a value of its own (fan 100, frequency
0, the first pool), and acknowledges it as done. So the parameters of a type with `ParamNames` have no unknown names,
and anything that one flat set of names cannot say is refused: two spellings of one parameter, several pools.

Decides about names only: `command_types` checks the values.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from restante.core.errors import BadInput


@dataclass(frozen=True, slots=True)
class ParamNames:
    """The parameters that collectors read of one command type.

    `spellings`: every accepted name, with the name that collectors read.
    `list_name`: a list with one object of the same parameters, which stands for these parameters.
    """

    command_type: str
    spellings: Mapping[str, str]
    list_name: str | None = None

    def normalise(self, params: Mapping[str, Any], field: str) -> "NormalisedParams":
        """Give every parameter the name that collectors read; raise BadInput if that is not possible."""
        normalised = NormalisedParams({}, {}, field)
        for path, name, value in self._flat(params, field):
            standard = self.spellings.get(name)
            if standard is None:
                raise BadInput(path, self._expected_names(name))
            if standard in normalised.values:
                other = normalised.paths[standard]
                raise BadInput(path, f"either this or {other}: both mean {standard}")
            normalised.values[standard] = value
            normalised.paths[standard] = path
        return normalised

    def _flat(self, params: Mapping[str, Any], field: str) -> Iterator[tuple[str, str, Any]]:
        """Path, name and value of each parameter, those of the list included."""
        for name, value in params.items():
            path = f"{field}.{name}"
            if self.list_name is None or name != self.list_name:
                yield path, name, value
                continue
            if not isinstance(value, list) or len(value) != 1 or not isinstance(value[0], dict):
                raise BadInput(path, "a list of exactly one object: collectors set one pool at a time")
            yield from ((f"{path}[0].{inner}", inner, value[0][inner]) for inner in value[0])

    def _expected_names(self, name: str) -> str:
        read = ", ".join(dict.fromkeys(self.spellings.values()))
        close = get_close_matches(name.lower(), self.spellings, 1)
        suggestion = f"; did you mean {self.spellings[close[0]]}?" if close else ""
        return f"one of the parameters of {self.command_type}: {read}{suggestion}"


@dataclass(frozen=True, slots=True)
class NormalisedParams:
    """The parameters by the names that collectors read, and the path under which each was given."""

    values: dict[str, Any]
    paths: dict[str, str]
    field: str

    def as_given(self, error: BadInput) -> BadInput:
        """The same error about the path that the caller used."""
        name = error.field.removeprefix(f"{self.field}.")
        return BadInput(self.paths.get(name, error.field), error.expected)
