"""The poll: what a client that asks for events is handed, and when.

    known to be empty, says nothing ──▶ an empty answer, or parked                     no I/O
    had it all before, says nothing ──▶ one look at a snapshot ──▶ events
    anything else                   ──▶ one write: acknowledge, choose ──▶ events, an empty answer, or parked

Knows nothing of HTTP framing: the ASGI route and the fast lane both call `start` with a `reply` to be called once.
Must always hold: what a poll says of earlier events is durable before it is answered or parked, and is said
once; a poll is parked only if nobody has rung since its last look began; it is answered exactly once. Events
chosen for a client that hung up meanwhile come again, as when the answer was lost on the way.
"""

import asyncio
import time
from collections.abc import Callable
from functools import partial

import msgspec

from restante.core.acknowledgement import NO_VERDICTS
from restante.core.errors import NotAuthenticated, RestanteError, TooManyRequests
from restante.core.pacing import retry_after_seconds
from restante.core.token_bucket import TokenBuckets
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.errors import DatabaseError
from restante.database.hot import Failed, HotOperation
from restante.delivery.presence import Presence
from restante.events.inbox import OPEN_BANKING, Handed, InboxOptions, Wish, look, take_many
from restante.events.inbox_bell import InboxBell
from restante.events.poll_body import ReadPoll
from restante.events.totals import EventTotals
from restante.events.wire import SHAPE
from restante.web.answer import Answer, json_answer
from restante.web.refusals import refusal_in
from restante.web.routes import Shape

Reply = Callable[[Answer], None]

_encoder = msgspec.json.Encoder()


class PollOptions(msgspec.Struct, frozen=True, kw_only=True):
    inbox: InboxOptions = InboxOptions()
    events_max: int = 100
    wait_seconds: float = 30.0
    is_lenient: bool = False
    rate_per_second: float = 50.0
    burst: int = 100
    retry_after_spread_seconds: int = 5


class PollAnswer(msgspec.Struct, rename="camel"):
    """`OBEventPollingResponse1`."""

    sets: dict[str, str]
    more_available: bool


class ParkedPoll:
    """A poll under way. `over` makes sure that of time-out, news and hang-up only the first counts."""

    __slots__ = ("client", "is_looking", "over", "reply", "waits", "wish")

    def __init__(self, wish: Wish, waits: bool, reply: Reply) -> None:
        self.client = wish.client
        self.wish = wish
        self.waits = waits
        self.reply = reply
        self.is_looking = False
        self.over = False


def _wish_of(poll: ParkedPoll) -> Wish | None:
    """What is to be done for a poll, whose client may have hung up meanwhile."""
    if not poll.over:
        return poll.wish
    return poll.wish._replace(limit=0) if poll.wish.verdicts else None


def _idle(more: bool) -> Answer:
    return json_answer(_encoder.encode(PollAnswer({}, more)))


IDLE = _idle(more=False)
_IDLE_WITH_MORE = _idle(more=True)


