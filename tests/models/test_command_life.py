"""The life of commands against a plain model: leases, retries, expiry, dedupe, approval, limits, several collectors.

The machine does to a real database what operators, collectors and time do, in any order; the model does the same to
plain objects by the rules of the contract, written down once more. They must never differ, and at most one collector
holds a command in any attempt.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from restante.commands import approval, audit, cancelling, claims
from restante.commands.ack_body import ExtendBody
from restante.commands.acks import Said, Taken, acknowledge_all
from restante.commands.approval import ApprovalRules
from restante.commands.audit_verify import LiveVerification
from restante.commands.claims import Claim, Claimed, ClaimOptions, claim_all
from restante.commands.extending import Extended, extend
from restante.commands.leases import settle
from restante.commands.parts import CommandsOptions
from restante.commands.rate_windows import RateLimit, RateRules
from restante.commands.wire import error_code
from restante.core.errors import RestanteError
from restante.database.database import Database
from restante.database.hot import HotOperation
from tests.commands.field import Field, Hired, read
from tests.commands.hints import misled
from tests.conftest import ManualClock
from tests.databases import FreshDatabases
from tests.models.machines import Machine, try_machine

T = TypeVar("T")

LEASE_MS = 60_000
BACKOFF_MS = 30_000
LIMIT, WINDOW_MS = 3, 100_000
RETRIES = 2
AGEING_SECONDS = 10
NEEDS_APPROVAL = "DEVICE_REBOOT"
ACTIVE = ("pending", "dispatched", "running")
LEASED = ("dispatched", "running")
OPEN = ("pending_approval", *ACTIVE)


# Type, priority, time to live, dedupe key.
wishes = st.tuples(
    st.sampled_from(["MINER_RESTART", "MINER_RESTART", "HASHING_ENABLE", NEEDS_APPROVAL]),
    st.integers(0, 3),
    st.sampled_from([45, 200, 1000, 1000]),
    st.sampled_from([None, None, None, "a", "b"]),
)


@dataclass
class Modelled:
    """A command as the contract describes it."""

    id: str
    type: str
    key: str | None
    rank: int
    number: int
    expires_at: int
    state: str
    ready_at: int = 0
    owner: int | None = None
    lease_until: int = 0
    attempt: int = 0
    nonce: str = ""
    retries: int = 0
    last_ack: tuple[int, str, str] | None = None
    holders: dict[int, int] = field(default_factory=dict)


class Given:
    """What a collector was handed once; it may acknowledge it whenever it likes."""

    def __init__(self, command: Modelled, holder: Hired) -> None:
        self.command, self.holder = command, holder
        self.attempt, self.nonce = command.attempt, command.nonce


class CommandLife(Machine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.database = Database(self.fresh.new(self.clock))
        options = CommandsOptions(
            rates=RateRules({}, RateLimit(LIMIT, WINDOW_MS // 1000)),
            max_retries=RETRIES,
            priority_ageing_seconds=AGEING_SECONDS,
            approval=ApprovalRules(frozenset([NEEDS_APPROVAL])),
        )
        self.field = Field(self.database, options)
        trail, claiming, acking = self.field.trail, ClaimOptions(60, options.rates), self.field.ack_options()
        # As the server does it: with whoever else comes at the same moment, by whichever writer is free.
        self.claims = HotOperation[Claim, Claimed](lambda conn, asked: claim_all(conn, trail, claiming, asked))
        self.acks = HotOperation[Said, Taken | RestanteError](
            lambda conn, said: acknowledge_all(conn, trail, acking, said)
        )
        self.site = self.field.add_site()
        self.miner = self.field.add_miner(self.site)
        self.collectors = [self.field.hire(self.site) for _ in range(3)]
        self.commands: dict[str, Modelled] = {}
        self.handed_out: list[tuple[int, str]] = []
        # The newest first, because that is what most acknowledgements are for.
        self.given: list[Given] = []

    def teardown(self) -> None:
        verification = LiveVerification(self.field.trail.mac)
        while self.database.read_now(verification.step):
            pass
        self.database.close()
        assert verification.verdict.intact, verification.verdict

    @property
    def now(self) -> int:
        return self.clock.now_ms

    @rule(seconds=st.sampled_from([1, 29, 30, 60, 61, 90, 100]))
    def time_passes(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule(wishes=st.lists(wishes, min_size=1, max_size=5))
    def create(self, wishes: list[tuple[str, int, int, str | None]]) -> None:
        for wish in wishes:
            self._create(*wish)

    def _create(self, kind: str, priority: int, ttl: int, key: str | None) -> None:
        state = "pending_approval" if kind == NEEDS_APPROVAL else "pending"
        self._settle()
        expected = None
        if self._left(kind) == 0:
            expected = "RATE_LIMITED"
        elif key is not None and self._stands_in_the_way(key, state):
            expected = "DUPLICATE_ACTIVE"
        wish = {"priority": priority, "ttl_sec": ttl, "dedupe_key": key}
        made, code = _tried(lambda: self.field.send(self.site, self.miner, kind, **wish))
        assert code == expected
        if made is None:
            return
        rank = self.now - priority * AGEING_SECONDS * 1000
        self.commands[made.command_id] = Modelled(
            made.command_id, kind, key, rank, len(self.commands), self.now + ttl * 1000, state
        )

    @precondition(lambda self: self.commands)
    @rule(data=st.data(), does_approve=st.booleans())
    def decide(self, data: st.DataObject, does_approve: bool) -> None:
        command = data.draw(st.sampled_from(list(self.commands.values())))
        self._settle()
        can = command.state == "pending_approval"
        decide: Any = approval.approve if does_approve else approval.deny
        is_free = not does_approve or command.key is None or not self._stands_in_the_way(command.key, "pending")
        trail = self.field.trail
        _, code = _tried(lambda: self.database.write_now(decide, trail, command.id, "somebody else"))
        assert (code is None) == (can and is_free), code
        if code is None:
            command.state = "pending" if does_approve else "cancelled"

    @precondition(lambda self: self.commands)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        command = data.draw(st.sampled_from(list(self.commands.values())))
        self._settle()
        can = command.state in OPEN
        trail = self.field.trail
        _, code = _tried(lambda: self.database.write_now(cancelling.cancel, trail, command.id, "somebody"))
        assert (code is None) == can, code
        if can:
            command.state = "cancelled"

    @rule(collector=st.integers(0, 2), limit=st.integers(1, 4))
    def claim(self, collector: int, limit: int) -> None:
        hired = self.collectors[collector]
        claimed = self._claimed(collector, limit)
        self._settle_model()
        expected = self._due(limit)
        assert [row.command_id for row in claimed.commands] == [command.id for command in expected]
        for row, command in zip(claimed.commands, expected, strict=True):
            self._hand_out(command, hired.caller.device_id, row.nonce)
            assert row.attempt == command.attempt
        waiting = [command for command in self._ready() if self._left(command.type) == 0]
        assert claimed.held_back == len(waiting)
        self.given[:0] = [Given(command, hired) for command in expected]

    @rule(asked=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), min_size=2, max_size=4))
    def claim_at_once(self, asked: list[tuple[int, int]]) -> None:
        """Whoever comes first is handed what is due first; among them, all that one would have been handed."""
        with ThreadPoolExecutor(len(asked)) as threads:
            answers = list(threads.map(lambda each: self._claimed(*each), asked))
        self._settle_model()
        due = {command.id: command for command in self._due(sum(limit for _, limit in asked))}
        order = list(due)
        handed = [row.command_id for claimed in answers for row in claimed.commands]
        assert sorted(handed) == sorted(order)
        for (collector, limit), claimed in zip(asked, answers, strict=True):
            ids = [row.command_id for row in claimed.commands]
            assert len(ids) <= limit
            assert ids == sorted(ids, key=order.index)
            for row in claimed.commands:
                hired = self.collectors[collector]
                self._hand_out(due[row.command_id], hired.caller.device_id, row.nonce)
                assert row.attempt == due[row.command_id].attempt
                self.given.insert(0, Given(due[row.command_id], hired))

    def _claimed(self, collector: int, limit: int) -> Claimed:
        return self.database.run_hot_now(self.claims, Claim(self.collectors[collector].caller, None, limit))

    @precondition(lambda self: self.given)
    @rule(
        which=st.integers(0, 4),
        status=st.sampled_from(["succeeded", "failed", "failed", "deferred", "rejected", "running"]),
        message=st.sampled_from(["", "x"]),
        proof=st.sampled_from(["nonce", "attempt", "none"]),
        by=st.sampled_from([None, None, None, 0, 1]),
    )
    def acknowledge(self, which: int, status: str, message: str, proof: str, by: int | None) -> None:
        given = self.given[which % len(self.given)]
        self._acknowledge(given, given.holder if by is None else self.collectors[by], status, message, proof)

    @precondition(lambda self: self.given)
    @rule(
        which=st.integers(0, 4),
        status=st.sampled_from(["succeeded", "failed"]),
        proof=st.sampled_from(["nonce", "attempt", "none"]),
        does_fail_first=st.booleans(),
    )
    def come_late(self, which: int, status: str, proof: str, does_fail_first: bool) -> None:
        """The collector sleeps through its lease, or fails, is handed the command again, and speaks of before."""
        given = self.given[which % len(self.given)]
        if does_fail_first:
            self._acknowledge(given, given.holder, status, "", proof)
        self.clock.advance((LEASE_MS + BACKOFF_MS * 2**given.command.retries) / 1000)
        self.claim(self.collectors.index(given.holder), 4)
        self._acknowledge(given, given.holder, status, "", proof)

    def _acknowledge(self, given: Given, hired: Hired, status: str, message: str, proof: str) -> None:
        said: dict[str, Any] = {"message": message}
        if proof != "none":
            said[proof] = given.nonce if proof == "nonce" else given.attempt
        result = self.database.run_hot_now(self.acks, Said(hired.caller, given.command.id, read(status, **said)))
        self._settle_touched(given.command)
        command = given.command
        code = self._refusal(command, hired, given, proof, (command.attempt, status, message))
        if code is not None:
            assert isinstance(result, RestanteError), result
            assert error_code(result) == code
            return
        assert isinstance(result, Taken), result
        is_replay = command.last_ack == (command.attempt, status, message)
        assert result.answer.replayed == is_replay
        if not is_replay:
            self._apply(command, status)
            command.last_ack = (command.attempt, status, message)
        assert result.answer.command_status == command.state

    @precondition(lambda self: self.given)
    @rule(which=st.integers(0, 4), seconds=st.sampled_from([1, 60, 200]))
    def extend(self, which: int, seconds: int) -> None:
        given = self.given[which % len(self.given)]
        command, caller = given.command, given.holder.caller
        body = ExtendBody(seconds, given.nonce)
        options = self.field.ack_options()
        result = self.database.write_now(extend, self.field.trail, options, caller, command.id, body)
        self._settle_touched(command)
        holds = command.state in LEASED and command.owner == caller.device_id and command.nonce == given.nonce
        assert isinstance(result, Extended) == holds
        if holds:
            command.lease_until = max(command.lease_until, self.now + seconds * 1000)

    @invariant()
    def the_database_is_as_the_model(self) -> None:
        self._settle()
        for command in self.commands.values():
            row = self.field.command(command.id)
            assert (row["status"], row["attempt"], row["retry_count"]) == (
                command.state,
                command.attempt,
                command.retries,
            ), command
            if command.state in LEASED:
                assert (row["lease_owner"], row["lease_until"]) == (command.owner, command.lease_until)
        assert misled(self.database) == []

    # The model.

    def _settle(self) -> None:
        self.database.write_now(settle, self.field.trail, self.site)
        self._settle_model()

    def _settle_model(self) -> None:
        for command in self.commands.values():
            if command.state in OPEN and command.expires_at <= self.now:
                command.state = "expired"
            if command.state in LEASED and command.lease_until <= self.now:
                self._lose(command)

    def _settle_touched(self, command: Modelled) -> None:
        """An ACK settles the site if its command has something due; what is not settled is the invariant's to see."""
        is_due = command.state in OPEN and (
            command.expires_at <= self.now or (command.state in LEASED and command.lease_until <= self.now)
        )
        if is_due:
            self._settle_model()

    def _lose(self, command: Modelled) -> None:
        if command.retries >= RETRIES:
            command.state = "failed"
            return
        command.ready_at = command.lease_until + BACKOFF_MS * 2**command.retries
        command.retries += 1
        command.state, command.owner = "pending", None

    def _left(self, kind: str) -> int:
        used = sum(1 for at, each in self.handed_out if each == kind and at > self.now - WINDOW_MS)
        return LIMIT - used

    def _ready(self) -> list[Modelled]:
        ready = [each for each in self.commands.values() if each.state == "pending" and each.ready_at <= self.now]
        return sorted(ready, key=lambda each: (each.rank, each.number))

    def _due(self, limit: int) -> list[Modelled]:
        left: dict[str, int] = {}
        due: list[Modelled] = []
        for command in self._ready():
            room = left.setdefault(command.type, self._left(command.type))
            if room > 0 and len(due) < limit:
                left[command.type] -= 1
                due.append(command)
        return due

    def _hand_out(self, command: Modelled, device_id: int, nonce: str) -> None:
        command.state, command.owner, command.nonce = "dispatched", device_id, nonce
        command.attempt += 1
        command.lease_until = self.now + LEASE_MS
        assert command.attempt not in command.holders
        command.holders[command.attempt] = device_id
        self.handed_out.append((self.now, command.type))

    def _refusal(
        self, command: Modelled, hired: Hired, given: Given, proof: str, ack: tuple[int, str, str]
    ) -> str | None:
        if command.last_ack == ack and not (proof == "attempt" and given.attempt != command.attempt):
            return None
        if command.state == "expired":
            return "COMMAND_EXPIRED"
        if command.state not in OPEN:
            return "COMMAND_FINISHED"
        if command.state not in LEASED or command.owner != hired.caller.device_id:
            return "ACK_NOT_LEASE_OWNER"
        if proof == "attempt" and given.attempt != command.attempt:
            return "ACK_NOT_LEASE_OWNER"
        return "NONCE_MISMATCH" if proof == "nonce" and given.nonce != command.nonce else None

    def _apply(self, command: Modelled, status: str) -> None:
        backoff = BACKOFF_MS * 2**command.retries
        match status:
            case "succeeded" | "running":
                command.state = status
            case "deferred":
                command.state, command.owner, command.ready_at = "pending", None, self.now + backoff
            case "failed" if command.retries < RETRIES:
                command.state, command.owner, command.ready_at = "pending", None, self.now + backoff
                command.retries += 1
            case _:
                command.state = "failed"

    def _stands_in_the_way(self, key: str, state: str) -> bool:
        states = ("pending_approval",) if state == "pending_approval" else ACTIVE
        return any(each.key == key and each.state in states for each in self.commands.values())


def _tried(work: Callable[[], T]) -> tuple[T | None, str | None]:
    """What it gave, or the code of the refusal."""
    try:
        return work(), None
    except RestanteError as refused:
        return None, error_code(refused)


def test_command_life(fresh: FreshDatabases, monkeypatch: pytest.MonkeyPatch) -> None:
    # As often as can be, what is otherwise done once in many times.
    monkeypatch.setattr(claims, "RAISE_EVERY", 1)
    monkeypatch.setattr(audit, "PART_ROWS", 3)
    try_machine(CommandLife, fresh, examples=40, steps=50)
