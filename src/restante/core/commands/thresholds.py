"""Finds which of many thresholds a record of measurements crosses.

The thresholds of each metric are sorted. So the cost of a record grows with the number of metrics and the number of
thresholds that it crosses, not with the number of others; a record of normal values costs almost nothing. This module
does not use rules, durations or miners.

Invariants: the result equals a comparison with each threshold, one by one. A missing value, or one that is not a
number, crosses no threshold and is no evidence against one either: see `is_reported`.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

Tag = TypeVar("Tag")
Bounds = list[float]

# For each operator: the slice of the sorted bounds for which `value operator bound` is true.
_CROSSED: dict[str, Callable[[Bounds, float], slice]] = {
    ">": lambda bounds, value: slice(0, bisect_left(bounds, value)),
    ">=": lambda bounds, value: slice(0, bisect_right(bounds, value)),
    "<": lambda bounds, value: slice(bisect_right(bounds, value), None),
    "<=": lambda bounds, value: slice(bisect_left(bounds, value), None),
    "==": lambda bounds, value: slice(bisect_left(bounds, value), bisect_right(bounds, value)),
}
OPERATORS = tuple(_CROSSED)
_NUMBERS = (int, float)


class Threshold(NamedTuple):
    metric: str
    operator: str
    bound: float


def is_reported(record: Mapping[str, Any], metric: str) -> bool:
    """Whether the record has a number for the metric; true and false are not numbers here."""
    return type(record.get(metric)) in _NUMBERS


class _SortedBounds(Generic[Tag]):
    """The thresholds of one metric and operator, sorted by their bound."""

    def __init__(self, operator: str, steps: list[tuple[float, Tag]]) -> None:
        steps = sorted(steps, key=lambda step: step[0])
        self.bounds = [bound for bound, _tag in steps]
        self._tags = [tag for _bound, tag in steps]
        self._crossed = _CROSSED[operator]

    def crossed_by(self, value: float) -> list[Tag]:
        return self._tags[self._crossed(self.bounds, value)]


class _MetricThresholds(Generic[Tag]):
    """All thresholds of one metric. A value between `low` and `high` crosses none of them."""

    def __init__(self, steps: dict[str, list[tuple[float, Tag]]]) -> None:
        by_operator = {operator: _SortedBounds(operator, each) for operator, each in steps.items()}
        self.by_operator = list(by_operator.values())
        upward = [by_operator[operator].bounds[0] for operator in (">", ">=") if operator in by_operator]
        downward = [by_operator[operator].bounds[-1] for operator in ("<", "<=") if operator in by_operator]
        self.high = min(upward, default=math.inf)
        # With an equality threshold every value must be compared: no range is safe.
        self.low = math.inf if "==" in by_operator else max(downward, default=-math.inf)


class Thresholds(Generic[Tag]):
    """Thresholds, each with the tag that `crossed_by` returns for it."""

    def __init__(self, tagged: Iterable[tuple[Threshold, Tag]]) -> None:
        steps: dict[str, dict[str, list[tuple[float, Tag]]]] = {}
        for threshold, tag in tagged:
            of_metric = steps.setdefault(threshold.metric, {})
            of_metric.setdefault(threshold.operator, []).append((threshold.bound, tag))
        self._metrics = [(metric, _MetricThresholds(of_metric)) for metric, of_metric in steps.items()]

    def crossed_by(self, record: Mapping[str, Any]) -> list[Tag]:
        """The tags of the thresholds that the record crosses."""
        crossed: list[Tag] = []
        for metric, thresholds in self._metrics:
            value: Any = record.get(metric)
            if type(value) in _NUMBERS and not thresholds.low < value < thresholds.high:
                for bounds in thresholds.by_operator:
                    crossed += bounds.crossed_by(value)
        return crossed
