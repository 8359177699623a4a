"""Times that the programs write: RFC 3339 in UTC with milliseconds, `2026-01-31T08:00:00.123Z`."""

from __future__ import annotations

from datetime import datetime, timezone


def rfc3339(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def now() -> str:
    return rfc3339(datetime.now(timezone.utc))
