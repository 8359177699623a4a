"""Copies of rate windows outside the database, as who asks them and who keeps them see them.

A copy holds hand-outs whose transaction is committed, and never decides that something may be handed out: where it
shows that everything that waits in a queue waits for a full window, a claim would find nothing, and is saved. What a
copy lacks, because it was lost or never written, sends the claim to the database.

Knows neither who keeps copies nor of what the windows are.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import msgspec


class Window(NamedTuple):
    """The hand-outs of a kind at a site within so many milliseconds."""

    site_id: int
    kind: str
    window_ms: int


class HandOut(NamedTuple):
    """One hand-out. Its name is unlike any other's, so that telling of it twice counts once."""

    window: Window
    at_ms: int
    name: str


class Filling(NamedTuple):
    """How many hand-outs a window holds, and when the oldest of them was."""

    used: int
    oldest_at_ms: int


class Queue(NamedTuple):
    """What a look looks at: a whole site, or one zone of it."""

    site_id: int
    zone_id: int | None


class Held(msgspec.Struct, array_like=True, frozen=True):
    """What a look in the database found: nothing in the queue but so many of these kinds, whose windows are full, and
    nothing due before `look_again_ms`. `horizon`: every transaction with a lower number was over by then."""

    horizon: int
    look_again_ms: int
    count: int
    kinds: tuple[str, ...]


@dataclass(slots=True)
class WindowTotals:
    """Counts since the start, for the metrics: claims that were saved, that were not, and that nobody answered for."""

    refused: int = 0
    passed: int = 0
    fallbacks: int = 0


class WindowCopies(Protocol):
    """Who keeps copies. What is asked together travels together; nothing here raises."""

    totals: WindowTotals

    @property
    def is_up(self) -> bool: ...

    def keep(self, handed_out: list[HandOut], queue: Queue, held: Held | None, at_ms: int) -> None:
        """Have written down what a commit has handed out, and what it found to be held back. Returns at once."""

    async def held_at(self, queues: list[Queue]) -> list[Held | None]:
        """What was last found in each queue; None if that is not known."""

    async def fillings(self, windows: list[Window], now_ms: int) -> list[Filling | None]:
        """How full each window is; None if that is not known, or nothing is in it."""
