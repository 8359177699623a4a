"""The poll for edge commands: which commands a collector gets, and when.

    site known to be empty ──▶ an idle result, or parked for up to `wait` seconds      no I/O
    anything else          ──▶ one claim ──▶ commands, an idle result, or parked
                           └─▶ no claim, where copies of the rate limits show that it would find them all reached

Invariants:
- A poll is parked only if the site was not notified since the poll's last claim began, so every later change wakes a
  waiter. A poll that was woken and finds nothing is parked again.
- A command claimed for a poll whose client has disconnected is offered again when its lease ends, like one whose
  response was lost.

Does not know HTTP: the ASGI route and the fast lane both call `start` with a `reply` that is called once.
"""

import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from functools import partial

from restante.commands.audit.audit_trail import AuditTrail
from restante.commands.counters import CommandCounters
from restante.commands.dispatch.claims import ClaimOptions, ClaimRequest, ClaimResult, claim_operation
from restante.commands.dispatch.poll_response import CommandPollResponse, build_poll_response
from restante.commands.polling.queue_versions import QueueVersions
from restante.commands.polling.rate_limit_cache import RateLimitCache
from restante.commands.polling.site_waiters import EmptyUntil
from restante.commands.polling.wake_coordinator import WakeCoordinator
from restante.commands.sites.collectors import SecretBox
from restante.core.iso_time import iso_whole_seconds
from restante.database.database import Database
from restante.database.writer.batching import BatchCall, Failed
from restante.delivery.long_poll import LongPoll, ParkedPoll
from restante.delivery.presence import Presence
from restante.delivery.waiter_registry import NEVER
from restante.identity.callers import CollectorCaller

LIMIT_DEFAULT = 10
LIMIT_MAX = 50
WAIT_MAX_SECONDS = 30
# A site that was notified so recently may have commands that no claim has seen.
RECENT_SECONDS = 1.0

PollResult = CommandPollResponse | BaseException
Reply = Callable[[PollResult], None]


class CollectorPoll(ParkedPoll[PollResult]):
    """`call`: its claim, while that is in the writer's queue or runs. `notification`: the site's last one when its last
    claim began."""

    __slots__ = ("call", "notification", "request")

    def __init__(self, request: ClaimRequest, waits: bool, reply: Reply) -> None:
        super().__init__(request.caller.site_id, waits, reply)
        self.request = request
        self.notification = -1
        self.call: BatchCall[ClaimRequest, ClaimResult] | None = None

    @property
    def caller(self) -> int:
        return self.request.caller.device_id


