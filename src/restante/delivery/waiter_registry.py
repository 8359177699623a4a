"""The waiter registry: which polls are parked for a key, and what is known about that key.

A key is one recipient of a protocol: a device, a site, a client. The registry stores per key that there is nothing
to deliver, so an idle poll does no I/O. A poll that waits is parked under its key and woken by a notification.

    unknown ──a read finds nothing──▶ known ──notify──▶ unknown, and the key's waiters are woken

Each notification has a number. A read takes the key's `last_notified` number before it starts and returns it with
its result; the subclass of a protocol then decides whether to store the result.

Invariants:
- What is known was found by a read that began after the key's last notification. Knowledge that may be wrong is
  dropped, never guessed.
- `known` and the notification numbers hold at most `keys_max` keys each. Dropping knowledge also invalidates the reads
  under way: what was dropped may have been newer than what they find.
- The waiters of a key are kept in order of arrival. A key has at most one timer, and none without a waiter.

Runs in the event loop's thread only. Does not know protocols, databases or HTTP.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

NEVER = float("inf")
# Due times come from the database's clock, which may be a little behind this process's.
CLOCK_MARGIN_SECONDS = 0.001


class Keyed(Protocol):
    """A waiter knows the key that it waits for."""

    key: int


Known = TypeVar("Known")
Waiter = TypeVar("Waiter", bound=Keyed)


class WaiterRegistry(Generic[Known, Waiter]):
    def __init__(
        self, wake: Callable[[Waiter], None], keys_max: int, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        # Polls read it directly: an idle poll costs one dictionary look-up here.
        self.known: dict[int, Known] = {}
        self.parked_count = 0
        self._wake = wake
        self._keys_max = keys_max
        self._monotonic = monotonic
        self._notifications = 0
        # The last notification of every key that has none of its own since then.
        self._all_notified = 0
        self._notified: dict[int, int] = {}
        # Most keys have one waiter, kept without a container. Several are a dictionary: ordered, and each leaves in
        # one step.
        self._waiting: dict[int, Waiter | dict[Waiter, None]] = {}
        self._timers: dict[int, tuple[float, asyncio.TimerHandle]] = {}

    def last_notified(self, key: int) -> int:
        """The number of the key's last notification."""
        return self._notified.get(key, self._all_notified)

    def remember(self, key: int, known: Known) -> None:
        """Remember what is known of a key; the caller has checked that it is current."""
        if len(self.known) >= self._keys_max and key not in self.known:
            self._make_room()
        self.known[key] = known

    def forget(self, key: int) -> None:
        """Count a notification and drop what is known, without waking a waiter."""
        self.known.pop(key, None)
        if len(self._notified) >= self._keys_max:
            self._invalidate_reads()
        self._notifications += 1
        self._notified[key] = self._notifications

    def forget_all(self) -> None:
        """Drop all knowledge. Parked polls stay parked."""
        self.known.clear()
        self._invalidate_reads()

    def notify(self, key: int) -> bool:
        """Something may be there for the key now: wake its waiters; whether there was one."""
        self.forget(key)
        return self.wake(key)

    def notify_all(self) -> None:
        """Notifications may have been missed: drop all knowledge and wake the waiters of every key."""
        self.forget_all()
        for key in list(self._waiting):
            self.wake(key)

    def wake(self, key: int) -> bool:
        """Wake the key's waiters; whether there was one."""
        waiters = self.waiters_of(key)
        for waiter in waiters:
            self.leave(waiter)
            self._wake(waiter)
        return bool(waiters)

    def park(self, waiter: Waiter, until: float = NEVER) -> None:
        """Have the waiter woken by a notification, or by the key's due time, which comes no later than `until`."""
        key = waiter.key
        parked = self._waiting.get(key)
        if parked is None:
            self._waiting[key] = waiter
        elif isinstance(parked, dict):
            parked[waiter] = None
        else:
            self._waiting[key] = {parked: None, waiter: None}
        self.parked_count += 1
        if until != NEVER:
            self.arm(key, until)

    def leave(self, waiter: Waiter) -> None:
        """Do not wake the waiter any more. Without effect if it is not parked."""
        key = waiter.key
        parked = self._waiting.get(key)
        if isinstance(parked, dict):
            if waiter not in parked:
                return
            del parked[waiter]
            is_last = not parked
        elif parked is waiter:
            is_last = True
        else:
            return
        self.parked_count -= 1
        if is_last:
            del self._waiting[key]
            self.disarm(key)

    def count_of(self, key: int) -> int:
        """How many waiters are parked for the key."""
        parked = self._waiting.get(key)
        return len(parked) if isinstance(parked, dict) else int(parked is not None)

    def is_waiting(self, key: int) -> bool:
        """Whether a waiter is parked for the key."""
        return key in self._waiting

    def first_waiter(self, key: int) -> Waiter | None:
        """The waiter that has waited longest."""
        parked = self._waiting.get(key)
        return next(iter(parked)) if isinstance(parked, dict) else parked

    def waiters_of(self, key: int) -> list[Waiter]:
        parked = self._waiting.get(key)
        if parked is None:
            return []
        return list(parked) if isinstance(parked, dict) else [parked]

    def all_waiters(self) -> list[Waiter]:
        return [waiter for key in self._waiting for waiter in self.waiters_of(key)]

    def arm(self, key: int, until: float) -> None:
        """Set the key's timer to this due time, if a waiter is parked for it and no earlier due time is set."""
        timer = self._timers.get(key)
        if key in self._waiting and (timer is None or until < timer[0]):
            if timer is not None:
                timer[1].cancel()
            self._timers[key] = (until, self._call_at(until, key))

    def disarm(self, key: int, before: float = NEVER) -> None:
        """Cancel the key's timer, if its due time is before the given one."""
        timer = self._timers.get(key)
        if timer is not None and timer[0] < before:
            timer[1].cancel()
            del self._timers[key]

    def handle_due(self, key: int) -> None:
        """The key's due time has come."""
        self.notify(key)

    def _call_at(self, until: float, key: int) -> asyncio.TimerHandle:
        delay = max(0.0, until - self._monotonic()) + CLOCK_MARGIN_SECONDS
        return asyncio.get_running_loop().call_later(delay, self._timer_fired, key)

    def _timer_fired(self, key: int) -> None:
        self._timers.pop(key, None)
        self.handle_due(key)

    def _make_room(self) -> None:
        """Drop the oldest eighth: dropping is always safe, and rare in bulk."""
        for key in list(self.known)[: max(1, len(self.known) // 8)]:
            del self.known[key]
        self._invalidate_reads()

    def _invalidate_reads(self) -> None:
        """Let no read under way teach anything, as if every key had been notified."""
        self._notifications += 1
        self._all_notified = self._notifications
        self._notified.clear()
