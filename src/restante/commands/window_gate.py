"""Before a claim: whether copies of the rate windows show that it would find everything held back.

    what was found to be held back there ─▶ seen every change since? ─▶ all those windows full? ─▶ no claim
                          └─ anything else, nobody answers: the claim, which counts in its transaction and decides

A site with a backlog is looked at by the first node that comes when a window frees; what that node finds, the others
are told by the copies. A claim that was made tells the copies what it handed out and what it found.

Must always hold: the gate hands out nothing and lets nobody have more; and it turns a claim away only where one of the
database's at this moment would find the same.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

import structlog

from restante.commands.claims import Claim, Claimed
from restante.commands.rate_windows import RateRules
from restante.commands.site_changes import SiteChanges
from restante.delivery.window_copies import Filling, HandOut, Held, Queue, Window, WindowCopies

log = structlog.get_logger()

# Copies save time or are of no use.
PATIENCE_SECONDS = 0.1


class _Asked(NamedTuple):
    queue: Queue
    then: Callable[[Claimed | None], None]


class WindowGate:
    def __init__(
        self, copies: WindowCopies, changes: SiteChanges, rates: RateRules, clock: Callable[[], float]
    ) -> None:
        self._copies = copies
        self._changes = changes
        self._rates = rates
        self._clock = clock
        self._waiting: list[_Asked] = []
        self._task: asyncio.Task[None] | None = None
        # An answer that took too long. Until it has come, or failed, nobody else is made to wait for one.
        self._late: asyncio.Task[list[Claimed | None]] | None = None

    def ask(self, wanted: Claim, then: Callable[[Claimed | None], None]) -> bool:
        """Have `then` told, later, what the claim would find, or None if it must be made. False if it is not worth
        asking: then nothing is told."""
        if not self._changes.are_known or not self._copies.is_up or self._late is not None or not _is_own(wanted):
            return False
        self._waiting.append(_Asked(_queue_of(wanted), then))
        if self._task is None:
            self._task = asyncio.ensure_future(self._answer_waiting())
        return True

    def tell(self, wanted: Claim, found: Claimed) -> None:
        """Have the copies told what a claim has found; after its commit."""
        queue, held = _queue_of(wanted), None
        if found.held_kinds and found.horizon and found.look_again_ms is not None and not found.has_more:
            held = Held(found.horizon, found.look_again_ms, found.held_back, found.held_kinds)
        handed_out = [
            HandOut(self._window(queue, each.command_type), found.now_ms, f"{each.command_id}:{each.attempt}")
            for each in found.commands
        ]
        if handed_out or held is not None:
            self._copies.keep(handed_out, queue, held, found.now_ms)

    async def _answer_waiting(self) -> None:
        try:
            while self._waiting:
                asked, self._waiting = self._waiting, []
                for each, answer in zip(asked, await self._answers(asked), strict=True):
                    _tell(each, answer)
        finally:
            self._task = None

    async def _answers(self, asked: list[_Asked]) -> list[Claimed | None]:
        totals, queues = self._copies.totals, [each.queue for each in asked]
        # Not cancelled when it takes too long: whoever is cancelled takes the connection down.
        deciding = asyncio.ensure_future(self._decide(queues))
        await asyncio.wait([deciding], timeout=PATIENCE_SECONDS)
        if not deciding.done():
            self._late = deciding
            deciding.add_done_callback(self._has_come)
        if not deciding.done() or deciding.exception() is not None:
            totals.fallbacks += len(queues)
            return [None] * len(queues)
        found = deciding.result()
        totals.refused += sum(each is not None for each in found)
        totals.passed += sum(each is None for each in found)
        return found

    def _has_come(self, _late: asyncio.Task[list[Claimed | None]]) -> None:
        self._late = None

    async def _decide(self, queues: list[Queue]) -> list[Claimed | None]:
        """What each claim would find; None where it must be made to know that."""
        now_ms = int(self._clock() * 1000)
        different = list(dict.fromkeys(queues))
        known = {
            queue: held
            for queue, held in zip(different, await self._copies.held_at(different), strict=True)
            if held is not None and held.look_again_ms > now_ms
        }
        windows = list({self._window(queue, kind): None for queue, held in known.items() for kind in held.kinds})
        fillings = dict(zip(windows, await self._copies.fillings(windows, now_ms), strict=True)) if windows else {}
        found = {queue: self._turned_away(queue, held, fillings, now_ms) for queue, held in known.items()}
        return [found.get(queue) for queue in queues]

    def _turned_away(
        self, queue: Queue, held: Held, fillings: dict[Window, Filling | None], now_ms: int
    ) -> Claimed | None:
        """What the claim would find, if all is full that was held back, and nothing has changed since."""
        look_again_ms = held.look_again_ms
        for kind in held.kinds:
            window = self._window(queue, kind)
            filling = fillings[window]
            if filling is None or filling.used < self._rates.of(kind).limit:
                return None
            look_again_ms = min(look_again_ms, filling.oldest_at_ms + window.window_ms)
        # Asked last, so that what was heard while the copies answered counts, too.
        if look_again_ms <= now_ms or not self._changes.were_seen(queue.site_id, held.horizon):
            return None
        return Claimed([], held.count, False, look_again_ms, now_ms)

    def _window(self, queue: Queue, kind: str) -> Window:
        return Window(queue.site_id, kind, self._rates.of(kind).window_seconds * 1000)


def _is_own(wanted: Claim) -> bool:
    """Not if a collector of one zone asks for another, which the claim refuses."""
    return wanted.zone_id is None or wanted.caller.zone_id in (None, wanted.zone_id)


def _queue_of(wanted: Claim) -> Queue:
    return Queue(wanted.caller.site_id, wanted.caller.zone_id if wanted.zone_id is None else wanted.zone_id)


def _tell(asked: _Asked, answer: Claimed | None) -> None:
    try:
        asked.then(answer)
    except Exception:
        # One that cannot be told must not cost the others their answer.
        log.exception("a poll could not be told what the windows say")
