"""The bell of each site's queue: until when it is known to be empty, and who waits at it.

    unknown ──quiet──▶ nothing before T, unless rung ──ring, T──▶ unknown

A queue is shared by all collectors of its site, so a ring wakes one waiter and not all: whoever finds more than it may
take wakes the next, and so does whoever finds nothing because it looks for one zone only. A waiter that has looked
since the last ring is not woken again by it.

Must always hold: what is known was found by a look that began after the last ring. Runs in the event loop's thread
only; time is the process's monotonic clock, for waiting only. Knows nothing of databases or protocols.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Generic, Protocol, TypeVar

import msgspec

SITES_MAX = 100_000


class Quiet(msgspec.Struct, frozen=True):
    """Nothing can be handed out before this moment of the monotonic clock; so many wait for a rate window."""

    until: float
    held_back: int


class Waiting(Protocol):
    """`looked_at` is the ring it has last looked after."""

    site_id: int
    looked_at: int


Waiter = TypeVar("Waiter", bound=Waiting)


class SiteBell(Generic[Waiter]):
    def __init__(self, wake: Callable[[Waiter], None], monotonic: Callable[[], float]) -> None:
        self._wake = wake
        self._monotonic = monotonic
        # Site → zone, or None for the whole site → what is known.
        self._quiet: dict[int, dict[int | None, Quiet]] = {}
        self._rings = 0
        self._forgotten_at = 0
        # Site → the number of its last ring, and the moment.
        self._rung_at: dict[int, tuple[int, float]] = {}
        # Dictionaries keep the order of arrival and let go of anybody in one step.
        self._waiting: dict[int, dict[Waiter, None]] = {}
        self._timers: dict[int, tuple[float, asyncio.TimerHandle]] = {}
        self.waiting_count = 0
        # Told of a site when somebody begins to wait at it and nobody did before.
        self.on_first_waiting: Callable[[int], None] = lambda _site_id: None
        # Told of a site when the moment has come that was known for it.
        self.on_moment: Callable[[int], object] = self.ring

    def quiet(self, site_id: int, zone_id: int | None) -> Quiet | None:
        """What is known, if it still holds."""
        known = self._quiet.get(site_id)
        found = None if known is None else known.get(zone_id)
        return found if found is not None and self._monotonic() < found.until else None

    def last_ring(self, site_id: int) -> int:
        rung = self._rung_at.get(site_id)
        return self._forgotten_at if rung is None else rung[0]

    def was_rung_within(self, site_id: int, seconds: float) -> bool:
        rung = self._rung_at.get(site_id)
        return rung is not None and self._monotonic() - rung[1] < seconds

    def learn(self, site_id: int, zone_id: int | None, quiet: Quiet, looked_at: int) -> None:
        """Remember what a look has found that began after the given ring."""
        if looked_at == self.last_ring(site_id):
            if len(self._quiet) >= SITES_MAX and site_id not in self._quiet:
                self.forget_all()
                return
            self._quiet.setdefault(site_id, {})[zone_id] = quiet

    def ring(self, site_id: int) -> bool:
        """Something may be there now; whether somebody was woken by it."""
        self.drop(site_id)
        return self.wake_next(site_id)

    def drop(self, site_id: int) -> None:
        """As `ring`, where waking is somebody else's business."""
        self._rings += 1
        if len(self._rung_at) >= SITES_MAX:
            self.forget_all()
        self._rung_at[site_id] = (self._rings, self._monotonic())
        self._quiet.pop(site_id, None)

    def forget_all(self) -> None:
        """Anything may have happened anywhere."""
        self._rings += 1
        self._forgotten_at = self._rings
        self._rung_at.clear()
        self._quiet.clear()

    def ring_all(self) -> None:
        self.forget_all()
        for site_id in list(self._waiting):
            self.wake_next(site_id)

    def wake_next(self, site_id: int) -> bool:
        """Wake who has waited longest, unless everybody has looked since the last ring; whether somebody was."""
        waiting = self._waiting.get(site_id)
        first = next(iter(waiting)) if waiting else None
        if first is None or first.looked_at == self.last_ring(site_id):
            return False
        self.leave(first)
        self._wake(first)
        return True

    def is_waiting(self, site_id: int) -> bool:
        return site_id in self._waiting

    def park(self, waiter: Waiter, until: float) -> None:
        """Have the waiter woken by a ring, or when the moment has come that is known for its site."""
        if waiter.site_id not in self._waiting:
            self.on_first_waiting(waiter.site_id)
        self._waiting.setdefault(waiter.site_id, {})[waiter] = None
        self.waiting_count += 1
        self.arm(waiter.site_id, until)

    def arm(self, site_id: int, until: float) -> None:
        """The moment that is known for the site, if somebody waits there and none before it is known."""
        timer = self._timers.get(site_id)
        if until != float("inf") and site_id in self._waiting and (timer is None or until < timer[0]):
            if timer is not None:
                timer[1].cancel()
            self._timers[site_id] = (until, self._call_at(until, site_id))

    def disarm(self, site_id: int, before: float) -> None:
        """Forget the moment that is known for the site, if it comes before the given one."""
        timer = self._timers.get(site_id)
        if timer is not None and timer[0] < before:
            timer[1].cancel()
            del self._timers[site_id]

    def leave(self, waiter: Waiter) -> None:
        waiting = self._waiting.get(waiter.site_id)
        if waiting is None or waiter not in waiting:
            return
        del waiting[waiter]
        self.waiting_count -= 1
        if not waiting:
            del self._waiting[waiter.site_id]
            timer = self._timers.pop(waiter.site_id, None)
            if timer is not None:
                timer[1].cancel()

    def everyone_waiting(self) -> Iterator[Waiter]:
        for waiting in list(self._waiting.values()):
            yield from list(waiting)

    def _call_at(self, until: float, site_id: int) -> asyncio.TimerHandle:
        # A little after: the moment is the database's, and its clock is not this one.
        delay = max(0.0, until - self._monotonic()) + 0.001
        return asyncio.get_running_loop().call_later(delay, self._moment_came, site_id)

    def _moment_came(self, site_id: int) -> None:
        self._timers.pop(site_id, None)
        self.on_moment(site_id)
