"""The poll: what a device that asks for its updates is told, and when.

    cursor = known tail ──▶ 204, or parked for up to `wait` seconds      no I/O
    anything else       ──▶ one read of the log ──▶ 200, 204, 409, or parked

Knows nothing of HTTP framing: the ASGI route and the fast lane both call `start` with a `reply` to be called once.
Must always hold: a poll is parked only while its cursor equals the known tail, so whatever is published later is heard
and wakes it; and it is answered exactly once.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

import structlog

from restante.core.cursor import Position, parse_cursor
from restante.core.errors import CursorExpired, RestanteError, TooManyRequests, Unavailable
from restante.core.pacing import poll_interval_seconds, retry_after_seconds
from restante.core.token_bucket import TokenBuckets
from restante.delivery.bell import Bell
from restante.delivery.log import LogEntry, Published, jsons_of
from restante.delivery.log_reader import ReadResult, ReadsLog
from restante.delivery.presence import Presence
from restante.updates.rollout import Rollout
from restante.updates.wire import SHAPE
from restante.web.answer import JSON, NO_STORE, Answer, Headers

log = structlog.get_logger()

LIMIT_DEFAULT = 20
LIMIT_MAX = 100
WAIT_MAX_SECONDS = 30
WOKEN_AT_ONCE = 256

Reply = Callable[[Answer], None]


@dataclass(frozen=True, slots=True)
class PollOptions:
    interval_seconds: int = 300
    rollout_interval_seconds: int = 15
    rollout_window_seconds: int = 600
    rate_per_second: float = 1.0
    burst: int = 20
    retry_after_spread_seconds: int = 5
    coalesce_seconds: float = 0.005
    recipients_max: int = 2_000_000


@dataclass(slots=True)
class PollTotals:
    """Counts since the start, for the metrics."""

    idle: int = 0
    with_signals: int = 0
    signals: int = 0
    cursor_expired: int = 0
    rate_limited: int = 0
    parked: int = 0


class ParkedPoll:
    """A poll under way. `over` makes sure that of time-out, news and hang-up only the first counts."""

    __slots__ = ("cursor", "device_id", "is_reading", "limit", "over", "reply", "waits")

    def __init__(self, device_id: int, cursor: bytes, limit: int, waits: bool, reply: Reply) -> None:
        self.device_id = device_id
        self.cursor = cursor
        self.limit = limit
        self.waits = waits
        self.reply = reply
        self.is_reading = False
        self.over = False


@dataclass(slots=True)
class _News:
    """What was published to a device within one coalescing moment, and the cursor it follows."""

    before: bytes
    entries: list[LogEntry]
    is_whole: bool = True

    def after(self, cursor: bytes) -> list[LogEntry] | None:
        """The part that a poll with this cursor has not seen; None if the log must be asked what lies between."""
        if not self.is_whole:
            return None
        if cursor == self.before:
            return self.entries
        position = parse_cursor(cursor.decode())
        if position < parse_cursor(self.before.decode()):
            return None
        return [entry for entry in self.entries if entry.position > position]


class Poll:
    def __init__(self, reader: ReadsLog, presence: Presence, options: PollOptions) -> None:
        self.options = options
        self.totals = PollTotals()
        self.bell: Bell[bytes, ParkedPoll] = Bell(options.recipients_max, _is_newer)
        self.buckets = TokenBuckets(options.rate_per_second, options.burst, options.recipients_max)
        self._reader = reader
        self._presence = presence
        self._news: dict[int, _News] = {}
        # For which devices reads are under way, and how many.
        self._reading: dict[int, int] = {}
        self._closing = False
        self.now = 0.0
        self.rollout: Rollout | None = None
        self._rollout_from = b""
        self.tick(time.time())

    def tick(self, now: float) -> None:
        """To be called every second: for what needs no finer clock, and the time from which on a rollout counts."""
        self.now = now
        if self.rollout is not None and self.rollout.until <= now:
            self.rollout = None
        # Milliseconds have thirteen digits until the year 2286: comparing the text compares the numbers.
        self._rollout_from = b"%013d" % int((now - self.options.rollout_window_seconds) * 1000)

    def admit(self, device_id: int) -> RestanteError | None:
        """Take a token from the device's bucket and note that it was seen; the error if there was none."""
        wait = self.buckets.take(device_id, time.monotonic())
        if wait > 0.0:
            self.totals.rate_limited += 1
            spread = self.options.retry_after_spread_seconds
            return TooManyRequests(retry_after_seconds=retry_after_seconds(device_id, wait, spread))
        self._presence.seen[device_id] = self.now
        return None

    def idle_answer(self, device_id: int, cursor: bytes, date_line: bytes) -> bytes | None:
        """All bytes of the answer to a poll that does not wait, if memory alone shows that there is nothing new.

        None if it does not, or if the device polls too often; then nothing has been counted.
        """
        if self.bell.known.get(device_id) != cursor or self.buckets.take(device_id, time.monotonic()) > 0.0:
            return None
        self._presence.seen[device_id] = self.now
        self.totals.idle += 1
        return b"HTTP/1.1 204 No Content\r\n%betag: %b\r\ncache-control: no-store\r\nx-poll-interval: %d\r\n\r\n" % (
            date_line,
            cursor,
            self.interval_seconds(device_id, cursor),
        )

    def interval_seconds(self, device_id: int, cursor: bytes) -> int:
        """When the device should call again: sooner during a rollout, and while its newest signal is young."""
        options = self.options
        base = options.interval_seconds if cursor < self._rollout_from else options.rollout_interval_seconds
        if self.rollout is not None:
            base = min(base, self.rollout.interval_seconds)
        return poll_interval_seconds(device_id, self.now, base)

    def start(self, device_id: int, cursor: bytes | None, limit: int, waits: bool, reply: Reply) -> ParkedPoll:
        """Answer a poll: now, after a read, or, if it `waits`, when something arrives.

        The caller ends the wait of what it gets back: with `expire` when its time is over, with `abandon` when the
        client hangs up.
        """
        poll = ParkedPoll(device_id, cursor or b"", limit, waits, reply)
        if cursor is not None and self.bell.known.get(device_id) == cursor:
            self._nothing_new(poll)
        else:
            self._read(poll, None if cursor is None else parse_cursor(cursor.decode()))
        return poll

    def expire(self, poll: ParkedPoll) -> None:
        """The wait is over: nothing new. A read that is under way is let finish, and waits no more."""
        poll.waits = False
        if not poll.over and not poll.is_reading:
            self.totals.idle += 1
            self._answer(poll, Answer(204, self._headers(poll.device_id, poll.cursor)))

    def abandon(self, poll: ParkedPoll) -> None:
        """Nobody is there any more to be answered."""
        if not poll.over:
            self._end(poll)

    def hear(self, published: Published) -> None:
        """News from a commit: remember the tail, and wake who waits for it, once for all that arrives together."""
        device_id = published.device_id
        before = b"%d-%d" % published.before
        self.bell.hear(device_id, b"%d-%d" % published.head.newest, before)
        if not self.bell.waiting_for(device_id):
            return
        if not self._news:
            asyncio.get_running_loop().call_later(self.options.coalesce_seconds, self._wake)
        news = self._news.get(device_id)
        if news is None:
            self._news[device_id] = _News(before, list(published.entries))
        elif news.entries and news.entries[-1].position == published.before:
            news.entries.extend(published.entries)
        else:
            # Two writers' commits, heard in another order than they were made: the log knows the order.
            news.is_whole = False

    def moved(self, device_id: int, newest: Position) -> None:
        """Another node has published to the device: who waits here reads what; else only the tail is remembered."""
        waiting = self.bell.waiting_for(device_id)
        if not waiting and device_id not in self.bell.known and device_id not in self._reading:
            return
        tail = b"%d-%d" % newest
        self.bell.hear(device_id, tail)
        for poll in list(waiting):
            if poll.cursor != tail:
                self._read_again(poll)

    def ring(self, device_id: int) -> None:
        """There may be news of a device, and nobody says what: drop what is known, and read again for who waits."""
        self.bell.forget(device_id)
        for poll in list(self.bell.waiting_for(device_id)):
            self._read_again(poll)

    def look_again(self) -> None:
        """Drop what is known and read again for everybody who waits: news may have been missed."""
        self.bell.forget_all()
        for poll in self.bell.everyone_waiting():
            self._read_again(poll)

    def close(self) -> None:
        """Answer every parked poll 204 now, and park no more: the server is going down."""
        self._closing = True
        for poll in self.bell.everyone_waiting():
            self.expire(poll)

    def _wake(self) -> None:
        """Answer who waits for the news, some at a time: the first are not to wait until the last are written."""
        for device_id in list(islice(self._news, WOKEN_AT_ONCE)):
            news = self._news.pop(device_id)
            for poll in list(self.bell.waiting_for(device_id)):
                fresh = news.after(poll.cursor)
                if fresh is None:
                    self._read_again(poll)
                elif fresh:
                    self._give(poll, fresh[: poll.limit])
        if self._news:
            asyncio.get_running_loop().call_soon(self._wake)

    def _read_again(self, poll: ParkedPoll) -> None:
        self.bell.leave(poll.device_id, poll)
        self._read(poll, parse_cursor(poll.cursor.decode()))

    def _read(self, poll: ParkedPoll, cursor: Position | None) -> None:
        stamp = self.bell.stamp(poll.device_id)
        poll.is_reading = True
        self._reading[poll.device_id] = self._reading.get(poll.device_id, 0) + 1

        def done(result: ReadResult) -> None:
            poll.is_reading = False
            self._read_came_back(poll.device_id)
            if poll.over:
                return
            if isinstance(result, Exception):
                self._refuse(poll, result)
                return
            poll.cursor = str(result.head.newest).encode()
            self.bell.learn(poll.device_id, poll.cursor, stamp)
            if result.entries:
                self._give(poll, result.entries)
            elif not poll.waits or self.bell.known.get(poll.device_id) == poll.cursor:
                self._nothing_new(poll)
            else:
                # Something was published while this read was under way: what it found is out of date.
                self._read(poll, result.head.newest)

        self._reader.read(poll.device_id, cursor, poll.limit, done)

    def _read_came_back(self, device_id: int) -> None:
        left = self._reading[device_id] - 1
        if left:
            self._reading[device_id] = left
        else:
            del self._reading[device_id]

    def _nothing_new(self, poll: ParkedPoll) -> None:
        if poll.waits and not self._closing:
            self.totals.parked += 1
            self.bell.park(poll.device_id, poll)
        else:
            self.expire(poll)

    def _give(self, poll: ParkedPoll, entries: Sequence[LogEntry]) -> None:
        self.totals.with_signals += 1
        self.totals.signals += len(entries)
        cursor = b"%d-%d" % entries[-1].position
        body = b'{"data":{"cursor":"%b","signals":[%b]}}' % (cursor, b",".join(jsons_of(entries)))
        self._answer(poll, Answer(200, (JSON, *self._headers(poll.device_id, cursor)), body))

    def _headers(self, device_id: int, cursor: bytes) -> Headers:
        interval = b"%d" % self.interval_seconds(device_id, cursor)
        return ((b"etag", cursor), NO_STORE, (b"x-poll-interval", interval))

    def _refuse(self, poll: ParkedPoll, error: Exception) -> None:
        if isinstance(error, CursorExpired):
            self.totals.cursor_expired += 1
            self._answer(poll, SHAPE.error(error))
            return
        log.error("the log could not be read", device_id=poll.device_id, error=str(error))
        spread = self.options.retry_after_spread_seconds
        wait = retry_after_seconds(poll.device_id, 1, spread)
        self._answer(poll, SHAPE.error(Unavailable("the log cannot be read now", retry_after_seconds=wait)))

    def _answer(self, poll: ParkedPoll, answer: Answer) -> None:
        self._end(poll)
        try:
            poll.reply(answer)
        except Exception:
            # One that cannot be told must not cost those who are woken with it their answer.
            log.exception("a poll could not be answered", device_id=poll.device_id)

    def _end(self, poll: ParkedPoll) -> None:
        poll.over = True
        self.bell.leave(poll.device_id, poll)


def _is_newer(tail: bytes, known: bytes) -> bool:
    return parse_cursor(tail.decode()) > parse_cursor(known.decode())
