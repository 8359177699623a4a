"""The poll for device updates: which signals a device gets, and when.

    cursor = known tail ──▶ no signals, or parked for up to `wait` seconds      no I/O
    anything else       ──▶ one read of the log ──▶ signals, no signals, an expired cursor, or parked

Invariant: a poll is parked only while its cursor equals the known tail, so every later publish wakes it.

Does not know HTTP: the ASGI route and the fast lane both call `start` with a `reply` that is called once.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

import msgspec
import structlog

from restante.core.cursor import Position, parse_cursor
from restante.core.errors import CursorExpired, RestanteError, Unavailable
from restante.core.pacing import overdue_after_seconds, poll_interval_seconds, retry_after_seconds
from restante.core.token_bucket import TokenBuckets
from restante.delivery.device_presence import DevicePresence
from restante.delivery.log.log import LogEntry, SignalsPublished
from restante.delivery.log.log_reader import LogSource, ReadResult
from restante.delivery.long_poll import ParkedPoll, RateLimitedPoll
from restante.delivery.waiter_registry import Waiter, WaiterRegistry
from restante.updates.polling.poll_boost import PollBoost

log = structlog.get_logger()

LIMIT_DEFAULT = 20
LIMIT_MAX = 100
WAIT_MAX_SECONDS = 30
WOKEN_AT_ONCE = 256


class PollResult(msgspec.Struct, frozen=True):
    """The signals after the poll's cursor, oldest first, and the cursor to poll with next."""

    cursor: bytes
    interval_seconds: int
    entries: Sequence[LogEntry] = ()


