"""The bell: what is known about each recipient, and who waits for news of it.

The bell remembers, per recipient, the tail after which nothing new has been published, so that an idle poll does no
I/O at all. A waiting poll is parked under its recipient and told when something arrives.

    unknown ──learn──▶ known (tail) ──hear──▶ known (newer tail) ──forget──▶ unknown

Must always hold: what is known is never older than what was last heard; knowledge that may be wrong is dropped, never
guessed. A reader that started before a piece of news was heard cannot put older knowledge in its place, because tails
only move forward; and one that started before anything was dropped may not teach at all, because what was dropped
might have been the newer piece (see `stamp`).

Runs in the event loop's thread only. Knows nothing of protocols: a tail is anything `is_newer` can compare, a waiter
anything at all.
"""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

Tail = TypeVar("Tail")
Stamp = tuple[int, int]
Waiter = TypeVar("Waiter")


class Bell(Generic[Tail, Waiter]):
    def __init__(self, recipients_max: int, is_newer: Callable[[Tail, Tail], bool]) -> None:
        self._recipients_max = recipients_max
        self._is_newer = is_newer
        # Polls read it directly: one dictionary look-up is all that an idle poll costs here.
        self.known: dict[int, Tail] = {}
        self.generation = 0
        # How often each was forgotten by itself in this generation.
        self._rung: dict[int, int] = {}
        self._waiting: dict[int, list[Waiter]] = {}
        self._waiting_count = 0

    def stamp(self, recipient: int) -> Stamp:
        """What the bell has dropped until now, to be given back with what a read that begins now has found."""
        return self.generation, self._rung.get(recipient, 0)

    def learn(self, recipient: int, tail: Tail, stamp: Stamp) -> None:
        """Remember what a read found, unless something was dropped since it began."""
        if stamp == self.stamp(recipient):
            self.hear(recipient, tail)

    def hear(self, recipient: int, tail: Tail, follows: Tail | None = None) -> None:
        """Remember news, unless it is older than what is known. What `follows` the known tail is newer, unasked."""
        known = self.known.get(recipient)
        if known is None:
            if len(self.known) >= self._recipients_max:
                self._drop_some()
            self.known[recipient] = tail
        elif known == follows or self._is_newer(tail, known):
            self.known[recipient] = tail

    def forget(self, recipient: int) -> None:
        """There may be news of this one, and nobody says what."""
        self.known.pop(recipient, None)
        self._rung[recipient] = self._rung.get(recipient, 0) + 1
        if len(self._rung) > self._recipients_max:
            self._rung.clear()
            self.generation += 1

    def forget_all(self) -> None:
        self.known.clear()
        self._rung.clear()
        self.generation += 1

    def park(self, recipient: int, waiter: Waiter) -> None:
        self._waiting.setdefault(recipient, []).append(waiter)
        self._waiting_count += 1

    def leave(self, recipient: int, waiter: Waiter) -> None:
        waiting = self._waiting.get(recipient)
        if waiting is not None and waiter in waiting:
            waiting.remove(waiter)
            self._waiting_count -= 1
            if not waiting:
                del self._waiting[recipient]

    def waiting_for(self, recipient: int) -> list[Waiter]:
        return self._waiting.get(recipient, [])

    def everyone_waiting(self) -> Iterator[Waiter]:
        for waiting in list(self._waiting.values()):
            yield from list(waiting)

    @property
    def waiting_count(self) -> int:
        return self._waiting_count

    def _drop_some(self) -> None:
        """Make room by forgetting the eighth that was learnt first: dropping is always safe, and rare in bulk."""
        oldest = list(self.known)[: max(1, len(self.known) // 8)]
        for recipient in oldest:
            del self.known[recipient]
        self.generation += 1
