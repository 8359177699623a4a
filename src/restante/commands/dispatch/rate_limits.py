"""Rate limits: how many commands of a type a site may get within a sliding window, and how many it got.

A dispatch counts while it is younger than its type's window. A claim checks and counts in one write transaction: see
`claims`. Counting reads two rows, whatever the limit: the dispatches of a type at a site are numbered, so the newest
number minus the oldest number within the window gives the count.

Invariants: the numbers and times of a type's dispatches at a site never decrease, even if the clock does. Rows that lie
more than one window in the future come from a wrong clock and do not count.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from restante.database.connection import Connection
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

# Old rows are deleted once per so many dispatches: a few more than needed stay, and most dispatches delete nothing.
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
    """`left`: how many commands may be dispatched now. `frees_at_ms`: if none, when the next may."""

    left: int
    frees_at_ms: int | None


class RateWindow(msgspec.Struct):
    """The window of a type at a site, while a batch of claims acquires from it."""

    site_id: int
    command_type: str
    rule: RateLimit
    newest_n: int
    newest_at_ms: int
    oldest_at_ms: int | None
    left: int
    acquired: int = 0

    def acquire(self) -> None:
        self.left -= 1
        self.acquired += 1

    def release(self) -> None:
        self.left += 1
        self.acquired -= 1

    def passes_multiple_of(self, count: int) -> bool:
        """Whether a dispatch number that was acquired is a multiple of `count`."""
        return (self.newest_n + self.acquired) // count != self.newest_n // count

    def frees_at_ms(self, now_ms: int) -> int:
        """When the oldest dispatch within the window leaves it."""
        oldest = self.oldest_at_ms if self.oldest_at_ms is not None else max(now_ms, self.newest_at_ms)
        return oldest + self.rule.window_seconds * 1000


Windows = dict[WindowKey, RateWindow]


def allowance(conn: Connection, rules: RateRules, site_id: int, command_type: str) -> Allowance:
    (window,) = read_windows(conn, rules, [(site_id, command_type)]).values()
    return Allowance(window.left, None if window.left else window.frees_at_ms(conn.now_ms))


def read_windows(conn: Connection, rules: RateRules, keys: Iterable[WindowKey]) -> Windows:
    """Read the current windows of the given sites and types."""
    return prefetch_windows(conn, rules, keys)()


def prefetch_windows(conn: Connection, rules: RateRules, keys: Iterable[WindowKey]) -> Callable[[], Windows]:
    """Start to read the current windows of the given sites and types. The returned function yields them."""
    by_type: dict[str, list[int]] = {}
    for site_id, command_type in keys:
        by_type.setdefault(command_type, []).append(site_id)
    found = {
        command_type: conn.prefetch(
            SQL.window_ends,
            sites=_encode(sites).decode(),
            command_type=command_type,
            now_ms=conn.now_parameter,
            window_ms=rules.of(command_type).window_seconds * 1000,
        )
        for command_type, sites in by_type.items()
    }
    return lambda: {
        (row[0], command_type): _window(rules.of(command_type), command_type, *row)
        for command_type, rows in found.items()
        for row in rows()
    }


def _window(
    rule: RateLimit,
    command_type: str,
    site_id: int,
    newest_n: int | None,
    newest_at: int | None,
    oldest_n: int | None,
    oldest_at: int | None,
) -> RateWindow:
    used = 0 if oldest_n is None or newest_n is None else newest_n - oldest_n + 1
    left = max(0, rule.limit - used)
    return RateWindow(site_id, command_type, rule, newest_n or 0, newest_at or 0, oldest_at, left)


def record_dispatches(conn: Connection, windows: Iterable[RateWindow]) -> None:
    """Count the dispatches that were acquired from these windows."""
    rows = []
    for window in windows:
        at, first = max(conn.now_ms, window.newest_at_ms), window.newest_n + 1
        last = window.newest_n + window.acquired
        rows += [(window.site_id, window.command_type, at, n) for n in range(first, last + 1)]
        if window.passes_multiple_of(PRUNE_EVERY):
            _prune(conn, window)
    conn.run_rows(SQL.insert_dispatch, rows)


def _prune(conn: Connection, window: RateWindow) -> None:
    window_ms = window.rule.window_seconds * 1000
    conn.run(
        SQL.prune,
        site_id=window.site_id,
        command_type=window.command_type,
        past=conn.now_ms - window_ms,
        ahead=conn.now_ms + window_ms,
    )
