"""How many commands of a type a site may be handed within a sliding window, and how many it has been.

A hand-out counts while it is younger than its type's window. Check and count are one step because they happen in one
write transaction: see `claims`. A window is counted by two seeks, whatever its limit: the hand-outs of a type at a site
are numbered, so the newest number less that of the oldest within the window is how many there were.

Must always hold: numbers and times of a type's hand-outs at a site never go back, even if the clock does; rows from
further ahead than a window are a clock's mistake and do not count.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from restante.database.connection import Connection, Row
from restante.database.queries import queries_beside

SQL = queries_beside(__file__)

# Old rows go with every so many new ones: a few more than needed are kept, and most hand-outs need not look.
PRUNE_EVERY = 64


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


@dataclass(slots=True)
class Window:
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

    def frees_at_ms(self, now_ms: int) -> int:
        """When the oldest hand-out within the window leaves it."""
        oldest = self.oldest_at_ms if self.oldest_at_ms is not None else max(now_ms, self.newest_at_ms)
        return oldest + self.rule.window_seconds * 1000


def allowance(conn: Connection, rules: RateRules, site_id: int, command_type: str) -> Allowance:
    window = window_of(conn, rules, site_id, command_type)
    return Allowance(window.left, None if window.left else window.frees_at_ms(conn.now_ms))


def window_of(conn: Connection, rules: RateRules, site_id: int, command_type: str) -> Window:
    rule = rules.of(command_type)
    window_ms = rule.window_seconds * 1000
    rows = conn.all(
        SQL.window_ends,
        site_id=site_id,
        command_type=command_type,
        past=conn.now_ms - window_ms,
        ahead=conn.now_ms + window_ms,
    )
    if not rows:
        return Window(site_id, command_type, rule, 0, 0, None, rule.limit)
    # A union has no order of its own.
    newest, oldest = max(rows, key=_n), min(rows, key=_n)
    if len(rows) == 1:
        return Window(site_id, command_type, rule, newest["n"], newest["dispatched_at"], None, rule.limit)
    used = newest["n"] - oldest["n"] + 1
    left = max(0, rule.limit - used)
    return Window(site_id, command_type, rule, newest["n"], newest["dispatched_at"], oldest["dispatched_at"], left)


def _n(row: Row) -> int:
    return int(row["n"])


def note_taken(conn: Connection, window: Window) -> None:
    """Count what was handed out of this window."""
    at = max(conn.now_ms, window.newest_at_ms)
    key = {"site_id": window.site_id, "command_type": window.command_type}
    last = window.newest_n + window.taken
    for n in range(window.newest_n + 1, last + 1):
        conn.run(SQL.insert_dispatch, **key, dispatched_at=at, n=n)
    if last // PRUNE_EVERY != window.newest_n // PRUNE_EVERY:
        window_ms = window.rule.window_seconds * 1000
        conn.run(SQL.prune, **key, past=conn.now_ms - window_ms, ahead=conn.now_ms + window_ms)
