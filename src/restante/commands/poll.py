"""The poll: what a collector that asks for commands is handed, and when.

    known to be quiet ──▶ an empty answer, or parked for up to `wait` seconds      no I/O
    anything else     ──▶ one claim ──▶ commands, an empty answer, or parked
                      └─▶ or none, where copies of the windows show that it would find them full

Knows nothing of HTTP framing: the ASGI route and the fast lane both call `start` with a `reply` to be called once.
Must always hold: a poll is parked only if nobody has rung since its last look began, so whatever comes later wakes
somebody; one that was woken and finds nothing waits on; and it is answered exactly once. A command claimed for a poll
whose client hung up meanwhile is offered again when its lease runs out, as one whose answer was lost on the way.
"""

import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from functools import partial

import msgspec

from restante.commands.audit import AuditTrail
from restante.commands.claims import Claim, Claimed, ClaimOptions, claiming
from restante.commands.collectors import SecretBox
from restante.commands.polled import PollAnswer, poll_answer
from restante.commands.refusals import refusal_answer
from restante.commands.site_bell import Quiet, SiteBell
from restante.commands.totals import CommandTotals
from restante.commands.window_gate import WindowGate
from restante.commands.wire import iso
from restante.database.database import Database
from restante.database.hot import Failed, HotCall
from restante.delivery.presence import Presence
from restante.identity.callers import CollectorCaller
from restante.web.answer import Answer, json_answer

LIMIT_DEFAULT = 10
LIMIT_MAX = 50
WAIT_MAX_SECONDS = 30
NEVER = float("inf")
NEWS_SECONDS = 1.0

Reply = Callable[[Answer], None]

_encoder = msgspec.json.Encoder()


class _AtTheGate:
    """A claim that may not have to be made."""

    def cancel(self) -> None:
        """Nothing was begun: who has gone is left out when the gate answers."""


AT_THE_GATE = _AtTheGate()


class ParkedClaim:
    """A poll under way. `over` makes sure that of time-out, news and hang-up only the first counts. `claiming` is its
    claim while that is under way."""

    __slots__ = ("claim", "claiming", "looked_at", "over", "reply", "site_id", "waits")

    def __init__(self, wanted: Claim, waits: bool, reply: Reply) -> None:
        self.claim = wanted
        self.site_id = wanted.caller.site_id
        self.waits = waits
        self.reply = reply
        self.looked_at = -1
        self.claiming: HotCall[Claim, Claimed] | _AtTheGate | None = None
        self.over = False