class CommandPoll(LongPoll[CollectorPoll, PollResult]):
    waiters: WakeCoordinator[CollectorPoll]

    def __init__(
        self,
        database: Database,
        trail: AuditTrail,
        box: SecretBox,
        options: ClaimOptions,
        presence: Presence,
        counters: CommandCounters,
        versions: QueueVersions,
        rate_limits: RateLimitCache | None = None,
        *,
        parked_max: int,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(parked_max)
        self.waiters = WakeCoordinator(self._claim, versions, monotonic)
        self.idle_count = 0
        self.claim_count = 0
        self._database = database
        self._claims = claim_operation(trail, options)
        self._box = box
        self._options = options
        self.presence = presence
        self._counters = counters
        self._versions = versions
        self._rate_limits = rate_limits
        self._monotonic = monotonic
        # How many claims are under way for each site, and the sites where the last one that returned left commands.
        self._claiming: dict[int, int] = {}
        self._left_behind: set[int] = set()
        # By the number of rate-limited commands; valid until the next tick.
        self._idle: dict[int, CommandPollResponse] = {}

    def tick(self, now: float) -> None:
        super().tick(now)
        self._idle.clear()
        self.waiters.tick()

    def forget_all(self) -> None:
        """Drop everything remembered, also of the commits of other nodes. Parked polls stay parked."""
        super().forget_all()
        self._versions.forget_all()

    def close(self) -> None:
        super().close()
        self.waiters.close()

    def idle_result(self, caller: CollectorCaller, zone_id: int | None) -> CommandPollResponse | None:
        """Count and answer a poll that does not wait, if memory alone shows that no command can be dispatched."""
        self.presence.seen[caller.device_id] = self.now
        empty = self._empty_until(caller, zone_id)
        return None if empty is None else self._idle_response(empty.rate_limited_count)

    def start(self, request: ClaimRequest, waits: bool, reply: Reply) -> CollectorPoll:
        """Answer a poll: now, after a claim, or, if it `waits`, when a command can be dispatched."""
        poll = CollectorPoll(request, waits, reply)
        self.presence.seen[request.caller.device_id] = self.now
        empty = self._empty_until(request.caller, request.zone_id)
        if empty is None:
            self._claim(poll)
        else:
            poll.notification = self.waiters.last_notified(poll.key)
            self._park_or_finish(poll, empty)
        return poll

    def disconnect(self, poll: CollectorPoll) -> None:
        """The client has disconnected: do not answer the poll, and do not run its claim if that can be avoided."""
        super().disconnect(poll)
        if poll.call is not None:
            poll.call.cancel()

    def _empty_until(self, caller: CollectorCaller, zone_id: int | None) -> EmptyUntil | None:
        """What is known; nothing for a collector of one zone that names another zone, which the claim refuses."""
        if zone_id is None:
            return self.waiters.empty_until(caller.site_id, caller.zone_id)
        return self.waiters.empty_until(caller.site_id, zone_id) if caller.zone_id in (None, zone_id) else None

    def _claim(self, poll: CollectorPoll) -> None:
        self._claiming[poll.key] = self._claiming.get(poll.key, 0) + 1
        poll.notification = self.waiters.last_notified(poll.key)
        poll.is_reading = True
        if not self._check_rate_limits(poll):
            self._submit(poll, poll.notification)

    def _check_rate_limits(self, poll: CollectorPoll) -> bool:
        """Whether the copies of the rate limits are read before the claim; not after a recent notification, which no
        claim may have followed yet."""
        if self._rate_limits is None or self.waiters.was_notified_within(poll.key, RECENT_SECONDS):
            return False
        return self._rate_limits.check(poll.request, partial(self._rate_limits_checked, poll, poll.notification))

    def _rate_limits_checked(self, poll: CollectorPoll, notification: int, found: ClaimResult | None) -> None:
        if poll.is_over:
            self._claimed(poll, notification, Failed(CancelledError()))
        elif found is not None:
            self._claimed(poll, notification, found)
        else:
            self._submit(poll, notification)

    def _submit(self, poll: CollectorPoll, notification: int) -> None:
        self.claim_count += 1
        then = partial(self._claimed, poll, notification)
        poll.call = self._database.submit_batched(self._claims, poll.request, then)

    def _claimed(self, poll: CollectorPoll, notification: int, outcome: ClaimResult | Failed) -> None:
        poll.call = None
        poll.is_reading = False
        found = None if isinstance(outcome, Failed) else outcome
        try:
            if isinstance(outcome, Failed):
                self._finish(poll, outcome.error)
            else:
                self._conclude(poll, notification, outcome)
        finally:
            self._wake_next(poll, notification, found)

    def _conclude(self, poll: CollectorPoll, notification: int, found: ClaimResult) -> None:
        if self._rate_limits is not None:
            self._rate_limits.record(poll.request, found)
        empty = self._learn(poll, notification, found)
        if found.commands:
            self._dispatch(poll, found)
        elif self._must_claim_again(poll, notification, found):
            self._claim(poll)
        else:
            self._park_or_finish(poll, empty)

    def _must_claim_again(self, poll: CollectorPoll, notification: int, found: ClaimResult) -> bool:
        """Whether there may be commands that the claim did not find: it has only passed over others, or the site was
        notified while it was under way."""
        if poll.is_over:
            return False
        return found.has_more or (poll.waits and notification != self.waiters.last_notified(poll.key))

    def _wake_next(self, poll: CollectorPoll, notification: int, found: ClaimResult | None) -> None:
        """Wake the next waiter, if commands may be left and no other claim of the site is under way."""
        site_id = poll.key
        if found is None or found.has_more or _zone(poll.request) is not None:
            # A claim of one zone only, or a failed one, does not know about the rest of the site.
            self._left_behind.add(site_id)
        else:
            self._left_behind.discard(site_id)
        self._claiming[site_id] -= 1
        if self._claiming[site_id]:
            return
        del self._claiming[site_id]
        if site_id not in self._left_behind:
            self.waiters.mark_served(site_id, notification, None if found is None else found.seconds_until_due)
        else:
            self._left_behind.discard(site_id)
            if not self.waiters.wake(site_id):
                self.waiters.pass_on(site_id)

    def _learn(self, poll: CollectorPoll, notification: int, found: ClaimResult) -> EmptyUntil:
        until = NEVER
        if found.has_more:
            until = 0.0
        elif found.seconds_until_due is not None:
            until = self._monotonic() + found.seconds_until_due
        empty = EmptyUntil(until, found.rate_limited_count)
        if not found.has_more:
            self.waiters.learn(poll.key, _zone(poll.request), empty, notification)
        return empty

    def _dispatch(self, poll: CollectorPoll, found: ClaimResult) -> None:
        for row in found.commands:
            waited_ms = row.waited_ms
            waited_seconds = None if waited_ms is None else waited_ms / 1000
            self._counters.count_dispatched(poll.key, row.command_type, waited_seconds)
        if not poll.is_over:
            self._finish(poll, build_poll_response(found, self._box, self._options.lease_seconds))

    def _park_or_finish(self, poll: CollectorPoll, empty: EmptyUntil) -> None:
        if not poll.is_over and not self._park(poll, empty.until):
            self._finish(poll, self._idle_response(empty.rate_limited_count))

    def _end_wait(self, poll: CollectorPoll) -> None:
        empty = self._empty_until(poll.request.caller, poll.request.zone_id)
        self._finish(poll, self._idle_response(empty.rate_limited_count if empty else 0))

    def _idle_response(self, rate_limited_count: int) -> CommandPollResponse:
        self.idle_count += 1
        result = self._idle.get(rate_limited_count)
        if result is None:
            result = CommandPollResponse([], 0, 0, rate_limited_count, iso_whole_seconds(int(self.now * 1000)))
            self._idle[rate_limited_count] = result
        return result


def _zone(request: ClaimRequest) -> int | None:
    """The zone that a claim looks in, None for the whole site."""
    return request.caller.zone_id if request.zone_id is None else request.zone_id
