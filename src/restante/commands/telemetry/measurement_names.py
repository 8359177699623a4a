"""The names of measurements that collectors in the field use, and the names that rules and documents use.

    temperature_max            temp_max      degrees Celsius
    temperature_avg            temp_avg      degrees Celsius
    hashrate_ghs, GH/s         hashrate      TH/s: divided by 1000
    power_consumption          power         watts
    fan_speeds, a list         fan_rpm_min, fan_rpm_max: the slowest and the fastest fan

A record keeps what was sent; the standard names are added to it. A value that is not a number stays as it is, under its
own name only.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from restante.core.errors import BadInput


class _Alias(NamedTuple):
    name: str
    standard: str
    convert: Callable[[Any], float | None]


def _number(value: Any) -> float | None:
    # True and False are not numbers here.
    return value if type(value) in (int, float) else None


def _from_ghs(value: Any) -> float | None:
    # A division, not a product with 0.001: 102300 / 1000 is exactly 102.3. An int may be too large for a float.
    try:
        return None if _number(value) is None else value / 1000
    except OverflowError:
        return None


def _of_list(choose: Callable[[list[float]], float]) -> Callable[[Any], float | None]:
    def convert(value: Any) -> float | None:
        is_numbers = isinstance(value, list) and value and all(_number(each) is not None for each in value)
        return choose(value) if is_numbers else None

    return convert


_ALIASES = (
    _Alias("temperature_max", "temp_max", _number),
    _Alias("temperature_avg", "temp_avg", _number),
    _Alias("hashrate_ghs", "hashrate", _from_ghs),
    _Alias("power_consumption", "power", _number),
    _Alias("fan_speeds", "fan_rpm_min", _of_list(min)),
    _Alias("fan_speeds", "fan_rpm_max", _of_list(max)),
)
# The names that are documented. Collectors may send any others.
MEASUREMENTS = tuple(dict.fromkeys(each for alias in _ALIASES for each in (alias.standard, alias.name)))
_NAMES = frozenset(alias.name for alias in _ALIASES)
_RELATIVE_TOLERANCE = 1e-9


def standard_measurements(fields: Mapping[str, Any]) -> dict[str, float]:
    """The standard names that the record lacks, with their values; BadInput if it has both names and they differ."""
    if _NAMES.isdisjoint(fields):
        return {}
    added: dict[str, float] = {}
    for name, standard, convert in _ALIASES:
        value = convert(fields.get(name))
        if value is None:
            continue
        present = _number(fields.get(standard))
        if present is None:
            added[standard] = value
        elif present != value and not math.isclose(present, value, rel_tol=_RELATIVE_TOLERANCE):
            raise BadInput(name, f"the same value as {standard}, which is also present")
    return added
