"""The bell of each client's inbox: of whom it is known that nothing is there, and who waits.

    unknown ──learn_empty──▶ empty, unless rung ──ring──▶ unknown

An idle poll costs one look-up here. A ring wakes all polls of the client, as each may be handed the same.

Must always hold: what is known was found by a look that began after the last ring; a waiter is woken by every ring that
comes while it waits. Runs in the event loop's thread only; time is the process's monotonic clock, for waiting only.
Knows nothing of databases or protocols.
"""

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

CLIENTS_MAX = 1_000_000


class Waiting(Protocol):
    client: int


Waiter = TypeVar("Waiter", bound=Waiting)


class InboxBell(Generic[Waiter]):
    def __init__(self, wake: Callable[[Waiter], None], monotonic: Callable[[], float]) -> None:
        self._wake = wake
        self._monotonic = monotonic
        # Polls look into it directly: clients with nothing in their inbox.
        self.empty: dict[int, None] = {}
        self._rings = 0
        self._forgotten_at = 0
        self._rung_at: dict[int, int] = {}
        # How many events a poll may want and would be handed nothing but what it is written down to have had.
        self._recorded: dict[int, int] = {}
        self._waiting: dict[int, dict[Waiter, None]] = {}
        self._timers: dict[int, tuple[float, asyncio.TimerHandle]] = {}
        self.waiting_count = 0

    def last_ring(self, client: int) -> int:
        return self._rung_at.get(client, self._forgotten_at)

    def learn_empty(self, client: int, looked_at: int) -> None:
        """Remember what a look has found that began after the given ring."""
        if looked_at == self.last_ring(client):
            self._make_room(self.empty)
            self.empty[client] = None

    def learn_recorded(self, client: int, limit: int, looked_at: int) -> None:
        """A poll for so many events has been written down: the next one for no more has nothing to write down."""
        if looked_at == self.last_ring(client):
            self._make_room(self._recorded)
            self._recorded[client] = limit

    def is_recorded(self, client: int, limit: int) -> bool:
        return limit <= self._recorded.get(client, -1)

    def ring(self, client: int) -> None:
        """Something may be there now."""
        self._rings += 1
        self._make_room(self._rung_at)
        self._rung_at[client] = self._rings
        self.empty.pop(client, None)
        self._recorded.pop(client, None)
        for waiter in self.waiting_for(client):
            self.leave(waiter)
            self._wake(waiter)

    def forget_all(self) -> None:
        """Anything may have happened to anybody."""
        self._rings += 1
        self._forgotten_at = self._rings
        self._rung_at.clear()
        self.empty.clear()
        self._recorded.clear()

    def ring_all(self) -> None:
        self.forget_all()
        for waiter in self.everyone_waiting():
            self.leave(waiter)
            self._wake(waiter)

    def park(self, waiter: Waiter, until: float | None) -> None:
        """Have the waiter woken by a ring, or at that moment, when a delivery window ends."""
        self._waiting.setdefault(waiter.client, {})[waiter] = None
        self.waiting_count += 1
        timer = self._timers.get(waiter.client)
        if until is not None and (timer is None or until < timer[0]):
            if timer is not None:
                timer[1].cancel()
            self._timers[waiter.client] = (until, self._call_at(until, waiter.client))

    def leave(self, waiter: Waiter) -> None:
        waiting = self._waiting.get(waiter.client)
        if waiting is None or waiter not in waiting:
            return
        del waiting[waiter]
        self.waiting_count -= 1
        if not waiting:
            del self._waiting[waiter.client]
            timer = self._timers.pop(waiter.client, None)
            if timer is not None:
                timer[1].cancel()

    def waiting_for(self, client: int) -> list[Waiter]:
        return list(self._waiting.get(client, ()))

    def everyone_waiting(self) -> list[Waiter]:
        return [waiter for waiting in self._waiting.values() for waiter in waiting]

    def _make_room(self, known: dict[int, int] | dict[int, None]) -> None:
        if len(known) >= CLIENTS_MAX:
            self.forget_all()

    def _call_at(self, until: float, client: int) -> asyncio.TimerHandle:
        # A little after: the moment is the database's, and its clock is not this one.
        delay = max(0.0, until - self._monotonic()) + 0.001
        return asyncio.get_running_loop().call_later(delay, self._moment_came, client)

    def _moment_came(self, client: int) -> None:
        self._timers.pop(client, None)
        self.ring(client)
