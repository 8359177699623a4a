"""Times on the wire: UTC ISO 8601 with Z. Inside the program, times are milliseconds since the epoch.

A filter may also name a time as how long ago it was, `1h`.
"""

import re
from datetime import UTC, datetime
from functools import lru_cache

from restante.core.errors import BadInput

# The last millisecond of the year 9999.
_LATEST_MS = 253_402_300_799_999

EXPECTED_MOMENT = "a time, 2026-01-18T10:00:00Z, or a duration such as 90s, 15m, 1h, 7d or 2w"
_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_DURATION = re.compile(r"([0-9]{1,9})([smhdw])", re.ASCII)


def iso(ms: int) -> str:
    """In whole seconds, rounded down: `2026-01-18T10:00:00Z`."""
    return _iso_of_second(ms // 1000)


# A poll formats four times; most of them are this second or a fixed time after it.
@lru_cache(4096)
def _iso_of_second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def iso_or_none(ms: int | None) -> str | None:
    return None if ms is None else iso(ms)


def iso_not_before(ms: int) -> str:
    """In whole seconds, rounded up: for a reader that must not act too early."""
    return iso(ms + 999)


def iso_precise(ms: int) -> str:
    """With milliseconds: `2026-01-18T10:00:00.250Z`."""
    return f"{iso(ms)[:-1]}.{ms % 1000:03d}Z"


def format_time(milliseconds: int | None) -> str:
    """A time of the database in UTC, as text that sorts like the times; empty for None."""
    if milliseconds is None:
        return ""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return f"{milliseconds} ms"


def parse_iso(text: str, field: str) -> int:
    """Milliseconds since the epoch; a time without a zone is taken as UTC, as collectors send it."""
    try:
        time = datetime.fromisoformat(text)
        ms = round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise BadInput(field, "a time as UTC ISO 8601, 2026-01-18T10:00:00Z") from None
    if not 0 <= ms <= _LATEST_MS:
        raise BadInput(field, "a time from 1970 to 9999")
    return ms


def parse_moment(text: str, field: str, now_ms: int) -> int:
    """Milliseconds since the epoch. A duration means so long before now."""
    duration = _DURATION.fullmatch(text)
    if duration is not None:
        return max(0, now_ms - int(duration[1]) * _UNIT_MS[duration[2]])
    try:
        return parse_iso(text, field)
    except BadInput:
        raise BadInput(field, EXPECTED_MOMENT) from None
