"""How many commands of a type a site may be handed within a sliding window, and how many it has been.

A hand-out counts while it is younger than its type's window. Check and count are one step because they happen in one
write transaction: see `claims`. A window is counted by its ends, whatever its limit: the hand-outs of a type at a site
are numbered, so the newest number less that of the oldest within the window is how many there were.

Must always hold: numbers and times of a type's hand-outs at a site never go back, even if the clock does; rows from
further ahead than a window are a clock's mistake and do not count.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

# Old rows go with every so many new ones: a few more than needed are kept, and most hand-outs need not look.
PRUNE_EVERY = 64

# Site and command type.
WindowKey = tuple[int, str]

_encode = msgspec.json.Encoder().encode


class RateLimit(NamedTuple):
    limit: int
    window_seconds: int


DEFAULT_LIMITS = {
    "MINER_RESTART": RateLimit(5, 300),
    "DEVICE_REBOOT": RateLimit(5, 300),
    "HASHING_DISABLE": RateLimit(10, 300),
}
DEFAULT_LIMIT = RateLimit(20, 60)


@dataclass(frozen=True, slots=True)
class RateRules:
    limits: Mapping[str, RateLimit] = field(default_factory=lambda: DEFAULT_LIMITS)
    default: RateLimit = DEFAULT_LIMIT

    def __str__(self) -> str:
        every = {**self.limits, "default": self.default}
        return ", ".join(f"{name}={rule.limit}/{rule.window_seconds}" for name, rule in every.items())

    def of(self, command_type: str) -> RateLimit:
        return self.limits.get(command_type, self.default)


class Allowance(NamedTuple):
    """How many may be handed out now; if none, when the next may."""

    left: int
    frees_at_ms: int | None


class Window(msgspec.Struct):
    """A type's window at a site, in the course of handing out."""

    site_id: int
    command_type: str
    rule: RateLimit
    newest_n: int
    newest_at_ms: int
    oldest_at_ms: int | None
    left: int
    taken: int = 0

    def take(self) -> None:
        self.left -= 1
        self.taken += 1

    def put_back(self) -> None:
        self.left += 1
        self.taken -= 1

    def passes(self, every: int) -> bool:
        """Whether what was taken goes past the next of every so many hand-outs."""
        return (self.newest_n + self.taken) // every != self.newest_n // every

    def frees_at_ms(self, now_ms: int) -> int:
        """When the oldest hand-out within the window leaves it."""
        oldest = self.oldest_at_ms if self.oldest_at_ms is not None else max(now_ms, self.newest_at_ms)
        return oldest + self.rule.window_seconds * 1000


def allowance(conn: Connection, rules: RateRules, site_id: int, command_type: str) -> Allowance:
    (window,) = windows_of(conn, rules, [(site_id, command_type)]).values()
    return Allowance(window.left, None if window.left else window.frees_at_ms(conn.now_ms))


def windows_of(conn: Connection, rules: RateRules, wanted: Iterable[WindowKey]) -> dict[WindowKey, Window]:
    """The windows as they stand, by site and type."""
    by_type: dict[str, list[int]] = {}
    for site_id, command_type in wanted:
        by_type.setdefault(command_type, []).append(site_id)
    windows = {}
    for command_type, sites in by_type.items():
        rule = rules.of(command_type)
        window_ms = rule.window_seconds * 1000
        ends = conn.values(
            SQL.window_ends,
            sites=_encode(sites).decode(),
            command_type=command_type,
            past=conn.now_ms - window_ms,
            ahead=conn.now_ms + window_ms,
        )
        for site_id, newest_n, newest_at, oldest_n, oldest_at in ends:
            used = 0 if oldest_n is None else newest_n - oldest_n + 1
            left = max(0, rule.limit - used)
            window = Window(site_id, command_type, rule, newest_n or 0, newest_at or 0, oldest_at, left)
            windows[site_id, command_type] = window
    return windows


def note_taken(conn: Connection, windows: Iterable[Window]) -> None:
    """Count what was handed out of these windows."""
    rows = []
    for window in windows:
        at, first = max(conn.now_ms, window.newest_at_ms), window.newest_n + 1
        last = window.newest_n + window.taken
        rows += [(window.site_id, window.command_type, at, n) for n in range(first, last + 1)]
        if window.passes(PRUNE_EVERY):
            _prune(conn, window)
    conn.run_rows(SQL.insert_dispatch, rows)


def _prune(conn: Connection, window: Window) -> None:
    window_ms = window.rule.window_seconds * 1000
    conn.run(
        SQL.prune,
        site_id=window.site_id,
        command_type=window.command_type,
        past=conn.now_ms - window_ms,
        ahead=conn.now_ms + window_ms,
    )
