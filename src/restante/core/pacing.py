"""Spreads the polls of a fleet evenly over time: advises each recipient when to poll again.

Every recipient has its own phase within the base interval, derived from its id. The advised interval leads to the time
of that phase that is closest to one base interval from now. A fleet that polled together (after a power cut, a
restart) is therefore spread evenly again after one round, whatever its ids are. This advice is the server's only way
to slow down a fleet of a million. Time is an argument.
"""

TOLERANCE_LEAST_SECONDS = 30
DELAY_SECONDS = 60

# The fractional parts of multiples of the golden ratio fill [0, 1) more evenly than any others.
_GOLDEN = 0.6180339887498949


def phase_of(recipient_id: int) -> float:
    """A number in [0, 1); consecutive ids are far apart."""
    return recipient_id * _GOLDEN % 1.0


def poll_interval_seconds(recipient_id: int, now_seconds: float, base_seconds: int) -> int:
    """Whole seconds until the recipient should poll again: between half and one and a half of the base."""
    if base_seconds <= 1:
        return base_seconds
    # `phase_of` is inlined, as this runs for every poll. The base is at least 2, so half of it is at least a second.
    offset = (recipient_id * _GOLDEN % 1.0 * base_seconds - now_seconds) % base_seconds
    return int(offset if offset + offset >= base_seconds else offset + base_seconds)


def overdue_after_seconds(advised_seconds: int) -> float:
    """How long after a poll that was answered with this interval the recipient counts as overdue.

    It may take half the interval longer, at least as long as a poll can wait, for its own jitter and its clock, and a
    minute more: times of polls are written twice a minute.
    """
    return advised_seconds + max(advised_seconds / 2, TOLERANCE_LEAST_SECONDS) + DELAY_SECONDS


def retry_after_seconds(recipient_id: int, least_seconds: float, spread_seconds: int) -> int:
    """Whole seconds for Retry-After: at least `least_seconds`, spread so that recipients do not return together."""
    least = int(least_seconds) + (1 if least_seconds > int(least_seconds) else 0)
    return max(1, least + int(phase_of(recipient_id) * (spread_seconds + 1)))