Reply = Callable[[PollResult | RestanteError], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class PollOptions:
    interval_seconds: int
    boost_interval_seconds: int
    boost_window_seconds: int
    rate_per_second: float
    burst: int
    retry_after_spread_seconds: int
    coalesce_seconds: float
    recipients_max: int
    parked_max: int


@dataclass(slots=True)
class PollCounters:
    """Counts since the start, for the metrics."""

    idle: int = 0
    with_signals: int = 0
    signals: int = 0
    cursor_expired: int = 0
    rate_limited: int = 0
    parked: int = 0


class DevicePoll(ParkedPoll[PollResult | RestanteError]):
    __slots__ = ("cursor", "limit")

    def __init__(self, device_id: int, cursor: bytes, limit: int, waits: bool, reply: Reply) -> None:
        super().__init__(device_id, waits, reply)
        self.cursor = cursor
        self.limit = limit


@dataclass(slots=True)
class _NewSignals:
    """The signals published to a device within one coalescing interval, and the cursor before them.

    `is_complete`: the entries follow each other without a gap.
    """

    before: bytes
    entries: list[LogEntry]
    is_complete: bool = True

    def after(self, cursor: bytes) -> list[LogEntry] | None:
        """The entries that a poll with this cursor has not seen; None if only the log has all of them."""
        if not self.is_complete:
            return None
        if cursor == self.before:
            return self.entries
        position = parse_cursor(cursor.decode())
        if position < parse_cursor(self.before.decode()):
            return None
        return [entry for entry in self.entries if entry.position > position]


class DeviceWaiters(WaiterRegistry[bytes, Waiter]):
    """Per device, the tail after which nothing has been published.

        unknown ──learn──▶ known tail ──advance──▶ newer tail ──notify──▶ unknown

    Invariant: the known tail is never older than the last one that was published here or reported by another node. A
    read that began before a publish cannot put an older tail in its place, because tails only move forward; a read that
    began before knowledge was dropped may not teach at all, because the dropped tail may have been newer.
    """

    def learn(self, device_id: int, tail: bytes, notification: int) -> None:
        """Remember the tail that a read found, unless a notification came after the read began."""
        if notification == self.last_notified(device_id):
            self.advance(device_id, tail)

    def advance(self, device_id: int, tail: bytes, follows: bytes | None = None) -> None:
        """Remember a published tail, unless the known one is newer. A tail that `follows` the known one is newer."""
        known = self.known.get(device_id)
        if known is None:
            self.remember(device_id, tail)
        elif known == follows or _is_newer(tail, known):
            self.known[device_id] = tail


class UpdatesPoll(RateLimitedPoll[DevicePoll, PollResult | RestanteError]):
    waiters: DeviceWaiters[DevicePoll]
    counters: PollCounters
    presence: DevicePresence

    def __init__(self, reader: LogSource, presence: DevicePresence, options: PollOptions) -> None:
        buckets = TokenBuckets(options.rate_per_second, options.burst, options.recipients_max)
        super().__init__(presence, buckets, options.retry_after_spread_seconds, options.parked_max, time.monotonic)
        self.options = options
        self.counters = PollCounters()
        self.waiters = DeviceWaiters(self._read_again, options.recipients_max)
        self.boost: PollBoost | None = None
        self._reader = reader
        self._new_signals: dict[int, _NewSignals] = {}
        # How many reads are under way for each device.
        self._reading: dict[int, int] = {}
        self._boost_from = b""
        # The poll boost of the last tick, and since when it is the current one: earlier polls were answered without it.
        self._paced_boost: PollBoost | None = None
        self._boost_since = 0.0
        self.tick(self.now)

    def tick(self, now: float) -> None:
        super().tick(now)
        if self.boost is not None and self.boost.until <= now:
            self.boost = None
        if self.boost != self._paced_boost:
            self._paced_boost, self._boost_since = self.boost, now
        # Milliseconds have thirteen digits until the year 2286: comparing the text compares the numbers.
        self._boost_from = b"%013d" % int((now - self.options.boost_window_seconds) * 1000)

    def admit_idle(self, device_id: int, cursor: bytes) -> int | None:
        """Count and admit a poll that does not wait, if memory alone shows that there is no new signal.

        The seconds after which the device should poll again. None if memory does not show it, or if the device polls
        too often; then nothing has been counted.
        """
        known = self.waiters.known.get(device_id)
        if known != cursor or self.buckets.acquire(device_id, self._monotonic()) > 0.0:
            return None
        presence = self.presence
        presence.seen[device_id] = self.now
        # The known cursor: a million devices need no second copy of theirs.
        presence.confirmed[device_id] = known
        self.counters.idle += 1
        return self.interval_seconds(device_id, cursor)

    def interval_seconds(self, device_id: int, cursor: bytes) -> int:
        """When the device should poll again: sooner during a poll boost, and while its newest signal is young."""
        options = self.options
        base = options.interval_seconds if cursor < self._boost_from else options.boost_interval_seconds
        if self.boost is not None:
            base = min(base, self.boost.interval_seconds)
        return poll_interval_seconds(device_id, self.now, base)

    def overdue_at(self, device_id: int, seen: float, cursor: bytes) -> float:
        """When a device that polled at `seen` with this cursor counts as overdue, by the interval it got."""
        options = self.options
        base = options.interval_seconds if cursor < self._boost_from else options.boost_interval_seconds
        if self.boost is not None and seen >= self._boost_since:
            base = min(base, self.boost.interval_seconds)
        return seen + overdue_after_seconds(poll_interval_seconds(device_id, seen, base))

    def start(self, device_id: int, cursor: bytes | None, limit: int, waits: bool, reply: Reply) -> DevicePoll:
        """Answer a poll: now, after a read, or, if it `waits`, when a signal is published."""
        poll = DevicePoll(device_id, cursor or b"", limit, waits, reply)
        known = self.waiters.known.get(device_id)
        if known is not None and known == cursor:
            self.presence.confirmed[device_id] = known
            self._park_or_finish(poll)
        else:
            self._read(poll, None if cursor is None else parse_cursor(cursor.decode()))
        return poll

    def published_here(self, published: SignalsPublished) -> None:
        """A commit of this process published signals: remember the tail, and wake the device's polls, once for all that
        is published together."""
        device_id = published.device_id
        before = b"%d-%d" % published.before
        self.waiters.advance(device_id, b"%d-%d" % published.head.newest, before)
        if not self.waiters.is_waiting(device_id):
            return
        if not self._new_signals:
            asyncio.get_running_loop().call_later(self.options.coalesce_seconds, self._deliver_new_signals)
        new = self._new_signals.get(device_id)
        if new is None:
            self._new_signals[device_id] = _NewSignals(before, list(published.entries))
        elif new.entries and new.entries[-1].position == published.before:
            new.entries.extend(published.entries)
        else:
            # The commits of two writers arrived here in another order than they were made: the log has the order.
            new.is_complete = False

    def published_elsewhere(self, device_id: int, newest: Position) -> None:
        """Another node published to the device: read for the polls parked here, or only remember the tail."""
        waiting = self.waiters.waiters_of(device_id)
        if not waiting and device_id not in self.waiters.known and device_id not in self._reading:
            return
        tail = b"%d-%d" % newest
        self.waiters.advance(device_id, tail)
        for poll in waiting:
            if poll.cursor != tail:
                self.waiters.leave(poll)
                self._read_again(poll)

    def _deliver_new_signals(self) -> None:
        """Deliver to the parked polls, some at a time: the first do not wait until the last are written."""
        for device_id in list(islice(self._new_signals, WOKEN_AT_ONCE)):
            new = self._new_signals.pop(device_id)
            for poll in self.waiters.waiters_of(device_id):
                unseen = new.after(poll.cursor)
                if unseen is None:
                    self.waiters.leave(poll)
                    self._read_again(poll)
                elif unseen:
                    self._deliver(poll, unseen[: poll.limit])
        if self._new_signals:
            asyncio.get_running_loop().call_soon(self._deliver_new_signals)

    def _read_again(self, poll: DevicePoll) -> None:
        self._read(poll, parse_cursor(poll.cursor.decode()))

    def _read(self, poll: DevicePoll, cursor: Position | None) -> None:
        notification = self.waiters.last_notified(poll.key)
        poll.is_reading = True
        self._reading[poll.key] = self._reading.get(poll.key, 0) + 1

        def done(result: ReadResult) -> None:
            poll.is_reading = False
            self._count_finished_read(poll.key)
            if poll.is_over:
                return
            if isinstance(result, Exception):
                self._refuse(poll, result)
                return
            poll.cursor = str(result.head.newest).encode()
            if cursor is not None and cursor.n <= result.head.newest.n:
                is_newest = cursor == result.head.newest
                self.presence.confirm(poll.key, poll.cursor if is_newest else str(cursor).encode())
            self.waiters.learn(poll.key, poll.cursor, notification)
            if result.entries:
                self._deliver(poll, result.entries)
            elif not poll.waits or self.waiters.known.get(poll.key) == poll.cursor:
                self._park_or_finish(poll)
            else:
                # Something was published while this read was under way: its result is out of date.
                self._read(poll, result.head.newest)

        self._reader.read(poll.key, cursor, poll.limit, done)

    def _count_finished_read(self, device_id: int) -> None:
        left = self._reading[device_id] - 1
        if left:
            self._reading[device_id] = left
        else:
            del self._reading[device_id]

    def _park_or_finish(self, poll: DevicePoll) -> None:
        if self._park(poll):
            self.counters.parked += 1
        else:
            self._end_wait(poll)

    def _end_wait(self, poll: DevicePoll) -> None:
        self.counters.idle += 1
        # A poll that waited is seen until its end, from which the advised interval counts.
        self.presence.seen[poll.key] = self.now
        self._finish(poll, PollResult(poll.cursor, self.interval_seconds(poll.key, poll.cursor)))

    def _deliver(self, poll: DevicePoll, entries: Sequence[LogEntry]) -> None:
        self.counters.with_signals += 1
        self.counters.signals += len(entries)
        self.presence.seen[poll.key] = self.now
        cursor = b"%d-%d" % entries[-1].position
        self._finish(poll, PollResult(cursor, self.interval_seconds(poll.key, cursor), entries))

    def _refuse(self, poll: DevicePoll, error: Exception) -> None:
        if isinstance(error, CursorExpired):
            self.counters.cursor_expired += 1
            self._finish(poll, error)
            return
        log.error("the log could not be read", device_id=poll.key, error=str(error))
        wait = retry_after_seconds(poll.key, 1, self.options.retry_after_spread_seconds)
        self._finish(poll, Unavailable("the log cannot be read now", retry_after_seconds=wait))


def _is_newer(tail: bytes, known: bytes) -> bool:
    return parse_cursor(tail.decode()) > parse_cursor(known.decode())
