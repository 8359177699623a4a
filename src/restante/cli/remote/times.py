"""Times as people type and read them (`--since 1h`, `3 min ago`), and as programs read them (RFC 3339 in UTC).

The API has times as text, and, where a specification fixes it, in milliseconds since the epoch; profiles have seconds.
Here all become one. A number is in milliseconds if it would otherwise be a time thousands of years away.
"""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from restante.core.errors import BadInput
from restante.core.iso_time import iso_precise

MILLISECONDS_FROM = 10**11
SECONDS_DIGITS_MAX = 12
_DURATION = re.compile(r"(\d{1,9})\s*(s|m|h|d|w)")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_STEPS = ((86_400 * 2, 86_400, "d"), (3600 * 2, 3600, "h"), (120, 60, "min"), (0, 1, "s"))
_TIME_NAME = re.compile(r"(?:\w+_)?(?:at|until|from|ts|since|time)|not_before|not_after|ts_ms")
# Fields whose content is the user's own.
OPAQUE = frozenset(
    {"params", "detail", "ref", "payload", "claims", "events", "installs", "jwks", "record", "snapshot_json", "value"}
)


def moment(value: object) -> datetime | None:
    """A time of the API; None if the value is not one."""
    if isinstance(value, bool) or value is None:
        return None
    try:
        if isinstance(value, int | float):
            return datetime.fromtimestamp(value / 1000 if value >= MILLISECONDS_FROM else value, UTC)
        if isinstance(value, str) and len(value) >= len("2026-01-18"):
            found = datetime.fromisoformat(value)
            return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return None


def rfc3339(time: datetime) -> str:
    return iso_precise(round(time.timestamp() * 1000))


def relative(time: datetime, now: datetime) -> str:
    seconds = (now - time).total_seconds()
    size = abs(seconds)
    length, unit = next((int(size // step), unit) for least, step, unit in _STEPS if size >= least)
    if length == 0:
        return "now"
    return f"{length} {unit} ago" if seconds > 0 else f"in {length} {unit}"


def parse_since(text: str, flag: str = "--since") -> datetime:
    """A time ago (`90s`, `15m`, `1h`, `7d`, `2w`), or a time."""
    matched = _DURATION.fullmatch(text.strip())
    if matched:
        try:
            return datetime.now(UTC) - timedelta(**{_UNITS[matched[2]]: int(matched[1])})
        except OverflowError:
            raise BadInput(flag, "a time ago such as 15m, 1h or 7d") from None
    found = moment(text.strip())
    if found is None:
        raise BadInput(flag, "a time ago such as 15m, 1h or 7d, or a time such as 2026-01-18T10:00:00Z")
    return found


def is_time_name(name: str) -> bool:
    return _TIME_NAME.fullmatch(name) is not None


def normalised(value: Any) -> Any:
    """The same JSON value with every time as RFC 3339 in UTC with milliseconds."""
    if isinstance(value, dict):
        return {name: _field(name, each) for name, each in value.items()}
    if isinstance(value, list):
        return [normalised(each) for each in value]
    return value


def _field(name: str, value: Any) -> Any:
    if name in OPAQUE:
        return value
    if is_time_name(name) and not isinstance(value, dict | list):
        found = moment(value)
        return value if found is None else rfc3339(found)
    return normalised(value)


def parse_duration(text: str, flag: str) -> int:
    """A length of time in seconds: `3600`, `90s`, `15m`, `1h`, `7d`, `2w`."""
    matched = _DURATION.fullmatch(text.strip())
    try:
        if matched:
            return int(timedelta(**{_UNITS[matched[2]]: int(matched[1])}).total_seconds())
        if text.isascii() and text.isdecimal() and len(text) <= SECONDS_DIGITS_MAX:
            return int(text)
    except OverflowError:
        pass
    raise BadInput(flag, "a number of seconds, or a length of time such as 15m, 1h or 7d")
