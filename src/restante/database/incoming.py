"""What waits to be written, and the writers that wait for it.

    put ─▶ a b c ─▶ the writer that was busy last takes all that wait; the others sleep on

Who was busy last has a connection whose server still has all at hand, and a thread that is still warm: it is called
first. One is called at a time, and takes all that has come by then; what is more than it takes calls the next.

Must always hold: while something waits and a writer sleeps, one is on its way.
"""

import threading
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Bell:
    """What a writer sleeps on. It is rung once for each time that its owner is called."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def ring(self) -> None:
        self._lock.release()

    def wait(self, seconds: float | None) -> bool:
        return self._lock.acquire(timeout=-1 if seconds is None else seconds)


class Incoming(Generic[T]):
    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: deque[T] = deque()
        self._asleep: list[Bell] = []
        self._is_one_called = False
        self._is_closed = False

    def put(self, item: T) -> bool:
        """False if nothing is accepted any more."""
        with self._guard:
            if self._is_closed:
                return False
            self._waiting.append(item)
            self._call_one()
        return True

    def take(self, own: Bell, at_most: int, seconds: float | None = None) -> list[T]:
        """What waits, up to so many; nothing if nothing comes for so long, or ever again."""
        with self._guard:
            if self._waiting or self._is_closed or seconds == 0:
                return self._taken(at_most)
            self._asleep.append(own)
        is_called = own.wait(seconds)
        with self._guard:
            if not is_called and own in self._asleep:
                self._asleep.remove(own)
                return []
            if not is_called:
                # It was called in the moment in which it stopped waiting.
                own.wait(None)
            self._is_one_called = False
            return self._taken(at_most)

    def close(self) -> None:
        """Accept nothing more. What was accepted is still to be taken."""
        with self._guard:
            self._is_closed = True
            while self._asleep:
                self._asleep.pop().ring()

    @property
    def is_over(self) -> bool:
        return self._is_closed and not self._waiting

    def _taken(self, at_most: int) -> list[T]:
        waiting = self._waiting
        taken = [waiting.popleft() for _ in range(min(len(waiting), at_most))]
        self._call_one()
        return taken

    def _call_one(self) -> None:
        if self._waiting and self._asleep and not self._is_one_called:
            self._is_one_called = True
            self._asleep.pop().ring()
