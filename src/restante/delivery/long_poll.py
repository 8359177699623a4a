"""The long poll that the three protocols share: each poll gets one result, at once, after a read, or when it is woken.

    start ─▶ known to be idle ─▶ idle result, or parked ──notify──▶ read again
          └▶ one read ─▶ result, idle result, or parked

A protocol's poll adds `start`, its reads and its waiter registry. It hands a result of the protocol to `reply`; the
HTTP side turns it into a response.

Invariants:
- A poll is answered exactly once, or never if its client has disconnected. Of result, time-out and disconnect only the
  first counts.
- A reply that fails does not keep other polls from theirs.
- A caller has at most `parked_max` parked polls. One more ends the wait of its oldest, whose client has most likely
  disconnected unnoticed.
- After `close` no poll is parked.

Runs in the event loop's thread only. Does not know HTTP.
"""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import structlog

from restante.core.errors import TooManyRequests
from restante.core.pacing import retry_after_seconds
from restante.core.token_bucket import TokenBuckets
from restante.delivery.presence import Presence
from restante.delivery.waiter_registry import NEVER, WaiterRegistry

log = structlog.get_logger()

Result = TypeVar("Result")


class ParkedPoll(Generic[Result]):
    """A poll under way. `is_reading`: a read for it has started and not returned."""

    __slots__ = ("is_over", "is_reading", "key", "reply", "waits")

    def __init__(self, key: int, waits: bool, reply: Callable[[Result], None]) -> None:
        self.key = key
        self.waits = waits
        self.reply = reply
        self.is_reading = False
        self.is_over = False

    @property
    def caller(self) -> int:
        """The id of the device, collector or client that polls."""
        return self.key


Poll = TypeVar("Poll", bound=ParkedPoll[Any])


class LongPoll(ABC, Generic[Poll, Result]):
    """The caller of `start` ends the wait of the poll that it gets back: with `expire` when the wait time is over, with
    `disconnect` when the client disconnects."""

    waiters: WaiterRegistry[Any, Poll]

    def __init__(self, parked_max: int) -> None:
        # Seconds since the epoch, as of the last tick: for what needs no finer clock.
        self.now = time.time()
        self.ended_early = 0
        self._parked_max = parked_max
        self._is_closing = False

    @property
    def parked_count(self) -> int:
        return self.waiters.parked_count

    def tick(self, now: float) -> None:
        """To be called every second, with the time since the epoch."""
        self.now = now

    def forget_full_buckets(self, now: float) -> None:
        """To be called every few seconds, with the monotonic time: drop rate-limit state that no longer limits."""

    def forget_all(self) -> None:
        """Drop everything remembered. Parked polls stay parked."""
        self.waiters.forget_all()

    def notify(self, key: int) -> None:
        """Something may be there for the key now: read again for its parked polls."""
        self.waiters.notify(key)

    def notify_all(self) -> None:
        """Notifications may have been missed: drop everything remembered, and read again for the parked polls."""
        self.waiters.notify_all()

    def expire(self, poll: Poll) -> None:
        """The wait time is over. A read that is under way finishes, and the poll waits no more."""
        poll.waits = False
        if not poll.is_over and not poll.is_reading:
            self._end_wait(poll)

    def disconnect(self, poll: Poll) -> None:
        """The client has disconnected: do not answer the poll."""
        poll.is_over = True
        self.waiters.leave(poll)

    def close(self) -> None:
        """Answer every parked poll now, and park no more: the server is stopping."""
        self._is_closing = True
        for poll in self.waiters.all_waiters():
            self.expire(poll)

    @abstractmethod
    def _end_wait(self, poll: Poll) -> None:
        """Answer a poll whose wait time is over."""

    def _park(self, poll: Poll, until: float = NEVER) -> bool:
        """Park the poll, if it waits and the server is not stopping; whether it is parked."""
        if not poll.waits or self._is_closing:
            return False
        self.waiters.park(poll, until)
        if self.waiters.count_of(poll.key) > self._parked_max:
            self._end_oldest_of_caller(poll)
        return True

    def _end_oldest_of_caller(self, poll: Poll) -> None:
        """End the oldest wait of the poll's caller, if the caller has too many. Several callers may share a key."""
        parked = [each for each in self.waiters.waiters_of(poll.key) if each.caller == poll.caller]
        if len(parked) > self._parked_max:
            self.ended_early += 1
            self.expire(parked[0])

    def _finish(self, poll: Poll, result: Result) -> None:
        if poll.is_over:
            return
        poll.is_over = True
        self.waiters.leave(poll)
        try:
            poll.reply(result)
        except Exception:
            # The polls that are woken together with this one still get their results.
            log.exception("poll result could not be sent", key=poll.key)


class RateLimitCounters(Protocol):
    rate_limited: int


class RateLimitedPoll(LongPoll[Poll, Result]):
    """A long poll with one token bucket per key."""

    counters: RateLimitCounters

    def __init__(
        self,
        presence: Presence,
        buckets: TokenBuckets,
        retry_after_spread_seconds: int,
        parked_max: int,
        monotonic: Callable[[], float],
    ) -> None:
        super().__init__(parked_max)
        self.buckets = buckets
        self.presence = presence
        self._spread_seconds = retry_after_spread_seconds
        self._monotonic = monotonic

    def forget_full_buckets(self, now: float) -> None:
        self.buckets.forget_full(now)

    def admit(self, key: int) -> None:
        """Take a token from the key's bucket and record that the client was seen; TooManyRequests if there is none."""
        wait = self.buckets.acquire(key, self._monotonic())
        if wait > 0.0:
            self.counters.rate_limited += 1
            raise TooManyRequests(retry_after_seconds=retry_after_seconds(key, wait, self._spread_seconds))
        self.presence.seen[key] = self.now
