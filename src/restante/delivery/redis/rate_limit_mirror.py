"""The interface of a rate limit mirror: a copy of rate windows outside the database.

A mirror holds only committed dispatches. It never decides that a command may be dispatched: if it shows that all
commands of a queue wait for a full rate window, a claim would find nothing and is skipped. If the mirror lacks
anything, because it was lost or never written, the claim goes to the database.

This module depends neither on the implementation of a mirror nor on the kinds of commands.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import msgspec


class MirroredLimit(NamedTuple):
    """A rate window: the dispatches of a kind at a site within this time. A NamedTuple, as it is a dict key."""

    site_id: int
    kind: str
    window_ms: int


@dataclass(frozen=True, slots=True)
class DispatchRecord:
    """One dispatch. Its name is unique, so that recording it twice counts once."""

    window: MirroredLimit
    at_ms: int
    name: str


@dataclass(frozen=True, slots=True)
class WindowUsage:
    """The number of dispatches in a rate window, and the time of the oldest one."""

    used: int
    oldest_at_ms: int


class SiteQueue(NamedTuple):
    """The queue of a whole site, or of one zone of it. A NamedTuple, as it is a dict key."""

    site_id: int
    zone_id: int | None


class QueueSnapshot(msgspec.Struct, array_like=True, frozen=True):
    """What a claim found in the database: only rate-limited commands in the queue.

    `count` commands wait, all of these `kinds`, whose rate windows are full. No other is due before `next_due_ms`.
    `horizon`: all transactions with a lower id were visible to the claim.
    """

    horizon: int
    next_due_ms: int
    count: int
    kinds: tuple[str, ...]


@dataclass(slots=True)
class RateLimitMirrorCounters:
    """Counted since the start, for the metrics: claims skipped, claims passed on, and claims without mirror data."""

    refused: int = 0
    passed: int = 0
    fallbacks: int = 0


class RateLimitMirror(Protocol):
    """Records and reads copies of rate windows. Each call is one round trip; none raises."""

    counters: RateLimitMirrorCounters

    @property
    def is_up(self) -> bool: ...

    def record(
        self, dispatched: list[DispatchRecord], queue: SiteQueue, snapshot: QueueSnapshot | None, at_ms: int
    ) -> None:
        """Queue the dispatches of a commit, and the snapshot that it found, for writing. Returns at once."""

    async def read_snapshots(self, queues: list[SiteQueue]) -> list[QueueSnapshot | None]:
        """The last snapshot of each queue; None if it is unknown."""

    async def read_usage(self, windows: list[MirroredLimit], now_ms: int) -> list[WindowUsage | None]:
        """The usage of each rate window; None if it is empty or unknown."""
