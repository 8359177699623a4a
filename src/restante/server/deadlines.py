"""Deadlines for very many things at once, at the price of one timer.

Each timed thing holds its own `due` and may move it at will, which costs nothing; it is looked at when its slot comes
round, and moved on if it is not due yet. Only a deadline that comes nearer has to be told, by `watch`.
Things fire up to one slot late, never early.
"""

from typing import Protocol

import structlog

log = structlog.get_logger()

SLOT_SECONDS = 0.05
NEVER = float("inf")
GONE = -1.0
LOOK_AGAIN_SECONDS = 10.0


class Timed(Protocol):
    """`due` is a time, NEVER (for now) or GONE (for good). `slot` is the wheel's own; it begins as -1."""

    due: float
    slot: int

    def on_due(self) -> None: ...


class Deadlines:
    def __init__(self, now: float) -> None:
        # The time of the last tick, for whom a slot's precision is enough.
        self.now = now
        self._slots: dict[int, list[Timed]] = {}
        self._next = int(now / SLOT_SECONDS)

    def watch(self, thing: Timed) -> None:
        """Look at the thing when it is due by its present deadline, if that is before the look it has coming."""
        if thing.due != NEVER:
            self._watch_from(thing, thing.due)

    def tick(self, now: float) -> None:
        """Fire what is due. To be called about once a slot; late calls catch up."""
        self.now = now
        last = int(now / SLOT_SECONDS)
        while self._next <= last:
            slot = self._next
            self._next += 1
            for thing in self._slots.pop(slot, ()):
                if thing.slot == slot:
                    thing.slot = -1
                    self._look_at(thing, now)

    def _look_at(self, thing: Timed, now: float) -> None:
        if thing.due == GONE:
            return
        if thing.due <= now:
            try:
                thing.on_due()
            except Exception:
                # Everything else that is timed depends on this loop going on.
                log.exception("what was due failed")
        if thing.due != GONE:
            self._watch_from(thing, min(thing.due, now + LOOK_AGAIN_SECONDS))

    def _watch_from(self, thing: Timed, due: float) -> None:
        slot = max(self._next, int(due / SLOT_SECONDS) + 1)
        if thing.slot == -1 or slot < thing.slot:
            thing.slot = slot
            self._slots.setdefault(slot, []).append(thing)
