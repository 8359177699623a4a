"""The poll for events: which event tokens a client gets, and when.

    inbox known to be empty, nothing to acknowledge ──▶ an idle result, or parked                            no I/O
    all events sent before, nothing to acknowledge  ──▶ one read of a snapshot ──▶ events
    anything else                                   ──▶ one write: acknowledge, choose ──▶ events, idle, or parked

Invariants:
- What a poll acknowledges is durable before the poll is answered or parked, and is applied once.
- A poll is parked only if its client was not notified since the poll's last read began.
- Events chosen for a client that has disconnected are sent again, as when the response was lost.

Does not know HTTP: the ASGI route and the fast lane both call `start` with a `reply` that is called once.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import msgspec

from restante.core.errors import InvalidToken, RestanteError
from restante.core.events.poll_acks import NO_VERDICTS
from restante.core.token_bucket import TokenBuckets
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.errors import DatabaseError
from restante.database.writer.batching import BatchOperation, Failed
from restante.delivery.long_poll import ParkedPoll, RateLimitedPoll
from restante.delivery.presence import Presence
from restante.delivery.waiter_registry import NEVER
from restante.events.counters import EventCounters
from restante.events.inbox.inbox import (
    OPEN_BANKING,
    InboxOptions,
    InboxPollRequest,
    InboxPollResult,
    poll_inboxes,
    read_inbox,
)
from restante.events.inbox.inbox_waiters import InboxWaiters
from restante.events.inbox.poll_schema import ParsedPoll


@dataclass(frozen=True, slots=True, kw_only=True)
class PollOptions:
    inbox: InboxOptions
    events_max: int
    wait_seconds: float
    is_lenient: bool
    rate_per_second: float
    burst: int
    retry_after_spread_seconds: int
    parked_max: int


class PollResponse(msgspec.Struct, frozen=True, rename="camel"):
    """`OBEventPollingResponse1`."""

    sets: dict[str, str]
    more_available: bool


PollResult = PollResponse | BaseException
Reply = Callable[[PollResult], None]

IDLE = PollResponse({}, more_available=False)
_IDLE_WITH_MORE = PollResponse({}, more_available=True)


class ClientPoll(ParkedPoll[PollResult]):
    __slots__ = ("request",)

    def __init__(self, request: InboxPollRequest, waits: bool, reply: Reply) -> None:
        super().__init__(request.client, waits, reply)
        self.request = request


def _effective_request(poll: ClientPoll) -> InboxPollRequest | None:
    """The request of a poll; of one whose client has disconnected, only its verdicts."""
    if not poll.is_over:
        return poll.request
    return poll.request._replace(limit=0) if poll.request.verdicts else None


class EventPoll(RateLimitedPoll[ClientPoll, PollResult]):
    waiters: InboxWaiters[ClientPoll]
    counters: EventCounters

    def __init__(
        self,
        database: Database,
        options: PollOptions,
        presence: Presence,
        counters: EventCounters,
        *,
        profile: str = OPEN_BANKING,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        buckets = TokenBuckets(options.rate_per_second, options.burst)
        super().__init__(presence, buckets, options.retry_after_spread_seconds, options.parked_max, monotonic)
        self.options = options
        self.counters = counters
        self.waiters = InboxWaiters(self._read, monotonic)
        self._database = database
        self._profile = profile
        self._operation: BatchOperation[ClientPoll, InboxPollResult | None] = BatchOperation(self._poll_inboxes)
        # The reads of snapshots that are under way: the event loop keeps only weak references to its tasks.
        self._snapshot_reads: set[asyncio.Task[None]] = set()

    def admit_idle(self, client: int) -> bool:
        """Count and admit a poll that acknowledges nothing and does not wait, if memory alone shows an empty inbox.

        False if memory does not show it, or if the client polls too often; then nothing has been counted.
        """
        if client not in self.waiters.empty or self.buckets.acquire(client, self._monotonic()) > 0.0:
            return False
        self.presence.seen[client] = self.now
        self.counters.idle += 1
        return True

    def start(self, client: int, parsed: ParsedPoll, reply: Reply) -> ClientPoll:
        """Answer a poll: now, after a read or a write, or, if it waits, when there are events."""
        waits = parsed.waits and self.options.wait_seconds > 0
        poll = ClientPoll(InboxPollRequest(client, parsed.limit, parsed.verdicts, self._profile), waits, reply)
        if parsed.verdicts or client not in self.waiters.empty:
            self._read(poll)
        else:
            self._park_or_finish(poll, has_more=False)
        return poll

    def refuse_parked(self, client: int) -> None:
        """The client's access has been revoked: refuse its parked polls."""
        for poll in self.waiters.waiters_of(client):
            self._finish(poll, InvalidToken("the access token was ended"))

    def _end_wait(self, poll: ClientPoll) -> None:
        """Answer with an idle result, or, if the inbox may not be empty, after a last read."""
        self.waiters.leave(poll)
        if poll.key in self.waiters.empty:
            self._park_or_finish(poll, has_more=False)
        else:
            self._read(poll)

    def _read(self, poll: ClientPoll) -> None:
        poll.is_reading = True
        notification = self.waiters.last_notified(poll.key)
        if not poll.request.verdicts and self.waiters.is_recorded(poll.key, poll.request.limit):
            task = asyncio.get_running_loop().create_task(self._read_snapshot(poll, notification))
            self._snapshot_reads.add(task)
            task.add_done_callback(self._snapshot_reads.discard)
        else:
            self._submit(poll, notification)

    async def _read_snapshot(self, poll: ClientPoll, notification: int) -> None:
        try:
            result = await self._database.read(read_inbox, self.options.inbox, poll.request)
        except (RestanteError, DatabaseError) as error:
            self._handle_result(poll, notification, Failed(error))
        else:
            if result is None:
                self._submit(poll, notification)
            else:
                self._handle_result(poll, notification, result)

    def _submit(self, poll: ClientPoll, notification: int) -> None:
        self._database.submit_batched(self._operation, poll, partial(self._handle_result, poll, notification))

    def _poll_inboxes(self, conn: Connection, polls: list[ClientPoll]) -> list[InboxPollResult | Failed | None]:
        """Runs in the writer's thread. A client that has disconnected gets no events; its verdicts are applied."""
        return poll_inboxes(conn, self.options.inbox, [_effective_request(poll) for poll in polls])

    def _handle_result(self, poll: ClientPoll, notification: int, result: InboxPollResult | Failed | None) -> None:
        poll.is_reading = False
        if isinstance(result, Failed):
            self._finish(poll, result.error)
        elif result is not None:
            self._count(result)
            self._learn(poll, notification, result)
            self._conclude(poll, notification, result)

    def _count(self, result: InboxPollResult) -> None:
        self.counters.acknowledged += result.acknowledged
        self.counters.errored += result.errored
        self.counters.delivered += len(result.sets)

    def _learn(self, poll: ClientPoll, notification: int, result: InboxPollResult) -> None:
        if not result.sets and not result.has_more:
            self.waiters.learn_empty(poll.key, notification)
        elif result.sets and not self.options.inbox.redelivery_after_ms:
            self.waiters.learn_recorded(poll.key, poll.request.limit, notification)
        # The verdicts are applied: further reads for this poll do not repeat them.
        poll.request = poll.request._replace(verdicts=NO_VERDICTS)

    def _conclude(self, poll: ClientPoll, notification: int, result: InboxPollResult) -> None:
        if poll.is_over:
            return
        if result.sets:
            self.counters.with_events += 1
            self._finish(poll, PollResponse(result.sets, result.has_more))
        elif notification != self.waiters.last_notified(poll.key) and poll.waits:
            # Notified while this read was under way: there may be events now that it did not find.
            self._read(poll)
        else:
            until = NEVER
            if result.next_visible_ms is not None:
                until = self._monotonic() + (result.next_visible_ms - result.now_ms) / 1000
            self._park_or_finish(poll, result.has_more, until)

    def _park_or_finish(self, poll: ClientPoll, has_more: bool, until: float = NEVER) -> None:
        if self._park(poll, until):
            return
        if poll.request.limit:
            self.counters.idle += 1
        else:
            self.counters.acknowledge_only += 1
        self._finish(poll, _IDLE_WITH_MORE if has_more else IDLE)