class CommandPoll:
    def __init__(
        self,
        database: Database,
        trail: AuditTrail,
        box: SecretBox,
        options: ClaimOptions,
        presence: Presence,
        totals: CommandTotals,
        gate: WindowGate | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.bell: SiteBell[ParkedClaim] = SiteBell(self._claim, monotonic)
        self._database = database
        self._claims = claiming(trail, options)
        self._box = box
        self._options = options
        self._presence = presence
        self._totals = totals
        self._gate = gate
        self._monotonic = monotonic
        self._is_closing = False
        # How many claims of a site are under way, and whether the last one to return left something behind.
        self._claiming: dict[int, int] = {}
        self._left_behind: set[int] = set()
        # Told of a site when nothing was left there by a claim that began after the ring, and in how many seconds there
        # may be something again; or when something may be left, and nobody waits here who could take it.
        self.on_served: Callable[[int, int, float | None], None] = lambda _site_id, _looked_at, _again_seconds: None
        self.on_left_behind: Callable[[int], None] = lambda _site_id: None
        self._idle: dict[int, Answer] = {}
        # Body → the date line it was written with, and all of it.
        self._idle_bytes: dict[bytes, tuple[bytes, bytes]] = {}
        self.idle_count = 0
        self.now = 0.0
        self.tick(time.time())

    def tick(self, now: float) -> None:
        """To be called every second, with the time since the epoch: for what needs no finer clock."""
        self.now = now
        self._idle.clear()
        self._idle_bytes.clear()

    def idle_at_once(self, caller: CollectorCaller, zone_id: int | None) -> Answer | None:
        """The answer for a poll that does not wait, if memory alone shows that there is nothing to hand out."""
        self._presence.seen[caller.device_id] = self.now
        quiet = self._quiet(caller, zone_id)
        return None if quiet is None else self._idle_answer(quiet.held_back)

    def idle_bytes(self, answer: Answer, date_line: bytes) -> bytes:
        """All bytes of an idle answer; the same for everybody within a second."""
        known = self._idle_bytes.get(answer.body)
        if known is None or known[0] is not date_line:
            lines = b"".join(b"%b: %b\r\n" % header for header in answer.headers)
            length = b"content-length: %d\r\n\r\n" % len(answer.body)
            known = (date_line, b"".join((b"HTTP/1.1 200 OK\r\n", date_line, lines, length, answer.body)))
            self._idle_bytes[answer.body] = known
        return known[1]

    def start(self, wanted: Claim, waits: bool, reply: Reply) -> ParkedClaim:
        """Answer a poll: now, after a claim, or, if it `waits`, when something can be handed out.

        The caller ends the wait of what it gets back: with `expire` when its time is over, with `abandon` when the
        client hangs up.
        """
        poll = ParkedClaim(wanted, waits, reply)
        self._presence.seen[wanted.caller.device_id] = self.now
        quiet = self._quiet(wanted.caller, wanted.zone_id)
        if quiet is None:
            self._claim(poll)
        else:
            poll.looked_at = self.bell.last_ring(poll.site_id)
            self._nothing(poll, quiet)
        return poll

    def expire(self, poll: ParkedClaim) -> None:
        """The wait is over. A claim that is under way is let finish, and waits no more."""
        poll.waits = False
        if not poll.over and poll.claiming is None:
            quiet = self._quiet(poll.claim.caller, poll.claim.zone_id)
            self._end(poll, self._idle_answer(quiet.held_back if quiet else 0))

    def abandon(self, poll: ParkedClaim) -> None:
        """Nobody is there any more to be answered: nothing is claimed for who has gone."""
        poll.over = True
        if poll.claiming is not None:
            poll.claiming.cancel()
        self.bell.leave(poll)

    def close(self) -> None:
        """Answer every parked poll now, and park no more: the server is going down."""
        self._is_closing = True
        for poll in self.bell.everyone_waiting():
            self.expire(poll)

    def _quiet(self, caller: CollectorCaller, zone_id: int | None) -> Quiet | None:
        """What is known; not to a collector of one zone that asks for another, which the claim will refuse."""
        if zone_id is None:
            return self.bell.quiet(caller.site_id, caller.zone_id)
        return self.bell.quiet(caller.site_id, zone_id) if caller.zone_id in (None, zone_id) else None

    def _claim(self, poll: ParkedClaim) -> None:
        self._claiming[poll.site_id] = self._claiming.get(poll.site_id, 0) + 1
        poll.looked_at = self.bell.last_ring(poll.site_id)
        if self._may_be_turned_away(poll):
            poll.claiming = AT_THE_GATE
        else:
            self._submit(poll, poll.looked_at)

    def _may_be_turned_away(self, poll: ParkedClaim) -> bool:
        """Whether the gate is asked first; not where there is news, which nobody may have looked at yet."""
        if self._gate is None or self.bell.was_rung_within(poll.site_id, NEWS_SECONDS):
            return False
        return self._gate.ask(poll.claim, partial(self._at_the_gate, poll, poll.looked_at))

    def _at_the_gate(self, poll: ParkedClaim, looked_at: int, found: Claimed | None) -> None:
        if poll.over:
            self._claimed(poll, looked_at, Failed(CancelledError()))
        elif found is not None:
            self._claimed(poll, looked_at, found)
        else:
            self._submit(poll, looked_at)

    def _submit(self, poll: ParkedClaim, looked_at: int) -> None:
        then = partial(self._claimed, poll, looked_at)
        poll.claiming = self._database.submit_hot(self._claims, poll.claim, then)

    def _claimed(self, poll: ParkedClaim, looked_at: int, outcome: Claimed | Failed) -> None:
        poll.claiming = None
        found = None if isinstance(outcome, Failed) else outcome
        try:
            if isinstance(outcome, Failed):
                if not poll.over:
                    self._end(poll, refusal_answer(outcome.error))
            else:
                self._conclude(poll, looked_at, outcome)
        finally:
            self._pass_on(poll, looked_at, found)

    def _conclude(self, poll: ParkedClaim, looked_at: int, found: Claimed) -> None:
        if self._gate is not None:
            self._gate.tell(poll.claim, found)
        quiet = self._learn(poll, looked_at, found)
        if found.commands:
            self._give(poll, found)
        elif looked_at != self.bell.last_ring(poll.site_id) and poll.waits and not poll.over:
            # Rung while this claim was under way: what it did not find may be there now.
            self._claim(poll)
        else:
            self._nothing(poll, quiet)

    def _pass_on(self, poll: ParkedClaim, looked_at: int, found: Claimed | None) -> None:
        """Wake the next waiter, if there is something left for it and nobody is on the way to take that."""
        site_id = poll.site_id
        if found is None or found.has_more or _zone(poll.claim) is not None:
            # Who has looked at one zone only, or not at all, does not know about the rest.
            self._left_behind.add(site_id)
        else:
            self._left_behind.discard(site_id)
        self._claiming[site_id] -= 1
        if self._claiming[site_id] == 0:
            del self._claiming[site_id]
            if site_id not in self._left_behind:
                self.on_served(site_id, looked_at, None if found is None else found.again_seconds)
            else:
                self._left_behind.discard(site_id)
                if not self.bell.wake_next(site_id):
                    self.on_left_behind(site_id)

    def _learn(self, poll: ParkedClaim, looked_at: int, found: Claimed) -> Quiet:
        until = NEVER
        if found.has_more:
            until = 0.0
        elif found.again_seconds is not None:
            until = self._monotonic() + found.again_seconds
        quiet = Quiet(until, found.held_back)
        if not found.has_more:
            self.bell.learn(poll.site_id, _zone(poll.claim), quiet, looked_at)
        return quiet

    def _give(self, poll: ParkedClaim, found: Claimed) -> None:
        for row in found.commands:
            waited_ms = row.waited_ms
            waited_seconds = None if waited_ms is None else waited_ms / 1000
            self._totals.count_dispatched(poll.site_id, row.command_type, waited_seconds)
        if not poll.over:
            answer = poll_answer(found, self._box, self._options.lease_seconds)
            self._end(poll, json_answer(_encoder.encode(answer)))

    def _nothing(self, poll: ParkedClaim, quiet: Quiet) -> None:
        if poll.over:
            return
        if poll.waits and not self._is_closing:
            self.bell.park(poll, quiet.until)
        else:
            self._end(poll, self._idle_answer(quiet.held_back))

    def _end(self, poll: ParkedClaim, answer: Answer) -> None:
        if not poll.over:
            poll.over = True
            self.bell.leave(poll)
            poll.reply(answer)

    def _idle_answer(self, held_back: int) -> Answer:
        self.idle_count += 1
        answer = self._idle.get(held_back)
        if answer is None:
            empty = PollAnswer([], 0, 0, held_back, iso(int(self.now * 1000)))
            answer = self._idle[held_back] = json_answer(_encoder.encode(empty))
        return answer


def _zone(wanted: Claim) -> int | None:
    """The zone a claim looks in: what is known is known of that."""
    return wanted.caller.zone_id if wanted.zone_id is None else wanted.zone_id
