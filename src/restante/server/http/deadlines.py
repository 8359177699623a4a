"""A timer wheel: deadlines for very many objects with one timer.

Each object holds its own `due` time and may move it later at no cost: the wheel checks the object when its slot comes,
and moves it to a later slot if it is not due yet. Only a deadline that moves earlier needs a call of `watch`.

Invariant: a deadline fires up to one slot late, never early.
"""

from typing import Protocol

import structlog

log = structlog.get_logger()

SLOT_SECONDS = 0.05
NEVER = float("inf")
REMOVED = -1.0
RECHECK_SECONDS = 10.0


class HasDeadline(Protocol):
    """`due` is a time, NEVER (for now) or REMOVED (for good). `slot` belongs to the wheel and starts as -1."""

    due: float
    slot: int

    def on_due(self) -> None: ...


class Deadlines:
    def __init__(self, now: float) -> None:
        # The time of the last tick, for callers that need no more precision than a slot.
        self.now = now
        # By slot; dictionaries, because they keep the order and an object leaves in one step.
        self._slots: dict[int, dict[HasDeadline, None]] = {}
        self._next = int(now / SLOT_SECONDS)

    @property
    def is_idle(self) -> bool:
        """Whether no object is watched."""
        return not self._slots

    def watch(self, timed: HasDeadline) -> None:
        """Check the object at its present deadline, if that is earlier than its next check."""
        if timed.due != NEVER:
            self._schedule(timed, timed.due)

    def remove(self, timed: HasDeadline) -> None:
        """Watch the object no longer. It would leave by itself, but it and all that it holds would stay until then."""
        timed.due = REMOVED
        slot = self._slots.get(timed.slot)
        if slot is not None:
            slot.pop(timed, None)
            if not slot:
                del self._slots[timed.slot]
        timed.slot = -1

    def tick(self, now: float) -> None:
        """Fire all deadlines that have passed. Called about once per slot; a late call catches up."""
        self.now = now
        last = int(now / SLOT_SECONDS)
        while self._next <= last:
            slot = self._next
            self._next += 1
            for timed in self._slots.pop(slot, ()):
                if timed.slot == slot:
                    timed.slot = -1
                    self._check(timed, now)

    def _check(self, timed: HasDeadline, now: float) -> None:
        if timed.due == REMOVED:
            return
        if timed.due <= now:
            try:
                timed.on_due()
            except Exception:
                # All other deadlines depend on this loop.
                log.exception("deadline callback failed")
        if timed.due != REMOVED:
            self._schedule(timed, min(timed.due, now + RECHECK_SECONDS))

    def _schedule(self, timed: HasDeadline, due: float) -> None:
        slot = max(self._next, int(due / SLOT_SECONDS) + 1)
        if timed.slot == -1 or slot < timed.slot:
            timed.slot = slot
            self._slots.setdefault(slot, {})[timed] = None
