"""The queue of writes, and the idle writer threads that wait for them.

    put ─▶ a b c ─▶ wakes the writer that was busy last; it gets everything queued, the others stay idle

Writers are woken last in, first out: the one that was busy last has a warm thread and a warm connection. One writer is
woken at a time and gets everything queued by then; if its limit leaves items in the queue, the next writer is woken.

Invariant: while an item is queued and a writer is idle, one writer is being woken.
"""

import threading
from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class ThreadWaker:
    """Parks one thread until another wakes it. `wake` is called once for each time the thread parks."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def wake(self) -> None:
        self._lock.release()

    def wait(self, seconds: float | None) -> bool:
        """Whether the thread was woken; False after the timeout."""
        return self._lock.acquire(timeout=-1 if seconds is None else seconds)


class WorkQueue(Generic[T]):
    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._queued: deque[T] = deque()
        self._idle: list[ThreadWaker] = []
        self._is_one_waking = False
        self._is_closed = False

    def put(self, item: T) -> bool:
        """False if the queue is closed."""
        with self._guard:
            if self._is_closed:
                return False
            self._queued.append(item)
            self._wake_one()
        return True

    def get(self, own: ThreadWaker, limit: int, timeout_seconds: float | None = None) -> list[T]:
        """Return up to `limit` items. Empty after the timeout, or when the queue is closed and drained."""
        with self._guard:
            if self._queued or self._is_closed or timeout_seconds == 0:
                return self._pop(limit)
            self._idle.append(own)
        is_woken = own.wait(timeout_seconds)
        with self._guard:
            if not is_woken and own in self._idle:
                self._idle.remove(own)
                return []
            if not is_woken:
                # It was woken just after its timeout: consume that wake-up.
                own.wait(None)
            self._is_one_waking = False
            return self._pop(limit)

    def close(self) -> None:
        """Accept nothing more. Items that were accepted can still be fetched."""
        with self._guard:
            self._is_closed = True
            while self._idle:
                self._idle.pop().wake()

    def drain(self) -> list[T]:
        """Remove and return everything queued."""
        with self._guard:
            items = list(self._queued)
            self._queued.clear()
            return items

    @property
    def length(self) -> int:
        """How many items are queued."""
        return len(self._queued)

    @property
    def is_drained(self) -> bool:
        return self._is_closed and not self._queued

    def _pop(self, limit: int) -> list[T]:
        queued = self._queued
        items = [queued.popleft() for _ in range(min(len(queued), limit))]
        self._wake_one()
        return items

    def _wake_one(self) -> None:
        if self._queued and self._idle and not self._is_one_waking:
            self._is_one_waking = True
            self._idle.pop().wake()