class EventPoll:
    def __init__(
        self,
        database: Database,
        options: PollOptions,
        presence: Presence,
        totals: EventTotals,
        *,
        profile: str = OPEN_BANKING,
        shape: Shape = SHAPE,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.options = options
        self.bell: InboxBell[ParkedPoll] = InboxBell(self._look, monotonic)
        self.buckets = TokenBuckets(options.rate_per_second, options.burst)
        self.totals = totals
        self._database = database
        self._presence = presence
        self._profile = profile
        self._shape = shape
        self._monotonic = monotonic
        self._operation: HotOperation[ParkedPoll, Handed | None] = HotOperation(self._take_many)
        # Looks at snapshots that are under way; the loop itself remembers tasks but weakly.
        self._looks: set[asyncio.Task[None]] = set()
        self._is_closing = False
        self.now = time.time()

    def tick(self, now: float) -> None:
        """To be called every second, with the time since the epoch: for what needs no finer clock."""
        self.now = now

    def admit(self, client: int) -> RestanteError | None:
        """Take a token from the client's bucket and note that it polled; the error if there was none."""
        wait = self.buckets.take(client, self._monotonic())
        if wait > 0.0:
            self.totals.rate_limited += 1
            spread = self.options.retry_after_spread_seconds
            return TooManyRequests(retry_after_seconds=retry_after_seconds(client, wait, spread))
        self._presence.seen[client] = self.now
        return None

    def is_idle_at_once(self, client: int) -> bool:
        """Count and admit a poll that says nothing and does not wait, if memory alone shows that nothing is there.

        False if it does not, or if the client polls too often; then nothing has been counted.
        """
        if client not in self.bell.empty or self.buckets.take(client, self._monotonic()) > 0.0:
            return False
        self._presence.seen[client] = self.now
        self.totals.idle += 1
        return True

    def start(self, client: int, read: ReadPoll, reply: Reply) -> ParkedPoll:
        """Answer a poll: now, after a look or a write, or, if it waits, when something is there.

        The caller ends the wait of what it gets back: with `expire` when its time is over, with `abandon` when the
        client hangs up.
        """
        waits = read.waits and self.options.wait_seconds > 0
        poll = ParkedPoll(Wish(client, read.limit, read.verdicts, self._profile), waits, reply)
        if read.verdicts or client not in self.bell.empty:
            self._look(poll)
        else:
            self._nothing(poll, more=False, until=None)
        return poll

    def expire(self, poll: ParkedPoll) -> None:
        """The wait is over: a last look says what is there. One that is under way is let finish, and waits no more."""
        poll.waits = False
        if poll.over or poll.is_looking:
            return
        self.bell.leave(poll)
        if poll.client in self.bell.empty:
            self._nothing(poll, more=False, until=None)
        else:
            self._look(poll)

    def abandon(self, poll: ParkedPoll) -> None:
        """Nobody is there any more to be answered."""
        poll.over = True
        self.bell.leave(poll)

    def turn_away(self, client: int) -> None:
        """The client's access has ended: nobody waits with it any longer."""
        for poll in self.bell.waiting_for(client):
            self._end(poll, refusal_in(self._shape, NotAuthenticated("the access token was ended")))

    def close(self) -> None:
        """Answer every parked poll now, and park no more: the server is going down."""
        self._is_closing = True
        for poll in self.bell.everyone_waiting():
            self.expire(poll)

    def _look(self, poll: ParkedPoll) -> None:
        poll.is_looking = True
        looked_at = self.bell.last_ring(poll.client)
        if not poll.wish.verdicts and self.bell.is_recorded(poll.client, poll.wish.limit):
            task = asyncio.get_running_loop().create_task(self._look_at_snapshot(poll, looked_at))
            self._looks.add(task)
            task.add_done_callback(self._looks.discard)
        else:
            self._take(poll, looked_at)

    async def _look_at_snapshot(self, poll: ParkedPoll, looked_at: int) -> None:
        try:
            handed = await self._database.read(look, self.options.inbox, poll.wish)
        except (RestanteError, DatabaseError) as error:
            self._looked(poll, looked_at, Failed(error))
        else:
            if handed is None:
                self._take(poll, looked_at)
            else:
                self._looked(poll, looked_at, handed)

    def _take(self, poll: ParkedPoll, looked_at: int) -> None:
        self._database.submit_hot(self._operation, poll, partial(self._looked, poll, looked_at))

    def _take_many(self, conn: Connection, polls: list[ParkedPoll]) -> list[Handed | Failed | None]:
        """In the writer's thread. Who has gone is handed nothing; what they said counts all the same."""
        return take_many(conn, self.options.inbox, [_wish_of(poll) for poll in polls])

    def _looked(self, poll: ParkedPoll, looked_at: int, handed: Handed | Failed | None) -> None:
        poll.is_looking = False
        if isinstance(handed, Failed):
            if not poll.over:
                self._end(poll, refusal_in(self._shape, handed.error))
        elif handed is not None:
            self._count(handed)
            self._learn(poll, looked_at, handed)
            self._conclude(poll, looked_at, handed)

    def _count(self, handed: Handed) -> None:
        self.totals.acknowledged += handed.acknowledged
        self.totals.errored += handed.errored
        self.totals.delivered += len(handed.sets)

    def _learn(self, poll: ParkedPoll, looked_at: int, handed: Handed) -> None:
        if not handed.sets and not handed.more:
            self.bell.learn_empty(poll.client, looked_at)
        elif handed.sets and not self.options.inbox.redelivery_after_ms:
            self.bell.learn_recorded(poll.client, poll.wish.limit, looked_at)
        # Said once: whatever else this poll looks for, it says nothing more.
        poll.wish = poll.wish._replace(verdicts=NO_VERDICTS)

    def _conclude(self, poll: ParkedPoll, looked_at: int, handed: Handed) -> None:
        if poll.over:
            return
        if handed.sets:
            self.totals.with_events += 1
            self._end(poll, json_answer(_encoder.encode(PollAnswer(handed.sets, handed.more))))
        elif looked_at != self.bell.last_ring(poll.client) and poll.waits:
            # Rung while this look was under way: what it did not find may be there now.
            self._look(poll)
        else:
            until = None
            if handed.look_again_ms is not None:
                until = self._monotonic() + (handed.look_again_ms - handed.now_ms) / 1000
            self._nothing(poll, handed.more, until)

    def _nothing(self, poll: ParkedPoll, more: bool, until: float | None) -> None:
        if poll.waits and not self._is_closing:
            self.bell.park(poll, until)
            return
        if poll.wish.limit:
            self.totals.idle += 1
        else:
            self.totals.acknowledge_only += 1
        self._end(poll, _IDLE_WITH_MORE if more else IDLE)

    def _end(self, poll: ParkedPoll, answer: Answer) -> None:
        if not poll.over:
            poll.over = True
            self.bell.leave(poll)
            poll.reply(answer)
