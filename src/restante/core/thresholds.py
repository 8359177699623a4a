"""Which of many thresholds a record of measurements crosses.

The thresholds of each metric are kept sorted, so that what a record costs grows with the metrics watched and with the
thresholds it crosses, not with those it leaves alone; one in calm waters costs next to nothing. Knows nothing of rules,
durations or miners.

Must always hold: the answer is that of comparing with each threshold, one by one. A value that is no number (or not
there) crosses nothing, and disproves nothing either: see `is_reported`.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

Tag = TypeVar("Tag")
Bounds = list[float]

# For each operator: the part of the sorted bounds for which `value operator bound` is true.
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
    """Whether the record says anything about the metric; true and false are no measurements."""
    return type(record.get(metric)) in _NUMBERS


class _Ladder(Generic[Tag]):
    """The thresholds of one metric and operator, by their bound."""

    def __init__(self, operator: str, steps: list[tuple[float, Tag]]) -> None:
        steps = sorted(steps, key=lambda step: step[0])
        self.bounds = [bound for bound, _tag in steps]
        self._tags = [tag for _bound, tag in steps]
        self._crossed = _CROSSED[operator]

    def crossed_by(self, value: float) -> list[Tag]:
        return self._tags[self._crossed(self.bounds, value)]


class _Watch(Generic[Tag]):
    """All thresholds of one metric. Between `calm_above` and `calm_below` a value crosses none of them."""

    def __init__(self, steps: dict[str, list[tuple[float, Tag]]]) -> None:
        ladders = {operator: _Ladder(operator, each) for operator, each in steps.items()}
        self.ladders = list(ladders.values())
        upward = [ladders[operator].bounds[0] for operator in (">", ">=") if operator in ladders]
        downward = [ladders[operator].bounds[-1] for operator in ("<", "<=") if operator in ladders]
        self.calm_below = min(upward, default=math.inf)
        # Equality is crossed anywhere: nothing is calm then.
        self.calm_above = math.inf if "==" in ladders else max(downward, default=-math.inf)


class Thresholds(Generic[Tag]):
    """Thresholds, each with a tag to know it by."""

    def __init__(self, tagged: Iterable[tuple[Threshold, Tag]]) -> None:
        steps: dict[str, dict[str, list[tuple[float, Tag]]]] = {}
        for threshold, tag in tagged:
            of_metric = steps.setdefault(threshold.metric, {})
            of_metric.setdefault(threshold.operator, []).append((threshold.bound, tag))
        self._watched = [(metric, _Watch(of_metric)) for metric, of_metric in steps.items()]

    def crossed_by(self, record: Mapping[str, Any]) -> list[Tag]:
        """The tags of the thresholds that the record crosses."""
        crossed: list[Tag] = []
        for metric, watch in self._watched:
            value: Any = record.get(metric)
            if type(value) in _NUMBERS and not watch.calm_above < value < watch.calm_below:
                for ladder in watch.ladders:
                    crossed += ladder.crossed_by(value)
        return crossed
