"""Times as text. Inside the program, times are milliseconds since the epoch.

What the server writes has one form, RFC 3339 in UTC with milliseconds (`iso_precise`), except where a specification
fixes another (`iso_whole_seconds`, and epoch numbers). What it reads may have any precision. A filter may also name a
time as how long ago it was, `1h`.
"""

import re
from datetime import UTC, datetime
from functools import lru_cache
from typing import Annotated, overload

from msgspec import Meta

from restante.core.errors import BadInput

# The type of a time in a response body: the text that `iso_precise` writes.
Timestamp = Annotated[str, Meta(extra_json_schema={"format": "date-time"}, examples=["2026-01-18T10:00:00.250Z"])]

# The last millisecond of the year 9999.
_LATEST_MS = 253_402_300_799_999

EXPECTED_MOMENT = "a time, 2026-01-18T10:00:00Z, or a duration such as 90s, 15m, 1h, 7d or 2w"
_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_DURATION = re.compile(r"([0-9]{1,9})([smhdw])", re.ASCII)


@overload
def iso_precise(ms: int) -> str: ...
@overload
def iso_precise(ms: None) -> None: ...
@overload
def iso_precise(ms: int | None) -> str | None: ...


def iso_precise(ms: int | None) -> str | None:
    """The form of every time that no specification fixes: `2026-01-18T10:00:00.250Z`. None stays None."""
    return None if ms is None else f"{_iso_of_second(ms // 1000)[:-1]}.{ms % 1000:03d}Z"


def iso_whole_seconds(ms: int, *, is_rounded_up: bool = False) -> str:
    """The form that the specification of collectors fixes: `2026-01-18T10:00:00Z`.

    Rounded down; up for a reader that must not act too early.
    """
    return _iso_of_second((ms + 999 if is_rounded_up else ms) // 1000)


# A poll formats four times; most of them are this second or a fixed time after it.
@lru_cache(4096)
def _iso_of_second(seconds: int) -> str:
    # A row in a database of users may have any number: the nearest time from 1970 to 9999 stands for it.
    known = min(max(seconds, 0), _LATEST_MS // 1000)
    return datetime.fromtimestamp(known, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


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
