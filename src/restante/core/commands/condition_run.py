"""Condition runs: since when a condition holds, and when it has held long enough for a rule to fire.

    samples (record time)   ──●────●────●────●──▶      ● the condition holds
                              since          last
    the server's clock                       received_at ──── gap ────▶ the last sample is too old to fire

There are two clocks. Samples carry the time of their collector, which may be wrong by any amount. The server waits by
its own clock. Only durations of each clock are used, never the difference between times of different clocks.

Invariants: one sample alone is never a duration. Samples further apart than the gap do not belong to one run. After the
gap without a sample the state is unknown, and no rule fires.
"""

from typing import NamedTuple


class ConditionRun(NamedTuple):
    """An unbroken run of samples for which the condition holds."""

    since: int  # record time of its first sample
    last: int  # record time of its newest sample
    received_at: int  # the server's time when the newest sample was received


def extend_run(run: ConditionRun | None, ts: int, received_at: int, gap_ms: int) -> ConditionRun:
    """The run after one more sample for which the condition holds."""
    if run is None or ts - run.last > gap_ms:
        return ConditionRun(ts, ts, received_at)
    return ConditionRun(run.since, ts, received_at)


def earliest_fire_at(run: ConditionRun, duration_ms: int, cooldown_until: int) -> int:
    """When the rule may fire at the earliest, by the server's clock, if further samples continue the run until then."""
    return max(run.received_at - (run.last - run.since) + duration_ms, cooldown_until)


def fires_at(run: ConditionRun, duration_ms: int, gap_ms: int, cooldown_until: int) -> int | None:
    """When the rule fires, by the server's clock, unless a sample ends the run; None if it needs another sample
    first."""
    held_ms = run.last - run.since
    if held_ms < duration_ms and held_ms == 0:
        return None
    fire_at = max(run.received_at + max(0, duration_ms - held_ms), cooldown_until)
    return fire_at if fire_at <= run.received_at + gap_ms else None
