"""Moments as contracts write them: UTC ISO 8601 with Z outside, milliseconds since the epoch inside."""

from datetime import UTC, datetime
from functools import lru_cache


def iso(ms: int) -> str:
    """The moment in whole seconds, `2026-01-18T10:00:00Z`."""
    return _iso_of_second(ms // 1000)


# A poll writes four times, and most of them are of this very second or a fixed while after it.
@lru_cache(4096)
def _iso_of_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def iso_or_none(ms: int | None) -> str | None:
    return None if ms is None else iso(ms)


def iso_not_before(ms: int) -> str:
    """The moment in whole seconds, rounded up: for who must not come too early."""
    return iso(ms + 999)


def iso_precise(ms: int) -> str:
    """The moment with its milliseconds, `2026-01-18T10:00:00.250Z`."""
    return f"{iso(ms)[:-1]}.{ms % 1000:03d}Z"
