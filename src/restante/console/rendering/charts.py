"""Small charts as SVG, drawn on the server: a line over the last minutes, with a text for people who do not see it.

`History` keeps the last values of what is charted, one every few seconds. It costs the same whether a page is open or
not, and nothing per poll.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markupsafe import Markup

WIDTH, HEIGHT = 240, 48
_PADDING = 3
# Five minutes.
PLACES = 60
SECONDS_PER_PLACE = 5


class History:
    """The last values of named counters and gauges. A counter is kept as its growth per second."""

    def __init__(self) -> None:
        self._series: dict[str, deque[float]] = {}
        self._last_counts: dict[str, float] = {}

    def add(self, counters: Mapping[str, float], gauges: Mapping[str, float]) -> None:
        """Add the values of now, `SECONDS_PER_PLACE` after the last ones."""
        for name, value in gauges.items():
            self._values_of(name).append(value)
        for name, count in counters.items():
            before = self._last_counts.get(name, count)
            self._values_of(name).append(max(0.0, count - before) / SECONDS_PER_PLACE)
            self._last_counts[name] = count

    def forget(self, name: str) -> None:
        self._series.pop(name, None)

    def values(self, name: str) -> list[float]:
        return list(self._series.get(name, ()))

    def _values_of(self, name: str) -> "deque[float]":
        return self._series.setdefault(name, deque(maxlen=PLACES))


def summed(series: Sequence[Sequence[float]]) -> list[float]:
    """The values of several nodes added up, the newest at the right: a node that started later has fewer."""
    length = max(map(len, series), default=0)
    total = [0.0] * length
    for values in series:
        for place, value in enumerate(values, length - len(values)):
            total[place] += value
    return total


def sparkline(values: Sequence[float], label: str, places: int = PLACES, *, is_from_zero: bool = True) -> "Markup":
    """A line of the values, the newest at the right. Fewer values than places leave room at the left. `is_from_zero`:
    rates begin at zero; measurements fill the height from the least to the most."""
    from markupsafe import Markup

    least, most = 0.0 if is_from_zero else min(values, default=0.0), max(values, default=0.0)
    step = WIDTH / (places - 1)
    left = WIDTH - step * (len(values) - 1)
    points = [(left + step * index, _height_of(value - least, most - least)) for index, value in enumerate(values)]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    area = f"{points[0][0]:.1f},{HEIGHT} {line} {WIDTH},{HEIGHT}" if points else ""
    return Markup(
        '<svg class="spark" viewBox="0 0 {width} {height}" preserveAspectRatio="none" role="img" aria-label="{label}">'
        '<line class="spark-base" x1="0" x2="{width}" y1="{height}" y2="{height}"/>'
        '<polygon class="spark-area" points="{area}"/><polyline class="spark-line" points="{line}"/></svg>'
    ).format(width=WIDTH, height=HEIGHT, label=label, area=area, line=line)


def span(begin: float, change: float, end: float, label: str) -> "Markup":
    """A bar of a calendar from 0 to 1, with today in the middle: light until `change`, then full."""
    from markupsafe import Markup

    x = [round(place * WIDTH, 1) for place in (begin, change, end)]
    return Markup(
        '<svg class="span" viewBox="0 0 {width} 12" preserveAspectRatio="none" role="img" aria-label="{label}">'
        '<rect class="span-before" x="{begin}" width="{before}" y="3" height="6"/>'
        '<rect class="span-after" x="{change}" width="{after}" y="3" height="6"/>'
        '<line class="span-now" x1="{now}" x2="{now}" y1="0" y2="12"/></svg>'
    ).format(
        width=WIDTH,
        label=label,
        begin=x[0],
        before=max(0, x[1] - x[0]),
        change=x[1],
        after=max(0, x[2] - x[1]),
        now=WIDTH / 2,
    )


def _height_of(value: float, most: float) -> float:
    share = value / most if most > 0 else 0.0
    return HEIGHT - _PADDING - share * (HEIGHT - 2 * _PADDING)
