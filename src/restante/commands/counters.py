"""Counters of the commands protocol since the start of the process; `/metrics` reads them.

Only the event loop counts, after the commit, so rolled back work is never counted. The number of label values is
bounded, whatever callers send: sites and codes beyond the bound count as `other`.
"""

import math
from bisect import bisect_left

# The values of a metric's labels, in the order of their names.
Labels = tuple[str, ...]

SITES_MAX = 1000
CODES_MAX = 100
CODE_CHARACTERS_MAX = 64
OTHER = "other"
# From "a collector was waiting" to "no collector polled for half a day".
DISPATCH_BUCKETS_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 43200)


class BoundedLabels:
    """The label values that are shown by name: the first ones, up to a bound."""

    def __init__(self, values_max: int) -> None:
        self._values_max = values_max
        self._named: set[str] = set()

    def of(self, value: str) -> str:
        if value in self._named:
            return value
        if len(self._named) >= self._values_max:
            return OTHER
        self._named.add(value)
        return value


class LabelledCounter:
    """A counter per combination of labels."""

    def __init__(self) -> None:
        self.counts: dict[Labels, float] = {}

    def add(self, *labels: str, count: int = 1) -> None:
        self.counts[labels] = self.counts.get(labels, 0) + count


class DurationHistogram:
    """A histogram of durations, with their sum."""

    def __init__(self, buckets_seconds: tuple[float, ...]) -> None:
        self.buckets_seconds = buckets_seconds
        # One more than there are bounds: for durations beyond the last bound.
        self._counts = [0] * (len(buckets_seconds) + 1)
        self.sum_seconds = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(self.buckets_seconds, seconds)] += 1
        self.sum_seconds += seconds

    def cumulative(self) -> list[tuple[str, int]]:
        """The bound of each bucket and the count up to it; the last bucket has all."""
        reached = 0
        buckets = []
        for bound, count in zip((*self.buckets_seconds, math.inf), self._counts, strict=True):
            reached += count
            buckets.append(("+Inf" if bound == math.inf else str(float(bound)), reached))
        return buckets


class CommandCounters:
    def __init__(self) -> None:
        self.sites = BoundedLabels(SITES_MAX)
        self._codes = BoundedLabels(CODES_MAX)
        self.dispatched = LabelledCounter()
        self.acked = LabelledCounter()
        self.failed = LabelledCounter()
        self.dispatch_durations = DurationHistogram(DISPATCH_BUCKETS_SECONDS)
        self.unknown_miner_records = LabelledCounter()
        self.over_budget = LabelledCounter()
        self.rule_evals = 0
        self.telemetry_lag_seconds = 0.0

    def count_dispatched(self, site_id: int, command_type: str, waited_seconds: float | None) -> None:
        """Count a dispatched command, and how long it was ready before."""
        self.dispatched.add(self.sites.of(str(site_id)), command_type)
        if waited_seconds is not None:
            self.dispatch_durations.observe(max(0.0, waited_seconds))

    def count_acked(self, site_id: int, status: str) -> None:
        """Count an accepted ACK. `status` is a standard name, not an alias."""
        self.acked.add(self.sites.of(str(site_id)), status)

    def count_unknown(self, site_id: int, kind: str, count: int) -> None:
        """Count stored reports of miners that are not registered. `kind`: telemetry or safety."""
        if count:
            self.unknown_miner_records.add(self.sites.of(str(site_id)), kind, count=count)

    def count_failed(self, code: str) -> None:
        """Count a failed command. The code may be text of the collector."""
        is_printable = len(code) <= CODE_CHARACTERS_MAX and code.isprintable()
        self.failed.add(self._codes.of(code) if is_printable else OTHER)
