"""When a recipient should call again: the server's only brake on a fleet of a million.

Every recipient has a phase of its own within the base interval, derived from its id. The advised interval leads to
the nearest moment of that phase about one base interval from now, so that a fleet that called together (a power cut,
a restart) is spread evenly again after one round, whatever its ids are. Knows nothing of clocks: now is an argument.
"""

# The fractional parts of the golden ratio's multiples fill the circle more evenly than any others.
_GOLDEN = 0.6180339887498949


def phase_of(recipient_id: int) -> float:
    """A number in [0, 1) that neighbouring ids are far apart in."""
    return recipient_id * _GOLDEN % 1.0


def poll_interval_seconds(recipient_id: int, now_seconds: float, base_seconds: int) -> int:
    """Whole seconds until the recipient should poll again: between half and one and a half of the base."""
    if base_seconds <= 1:
        return base_seconds
    # The phase is written out: this runs for every poll. Half of two or more is at least a second.
    offset = (recipient_id * _GOLDEN % 1.0 * base_seconds - now_seconds) % base_seconds
    return int(offset if offset + offset >= base_seconds else offset + base_seconds)


def retry_after_seconds(recipient_id: int, least_seconds: float, spread_seconds: int) -> int:
    """Whole seconds for Retry-After: at least what is needed, spread so that the refused do not return together."""
    least = int(least_seconds) + (1 if least_seconds > int(least_seconds) else 0)
    return max(1, least + int(phase_of(recipient_id) * (spread_seconds + 1)))
