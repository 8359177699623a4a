"""What this protocol has done since the start, in plain numbers: `/metrics` reads them when somebody asks.

Counted in the event loop only, after the commit that makes it true: what was rolled back was never counted. The
labels are bounded, whatever callers send: sites and codes beyond the bound are counted together under `other`.
"""

import math
from bisect import bisect_left

# The values of a metric's labels, in the order of their names.
Labels = tuple[str, ...]

SITES_MAX = 1000
CODES_MAX = 100
CODE_CHARACTERS_MAX = 64
OTHER = "other"
# From "a collector was waiting" to "no collector came for half a day".
DISPATCH_BUCKETS_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200, 43200)


class BoundedLabels:
    """Which label values are shown by name: the first to come, up to a bound."""

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


class Tally:
    """A count for each combination of labels."""

    def __init__(self) -> None:
        self.counts: dict[Labels, float] = {}

    def add(self, *labels: str) -> None:
        self.counts[labels] = self.counts.get(labels, 0) + 1


class Durations:
    """A histogram: how many lasted at most so long, and how long all did together."""

    def __init__(self, buckets_seconds: tuple[float, ...]) -> None:
        self.buckets_seconds = buckets_seconds
        # One more than there are bounds: what is longer than the last of them.
        self._counts = [0] * (len(buckets_seconds) + 1)
        self.sum_seconds = 0.0

    def observe(self, seconds: float) -> None:
        self._counts[bisect_left(self.buckets_seconds, seconds)] += 1
        self.sum_seconds += seconds

    def cumulative(self) -> list[tuple[str, int]]:
        """Each bucket's bound and how many were within it, the last one being all."""
        reached = 0
        buckets = []
        for bound, count in zip((*self.buckets_seconds, math.inf), self._counts, strict=True):
            reached += count
            buckets.append(("+Inf" if bound == math.inf else str(float(bound)), reached))
        return buckets


class CommandTotals:
    def __init__(self) -> None:
        self.sites = BoundedLabels(SITES_MAX)
        self._codes = BoundedLabels(CODES_MAX)
        self.dispatched = Tally()
        self.acked = Tally()
        self.failed = Tally()
        self.dispatch_durations = Durations(DISPATCH_BUCKETS_SECONDS)
        self.rule_evals = 0
        self.telemetry_lag_seconds = 0.0

    def count_dispatched(self, site_id: int, command_type: str, waited_seconds: float | None) -> None:
        """A command was handed out, so long after it could have been."""
        self.dispatched.add(self.sites.of(str(site_id)), command_type)
        if waited_seconds is not None:
            self.dispatch_durations.observe(max(0.0, waited_seconds))

    def count_acked(self, site_id: int, status: str) -> None:
        """An ACK was taken; `status` is one of the protocol's own, aliases already translated."""
        self.acked.add(self.sites.of(str(site_id)), status)

    def count_failed(self, code: str) -> None:
        """A command ended failed; the code may be the collector's own words."""
        is_sayable = len(code) <= CODE_CHARACTERS_MAX and code.isprintable()
        self.failed.add(self._codes.of(code) if is_sayable else OTHER)
