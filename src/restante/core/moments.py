"""Times in filters: RFC 3339, or how long ago, as `1h`."""

import re

from restante.core.errors import BadInput
from restante.core.iso_time import parse_iso

EXPECTED = "a time, 2026-01-18T10:00:00Z, or a duration such as 90s, 15m, 1h, 7d or 2w"
_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 7 * 86_400_000}
_DURATION = re.compile(r"([0-9]{1,9})([smhdw])", re.ASCII)


def parse_moment(text: str, field: str, now_ms: int) -> int:
    """Milliseconds since the epoch. A duration means so long before now."""
    duration = _DURATION.fullmatch(text)
    if duration is not None:
        return max(0, now_ms - int(duration[1]) * _UNIT_MS[duration[2]])
    try:
        return parse_iso(text, field)
    except BadInput:
        raise BadInput(field, EXPECTED) from None
