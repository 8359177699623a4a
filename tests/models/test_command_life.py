"""Commands against a plain model: leases, retries, expiry, dedupe keys, approval, rate limits, several collectors, and
several miners, each with at most one leased command.

The state machine performs the actions of operators, collectors and time on a real database, in any order. The model
applies the same actions to plain objects, by a second implementation of the contract. Both must always agree, and each
attempt of a command has at most one lease owner.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from restante.commands.acks.ack_schema import ExtendBody
from restante.commands.acks.acks import AckRequest, AckResult, accept_acks
from restante.commands.audit import audit_trail
from restante.commands.audit.audit_verify import LiveVerification
from restante.commands.dispatch import claims
from restante.commands.dispatch.claims import ClaimRequest, ClaimResult, claim_all
from restante.commands.dispatch.extend_lease import LeaseExtension, extend_lease
from restante.commands.dispatch.rate_limits import RateLimit, RateRules
from restante.commands.dispatch.settlement import apply_settlement
from restante.commands.errors import error_code
from restante.commands.lifecycle import approval, cancellation
from restante.commands.lifecycle.approval import ApprovalRules
from restante.core.errors import RestanteError
from restante.database.database import Database
from restante.database.writer.batching import BatchOperation
from tests import defaults
from tests.commands.default_options import commands_options
from tests.commands.edge_fixture import Collector, CommandsHarness, ack_of
from tests.commands.hint_checks import commands_hidden_by_hints, miners_with_two_leases
from tests.conftest import ManualClock
from tests.databases import FreshDatabases
from tests.models.machines import DatabaseMachine, run_machine

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


# Miner, type, priority, time to live, dedupe key. The last miner stands for a command for many.
creations = st.tuples(
    st.integers(0, 3),
    st.sampled_from(["MINER_RESTART", "MINER_RESTART", "HASHING_ENABLE", NEEDS_APPROVAL]),
    st.integers(0, 3),
    st.sampled_from([45, 200, 1000, 1000]),
    st.sampled_from([None, None, None, "a", "b"]),
)


@dataclass
class ModelCommand:
    """A command as the contract describes it."""

    id: str
    miner: int | None
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
    owners: dict[int, int] = field(default_factory=dict)
    # Result code and message: of the last failed attempt, and the final ones after a duplicate.
    failure: tuple[str | None, str | None] | None = None
    result: tuple[str | None, str | None] | None = None


class Dispatch:
    """A command as one collector received it. The collector may acknowledge it at any later time."""

    def __init__(self, command: ModelCommand, owner: Collector) -> None:
        self.command, self.owner = command, owner
        self.attempt, self.nonce = command.attempt, command.nonce


class CommandLife(DatabaseMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.database = Database(self.fresh.new(self.clock))
        options = commands_options(
            rates=RateRules({}, RateLimit(LIMIT, WINDOW_MS // 1000)),
            max_retries=RETRIES,
            priority_ageing_seconds=AGEING_SECONDS,
            approval=ApprovalRules(frozenset([NEEDS_APPROVAL])),
        )
        self.harness = CommandsHarness(self.database, options)
        trail, ack_options = self.harness.trail, self.harness.ack_options()
        claim_options = defaults.claim_options(lease_seconds=LEASE_MS // 1000, rates=options.rates)
        # Batched like in the server: concurrent requests share a transaction of any writer.
        self.claims = BatchOperation[ClaimRequest, ClaimResult](
            lambda conn, requests: claim_all(conn, trail, claim_options, requests)
        )
        self.acks = BatchOperation[AckRequest, AckResult | RestanteError](
            lambda conn, requests: accept_acks(conn, trail, ack_options, requests)
        )
        self.site = self.harness.add_site()
        self.miners: list[int | None] = [*(self.harness.add_miner(self.site) for _ in range(3)), None]
        self.collectors = [self.harness.add_collector(self.site) for _ in range(3)]
        self.commands: dict[str, ModelCommand] = {}
        self.dispatch_log: list[tuple[int, str]] = []
        # Newest first: most ACKs refer to a recent dispatch.
        self.dispatches: list[Dispatch] = []

    def teardown(self) -> None:
        verification = LiveVerification(self.harness.trail.mac)
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

    @rule(creations=st.lists(creations, min_size=1, max_size=5))
    def create(self, creations: list[tuple[int, str, int, int, str | None]]) -> None:
        for fields in creations:
            self._create(*fields)

    def _create(self, number: int, command_type: str, priority: int, ttl: int, key: str | None) -> None:
        state = "pending_approval" if command_type == NEEDS_APPROVAL else "pending"
        self._settle_both()
        expected = None
        if self._left(command_type) == 0:
            expected = "RATE_LIMITED"
        elif key is not None and self._is_key_taken(key, state):
            expected = "DUPLICATE_ACTIVE"
        miner = self.miners[number]
        fields: dict[str, Any] = {"priority": priority, "ttl_sec": ttl, "dedupe_key": key, "all_miners": miner is None}
        created, code = _attempt(lambda: self.harness.add_command(self.site, miner, command_type, **fields))
        assert code == expected
        if created is None:
            return
        rank = self.now - priority * AGEING_SECONDS * 1000
        self.commands[created.command_id] = ModelCommand(
            created.command_id, miner, command_type, key, rank, len(self.commands), self.now + ttl * 1000, state
        )

    @precondition(lambda self: self.commands)
    @rule(data=st.data(), is_approval=st.booleans())
    def approve_or_deny(self, data: st.DataObject, is_approval: bool) -> None:
        command = data.draw(st.sampled_from(list(self.commands.values())))
        self._settle_both()
        is_allowed = command.state == "pending_approval"
        decide: Any = approval.approve if is_approval else approval.deny
        is_free = not is_approval or command.key is None or not self._is_key_taken(command.key, "pending")
        trail = self.harness.trail
        _, code = _attempt(lambda: self.database.write_now(decide, trail, command.id, "approver"))
        assert (code is None) == (is_allowed and is_free), code
        if code is None:
            command.state = "pending" if is_approval else "cancelled"

    @precondition(lambda self: self.commands)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        command = data.draw(st.sampled_from(list(self.commands.values())))
        self._settle_both()
        is_allowed = command.state in OPEN
        trail = self.harness.trail
        _, code = _attempt(lambda: self.database.write_now(cancellation.cancel, trail, command.id, "operator"))
        assert (code is None) == is_allowed, code
        if is_allowed:
            command.state = "cancelled"

    @rule(number=st.integers(0, 2), limit=st.integers(1, 4))
    def claim(self, number: int, limit: int) -> None:
        collector = self.collectors[number]
        claimed = self._claimed(number, limit)
        self._settle_model()
        expected = self._due(limit)
        assert [row.command_id for row in claimed.commands] == [command.id for command in expected]
        for row, command in zip(claimed.commands, expected, strict=True):
            self._apply_dispatch(command, collector.caller.device_id, row.nonce)
            assert row.attempt == command.attempt
        # A command that follows another one of its miner may be counted or not: some were held before the limit was
        # reached. The first one of each free miner is counted.
        rate_limited = [command for command in self._ready() if self._left(command.type) == 0]
        first = {(command.miner or command.id, command.type): command for command in rate_limited}
        counted = [command for command in first.values() if not self._is_miner_busy(command)]
        assert len(counted) <= claimed.rate_limited_count <= len(rate_limited)
        self.dispatches[:0] = [Dispatch(command, collector) for command in expected]

    @rule(claims=st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3)), min_size=2, max_size=4))
    def claim_at_once(self, claims: list[tuple[int, int]]) -> None:
        """Concurrent claims together get the commands that one claim would get, each of them in queue order."""
        with ThreadPoolExecutor(len(claims)) as threads:
            results = list(threads.map(lambda each: self._claimed(*each), claims))
        self._settle_model()
        due = {command.id: command for command in self._due(sum(limit for _, limit in claims))}
        order = list(due)
        claimed_ids = [row.command_id for claimed in results for row in claimed.commands]
        assert sorted(claimed_ids) == sorted(order)
        for (number, limit), claimed in zip(claims, results, strict=True):
            ids = [row.command_id for row in claimed.commands]
            assert len(ids) <= limit
            assert ids == sorted(ids, key=order.index)
            for row in claimed.commands:
                collector = self.collectors[number]
                self._apply_dispatch(due[row.command_id], collector.caller.device_id, row.nonce)
                assert row.attempt == due[row.command_id].attempt
                self.dispatches.insert(0, Dispatch(due[row.command_id], collector))

    def _claimed(self, number: int, limit: int) -> ClaimResult:
        return self.database.run_batched_now(self.claims, ClaimRequest(self.collectors[number].caller, None, limit))

    @precondition(lambda self: self.dispatches)
    @rule(
        which=st.integers(0, 4),
        status=st.sampled_from(["succeeded", "failed", "failed", "deferred", "rejected", "running", "duplicate"]),
        message=st.sampled_from(["", "x"]),
        proof=st.sampled_from(["nonce", "attempt", "none"]),
        by=st.sampled_from([None, None, None, 0, 1]),
    )
    def acknowledge(self, which: int, status: str, message: str, proof: str, by: int | None) -> None:
        dispatch = self.dispatches[which % len(self.dispatches)]
        self._acknowledge(dispatch, dispatch.owner if by is None else self.collectors[by], status, message, proof)

    @precondition(lambda self: self.dispatches)
    @rule(
        which=st.integers(0, 4),
        status=st.sampled_from(["succeeded", "failed"]),
        proof=st.sampled_from(["nonce", "attempt", "none"]),
        is_acknowledged_first=st.booleans(),
    )
    def acknowledge_late(self, which: int, status: str, proof: str, is_acknowledged_first: bool) -> None:
        """The collector loses its lease, or fails; then claims the command again and sends an ACK of the earlier
        attempt."""
        dispatch = self.dispatches[which % len(self.dispatches)]
        if is_acknowledged_first:
            self._acknowledge(dispatch, dispatch.owner, status, "", proof)
        self.clock.advance((LEASE_MS + BACKOFF_MS * 2**dispatch.command.retries) / 1000)
        self.claim(self.collectors.index(dispatch.owner), 4)
        self._acknowledge(dispatch, dispatch.owner, status, "", proof)

    def _acknowledge(self, dispatch: Dispatch, collector: Collector, status: str, message: str, proof: str) -> None:
        fields: dict[str, Any] = {"message": message}
        is_duplicate = status == "duplicate"
        if is_duplicate:
            status, message = "rejected", "DUPLICATE_IGNORED"
            fields = {"message": message, "result_code": 2}
        if proof != "none":
            fields[proof] = dispatch.nonce if proof == "nonce" else dispatch.attempt
        result = self.database.run_batched_now(
            self.acks,
            AckRequest(collector.caller, dispatch.command.id, ack_of("skipped" if is_duplicate else status, **fields)),
        )
        self._settle_model_if_due(dispatch.command)
        command = dispatch.command
        code = self._refusal(command, collector, dispatch, proof, (command.attempt, status, message))
        if code is not None:
            assert isinstance(result, RestanteError), result
            assert error_code(result) == code
            return
        assert isinstance(result, AckResult), result
        is_replay = command.last_ack == (command.attempt, status, message)
        assert result.response.replayed == is_replay
        if not is_replay:
            self._apply(command, status, message, is_duplicate)
            command.last_ack = (command.attempt, status, message)
        assert result.response.command_status == command.state

    @precondition(lambda self: self.dispatches)
    @rule(which=st.integers(0, 4), seconds=st.sampled_from([1, 60, 200]))
    def extend(self, which: int, seconds: int) -> None:
        dispatch = self.dispatches[which % len(self.dispatches)]
        command, caller = dispatch.command, dispatch.owner.caller
        body = ExtendBody(seconds, dispatch.nonce)
        options = self.harness.ack_options()
        result = self.database.write_now(extend_lease, self.harness.trail, options, caller, command.id, body)
        self._settle_model_if_due(command)
        holds = command.state in LEASED and command.owner == caller.device_id and command.nonce == dispatch.nonce
        assert isinstance(result, LeaseExtension) == holds
        if holds:
            command.lease_until = max(command.lease_until, self.now + seconds * 1000)

    @invariant()
    def database_equals_model(self) -> None:
        self._settle_both()
        for command in self.commands.values():
            row = self.harness.command(command.id)
            assert (row["status"], row["attempt"], row["retry_count"]) == (
                command.state,
                command.attempt,
                command.retries,
            ), command
            if command.result is not None:
                assert (row["result_code"], row["result_message"]) == command.result
            if command.state in LEASED:
                assert (row["lease_owner"], row["lease_until"]) == (command.owner, command.lease_until)
        assert commands_hidden_by_hints(self.database) == []
        assert miners_with_two_leases(self.database) == []

    # The model.

    def _settle_both(self) -> None:
        self.database.write_now(apply_settlement, self.harness.trail, self.site)
        self._settle_model()

    def _settle_model(self) -> None:
        for command in self.commands.values():
            if command.state in OPEN and command.expires_at <= self.now:
                command.state = "expired"
            if command.state in LEASED and command.lease_until <= self.now:
                self._end_lease(command)

    def _settle_model_if_due(self, command: ModelCommand) -> None:
        """An ACK settles the site only if its own command is due. The invariant settles the rest."""
        is_due = command.state in OPEN and (
            command.expires_at <= self.now or (command.state in LEASED and command.lease_until <= self.now)
        )
        if is_due:
            self._settle_model()

    def _end_lease(self, command: ModelCommand) -> None:
        if command.retries >= RETRIES:
            command.state = "failed"
            return
        command.ready_at = command.lease_until + BACKOFF_MS * 2**command.retries
        command.retries += 1
        command.state, command.owner = "pending", None

    def _left(self, command_type: str) -> int:
        used = sum(1 for at, each in self.dispatch_log if each == command_type and at > self.now - WINDOW_MS)
        return LIMIT - used

    def _ready(self) -> list[ModelCommand]:
        ready = [each for each in self.commands.values() if each.state == "pending" and each.ready_at <= self.now]
        return sorted(ready, key=lambda each: (each.rank, each.number))

    def _due(self, limit: int) -> list[ModelCommand]:
        left: dict[str, int] = {}
        due: list[ModelCommand] = []
        for command in self._ready():
            room = left.setdefault(command.type, self._left(command.type))
            is_busy = self._is_miner_busy(command) or any(each.miner == command.miner is not None for each in due)
            if room > 0 and len(due) < limit and not is_busy:
                left[command.type] -= 1
                due.append(command)
        return due

    def _is_miner_busy(self, command: ModelCommand) -> bool:
        return command.miner is not None and any(
            each.miner == command.miner and each.state in LEASED for each in self.commands.values()
        )

    def _apply_dispatch(self, command: ModelCommand, device_id: int, nonce: str) -> None:
        command.state, command.owner, command.nonce = "dispatched", device_id, nonce
        command.attempt += 1
        command.lease_until = self.now + LEASE_MS
        assert command.attempt not in command.owners
        command.owners[command.attempt] = device_id
        self.dispatch_log.append((self.now, command.type))

    def _refusal(
        self, command: ModelCommand, collector: Collector, dispatch: Dispatch, proof: str, ack: tuple[int, str, str]
    ) -> str | None:
        if command.last_ack == ack and not (proof == "attempt" and dispatch.attempt != command.attempt):
            return None
        if command.state == "expired":
            return "COMMAND_EXPIRED"
        if command.state not in OPEN:
            return "COMMAND_FINISHED"
        if command.state not in LEASED or command.owner != collector.caller.device_id:
            return "ACK_NOT_LEASE_OWNER"
        if proof == "attempt" and dispatch.attempt != command.attempt:
            return "ACK_NOT_LEASE_OWNER"
        return "NONCE_MISMATCH" if proof == "nonce" and dispatch.nonce != command.nonce else None

    def _apply(self, command: ModelCommand, status: str, message: str, is_duplicate: bool) -> None:
        backoff = BACKOFF_MS * 2**command.retries
        if status == "failed":
            command.failure = (None, message or None)
        if is_duplicate:
            command.result = command.failure or ("OUTCOME_UNKNOWN", "executed once, its result was lost")
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

    def _is_key_taken(self, key: str, state: str) -> bool:
        states = ("pending_approval",) if state == "pending_approval" else ACTIVE
        return any(each.key == key and each.state in states for each in self.commands.values())


def _attempt(work: Callable[[], T]) -> tuple[T | None, str | None]:
    """Return the result, or the code of the error."""
    try:
        return work(), None
    except RestanteError as error:
        return None, error_code(error)


def test_commands_follow_the_model(fresh: FreshDatabases, monkeypatch: pytest.MonkeyPatch) -> None:
    # Rare steps happen as often as possible.
    monkeypatch.setattr(claims, "RAISE_EVERY", 1)
    monkeypatch.setattr(audit_trail, "PART_ROWS", 3)
    run_machine(CommandLife, fresh, examples=40, steps=50)
