"""Times in which a config may be applied: local times of day, optionally on some days of the week.

A window that ends before it begins goes over midnight; its day is the one on which it begins.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import dataclass

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WINDOW = re.compile(
    r"(?:(?P<days>[a-z]{3}(?:,[a-z]{3})*) )?(?P<h1>\d\d):(?P<m1>[0-5]\d)-(?P<h2>\d\d):(?P<m2>[0-5]\d)", re.IGNORECASE
)


@dataclass(frozen=True)
class Window:
    days: frozenset[int]
    begin_minute: int
    end_minute: int

    def begin_on(self, day: datetime.date) -> datetime.datetime:
        return datetime.datetime.combine(day, datetime.time(self.begin_minute // 60, self.begin_minute % 60))

    @property
    def length(self) -> datetime.timedelta:
        minutes = (self.end_minute - self.begin_minute) % (24 * 60)
        return datetime.timedelta(minutes=minutes or 24 * 60)


def parse_window(text: str) -> Window | None:
    """The window, or None if the text is none."""
    found = _WINDOW.fullmatch(text.strip())
    if found is None or int(found["h1"]) > 23 or int(found["h2"]) > 24:
        return None
    names = [name.lower() for name in found["days"].split(",")] if found["days"] else list(DAYS)
    if not set(names) <= set(DAYS):
        return None
    end_minute = int(found["h2"]) * 60 + int(found["m2"])
    if end_minute > 24 * 60:
        return None
    return Window(frozenset(DAYS.index(name) for name in names), int(found["h1"]) * 60 + int(found["m1"]), end_minute)


def seconds_until_open(windows: Sequence[Window], now: datetime.datetime) -> float:
    """Zero within a window, otherwise the time until the next one begins."""
    waits = [_seconds_until(window, now) for window in windows]
    return min(waits)


def _seconds_until(window: Window, now: datetime.datetime) -> float:
    # A window of yesterday may still be open; one of next week begins within eight days.
    for offset in range(-1, 8):
        day = now.date() + datetime.timedelta(days=offset)
        if day.weekday() not in window.days:
            continue
        begin = window.begin_on(day)
        if now < begin + window.length:
            return max(0.0, (begin - now).total_seconds())
    return 24 * 3600.0
