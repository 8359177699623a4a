"""Since when a condition holds, and when it has held for long enough to act.

    samples (record time)   ──●────●────●────●──▶      ● holds   ○ does not
                              since          last
    the server's clock                       heard_at ──── gap ────▶ what was heard is too old to act on

Two clocks are at work: samples carry the time of their collector, which may be wrong by any amount; waiting is done by
the server's. Lengths of each are used, never the difference of a moment of one and a moment of the other.

Must always hold: one sample alone is never a duration; samples further apart than the gap are not one stretch; after
the gap without a sample, nothing is known any more and nothing is done.
"""

from typing import NamedTuple


class Holding(NamedTuple):
    """An unbroken stretch of samples for which the condition holds."""

    since: int  # record time of its first sample
    last: int  # record time of its newest sample
    heard_at: int  # the server's time when that one came in


def held_on(holding: Holding | None, ts: int, heard_at: int, gap_ms: int) -> Holding:
    """The stretch after another sample for which the condition holds."""
    if holding is None or ts - holding.last > gap_ms:
        return Holding(ts, ts, heard_at)
    return Holding(holding.since, ts, heard_at)


def long_enough_at(holding: Holding, duration_ms: int, quiet_until: int) -> int:
    """The moment, by the server's clock, to act if the condition is heard to hold until then."""
    return max(holding.heard_at - (holding.last - holding.since) + duration_ms, quiet_until)


def acts_at(holding: Holding, duration_ms: int, gap_ms: int, quiet_until: int) -> int | None:
    """The moment, by the server's clock, to act unless a sample says otherwise; None where only another could tell."""
    held_ms = holding.last - holding.since
    if held_ms < duration_ms and held_ms == 0:
        return None
    long_enough_at = holding.heard_at + max(0, duration_ms - held_ms)
    moment = max(long_enough_at, quiet_until)
    return moment if moment <= holding.heard_at + gap_ms else None
