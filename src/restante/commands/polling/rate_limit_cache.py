"""Before a claim: decides whether the mirror of the rate limits shows that the claim would find nothing.

    last result recorded for the queue ─▶ saw every change since? ─▶ are all its rate limits still reached? ─▶ no claim
                      └─ otherwise, or if the mirror does not respond ─▶ the claim, which decides in its transaction

When a rate limit frees a place at a site with a backlog, the first node that polls runs the claim. The mirror shows the
other nodes what that claim found. After each claim, `record` mirrors what it dispatched and what it found.

Invariants: this module dispatches nothing and lets no site exceed a limit. It skips a claim only if a claim in the
database would find the same at this moment.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import structlog

from restante.commands.dispatch.claims import ClaimRequest, ClaimResult
from restante.commands.dispatch.rate_limits import RateRules
from restante.commands.polling.queue_versions import QueueVersions
from restante.delivery.redis.rate_limit_mirror import (
    DispatchRecord,
    MirroredLimit,
    QueueSnapshot,
    RateLimitMirror,
    SiteQueue,
    WindowUsage,
)

log = structlog.get_logger()

# The mirror is worth reading only if it saves time.
TIMEOUT_SECONDS = 0.1


class _Check(NamedTuple):
    """A claim that may not have to be run, and the callback for its result."""

    queue: SiteQueue
    then: Callable[[ClaimResult | None], None]


class RateLimitCache:
    def __init__(
        self, mirror: RateLimitMirror, versions: QueueVersions, rates: RateRules, clock: Callable[[], float]
    ) -> None:
        self._mirror = mirror
        self._versions = versions
        self._rates = rates
        self._clock = clock
        self._waiting: list[_Check] = []
        self._task: asyncio.Task[None] | None = None
        # A read of the mirror that timed out. Until it ends, no other claim waits for the mirror.
        self._late: asyncio.Task[list[ClaimResult | None]] | None = None

    def check(self, request: ClaimRequest, then: Callable[[ClaimResult | None], None]) -> bool:
        """Call `then` later with what the claim would find, or with None if the claim must be run.

        False if the mirror is not worth reading; then `then` is not called.
        """
        if not self._versions.are_known or not self._mirror.is_up or self._late is not None or not _is_own(request):
            return False
        self._waiting.append(_Check(_queue_of(request), then))
        if self._task is None:
            self._task = asyncio.ensure_future(self._check_waiting())
        return True

    def record(self, request: ClaimRequest, result: ClaimResult) -> None:
        """Mirror what a claim has found. To be called after its commit."""
        queue, held = _queue_of(request), None
        if result.rate_limited_types and result.horizon and result.next_due_ms is not None and not result.has_more:
            held = QueueSnapshot(
                result.horizon, result.next_due_ms, result.rate_limited_count, result.rate_limited_types
            )
        dispatched = [
            DispatchRecord(self._limit(queue, each.command_type), result.now_ms, f"{each.command_id}:{each.attempt}")
            for each in result.commands
        ]
        if dispatched or held is not None:
            self._mirror.record(dispatched, queue, held, result.now_ms)

    async def _check_waiting(self) -> None:
        try:
            while self._waiting:
                checks, self._waiting = self._waiting, []
                for check, result in zip(checks, await self._results(checks), strict=True):
                    _call_back(check, result)
        finally:
            self._task = None

    async def _results(self, checks: list[_Check]) -> list[ClaimResult | None]:
        counters, queues = self._mirror.counters, [check.queue for check in checks]
        # Not cancelled on a time-out: cancelling would close the connection.
        reading = asyncio.ensure_future(self._read(queues))
        await asyncio.wait([reading], timeout=TIMEOUT_SECONDS)
        if not reading.done():
            self._late = reading
            reading.add_done_callback(self._late_read_ended)
        if not reading.done() or reading.exception() is not None:
            counters.fallbacks += len(queues)
            return [None] * len(queues)
        results = reading.result()
        counters.refused += sum(result is not None for result in results)
        counters.passed += sum(result is None for result in results)
        return results

    def _late_read_ended(self, _task: asyncio.Task[list[ClaimResult | None]]) -> None:
        self._late = None

    async def _read(self, queues: list[SiteQueue]) -> list[ClaimResult | None]:
        """What each claim would find; None where only the claim can decide."""
        now_ms = int(self._clock() * 1000)
        distinct = list(dict.fromkeys(queues))
        known = {
            queue: held
            for queue, held in zip(distinct, await self._mirror.read_snapshots(distinct), strict=True)
            if held is not None and held.next_due_ms > now_ms
        }
        limits = list({self._limit(queue, kind): None for queue, held in known.items() for kind in held.kinds})
        fillings = dict(zip(limits, await self._mirror.read_usage(limits, now_ms), strict=True)) if limits else {}
        results = {queue: self._result(queue, held, fillings, now_ms) for queue, held in known.items()}
        return [results.get(queue) for queue in queues]

    def _result(
        self, queue: SiteQueue, held: QueueSnapshot, fillings: dict[MirroredLimit, WindowUsage | None], now_ms: int
    ) -> ClaimResult | None:
        """What the claim would find, if every limit is still reached and the queue has not changed since."""
        next_due_ms = held.next_due_ms
        for kind in held.kinds:
            limit = self._limit(queue, kind)
            filling = fillings[limit]
            if filling is None or filling.used < self._rates.of(kind).limit:
                return None
            next_due_ms = min(next_due_ms, filling.oldest_at_ms + limit.window_ms)
        # Checked last, so that changes received while the mirror was read count, too.
        if next_due_ms <= now_ms or not self._versions.were_seen(queue.site_id, held.horizon):
            return None
        return ClaimResult([], held.count, False, next_due_ms, now_ms)

    def _limit(self, queue: SiteQueue, kind: str) -> MirroredLimit:
        return MirroredLimit(queue.site_id, kind, self._rates.of(kind).window_seconds * 1000)


def _is_own(request: ClaimRequest) -> bool:
    """False if a collector of one zone names another zone, which the claim refuses."""
    return request.zone_id is None or request.caller.zone_id in (None, request.zone_id)


def _queue_of(request: ClaimRequest) -> SiteQueue:
    return SiteQueue(request.caller.site_id, request.caller.zone_id if request.zone_id is None else request.zone_id)


def _call_back(check: _Check, result: ClaimResult | None) -> None:
    try:
        check.then(result)
    except Exception:
        # The other claims of the batch still get their results.
        log.exception("callback of a rate limit check failed")
