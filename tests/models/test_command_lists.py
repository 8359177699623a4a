"""Batches of claims and ACKs against single ones: results, rows and audit chains must be the same.

Two equal databases receive the same requests at the same time, each round in one transaction: one database as a batch,
the other request by request.
"""

import itertools
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule
from msgspec.structs import replace

from restante.commands.acks.ack_schema import AckBody, parse_ack
from restante.commands.acks.acks import AckRequest, AckResult, accept_ack, accept_acks
from restante.commands.audit import audit_trail
from restante.commands.audit.audit_trail import AuditTrail
from restante.commands.audit.audit_verify import LiveVerification
from restante.commands.dispatch import claims
from restante.commands.dispatch.claims import ClaimRequest, ClaimResult, claim, claim_all
from restante.commands.dispatch.rate_limits import RateLimit, RateRules
from restante.commands.errors import error_code
from restante.commands.lifecycle import creation
from restante.commands.lifecycle.creation import CommandRequest, create
from restante.commands.sites import collectors
from restante.core.errors import RestanteError
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.engine import Engine
from restante.database.queries import Query
from restante.database.writer.batching import Failed
from restante.identity.callers import CollectorCaller
from tests.commands import edge_fixture
from tests.commands.default_options import commands_options
from tests.commands.edge_fixture import ACTOR, CommandsHarness
from tests.commands.hint_checks import commands_hidden_by_hints
from tests.conftest import ManualClock
from tests.databases import FreshDatabases
from tests.defaults import claim_options
from tests.models.machines import DatabaseMachine, run_machine

RATES = RateRules({"MINER_RESTART": RateLimit(3, 100)}, RateLimit(5, 60))
OPTIONS = commands_options(rates=RATES, max_retries=1, is_signed=True)
TABLES = {
    "miner_commands": "id",
    "command_dispatches": "site_id, command_type, dispatched_at, n",
    "audit_checkpoints": "chain, part",
    "command_audit": "chain, n",
    "site_quiet": "site_id",
}
SECRETS = Query("secrets", "SELECT id, hmac_secret FROM edge_devices")
# The id depends on the order in which rows of different chains were written, which no chain covers.
UNORDERED = "id"

# Collector; one zone or the whole site; limit.
polls = st.tuples(st.integers(0, 7), st.sampled_from([None, None, None, 0, 1, 2]), st.sampled_from([1, 1, 2, 3]))
# Which of the last dispatched commands; status; proof; sender, None for the lease owner.
acks = st.tuples(
    st.integers(0, 11),
    st.sampled_from(["succeeded", "succeeded", "failed", "deferred", "rejected", "running"]),
    st.sampled_from(["nonce", "nonce", "nothing", "wrong nonce", "wrong attempt", "wrong command"]),
    st.one_of(st.none(), st.none(), st.integers(0, 7)),
)


class ComparedDatabase:
    """One of the two databases, with the commands component."""

    def __init__(self, engine: Engine) -> None:
        self.database = Database(engine)
        self.harness = CommandsHarness(self.database, OPTIONS)
        self.events: list[object] = []
        self.owners: dict[bytes, bytes] = {}
        self._numbers = itertools.count()
        self.database.on_commit(self.events.extend)

    def write(self, work: Callable[[Connection], list[Any]]) -> list[Any]:
        """Run one transaction and return its outcomes. Random values are replaced by counters, equal in both
        databases."""
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(claims, "new_nonce", lambda: f"nonce {next(self._numbers)}")
            patched.setattr(creation, "secrets", SimpleNamespace(token_hex=lambda _: str(next(self._numbers))))
            return self.database.write_now(work)

    def without_own_secret(self, outcome: Any) -> Any:
        """Replace the sealed secret, whose bytes differ per database, by its owner; drop the horizon."""
        if not isinstance(outcome, ClaimResult):
            return outcome
        sealed = outcome.sealed_secret
        return replace(outcome, sealed_secret=None if sealed is None else self.owners[sealed], horizon=0)

    def rows(self, table: str) -> list[dict[str, Any]]:
        query = Query("rows", f"SELECT * FROM {table} ORDER BY {TABLES[table]}")
        found = [dict(row) for row in self.database.read_now(lambda conn: conn.all(query))]
        if table == "command_audit":
            for row in found:
                del row[UNORDERED]
        return found


class ListMachine(DatabaseMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.batched, self.single = (ComparedDatabase(self.fresh.new(self.clock, index)) for index in range(2))
        for tested in (self.batched, self.single):
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(edge_fixture, "_numbers", itertools.count())
                self._build(tested)
        # Newest first, with the lease owner.
        self.dispatched: list[tuple[CollectorCaller, claims.DispatchedCommand]] = []

    def _build(self, tested: ComparedDatabase) -> None:
        harness = tested.harness
        self.sites = [harness.add_site(), harness.add_site()]
        self.zones = [harness.add_zone(self.sites[0]), harness.add_zone(self.sites[0]), harness.add_zone(self.sites[1])]
        self.miners = [
            (self.sites[0], harness.add_miner(self.sites[0])),
            (self.sites[0], harness.add_miner(self.sites[0], self.zones[0])),
            (self.sites[1], harness.add_miner(self.sites[1])),
        ]
        where = [(0, None), (0, None), (0, 0), (0, 1), (1, None), (1, 2), (0, None), (1, None)]
        registered = [
            harness.add_collector(self.sites[at], None if zone is None else self.zones[zone]) for at, zone in where
        ]
        self.callers = [each.caller for each in registered]
        # The last but one is revoked; the token of the last one was replaced.
        tested.database.write_now(collectors.revoke, harness.trail, self.callers[6].device_id, ACTOR)
        self.callers[7] = self.callers[7]._replace(token_hash=b"of another token")
        tested.owners = {
            bytes(row["hmac_secret"]): b"%d" % row["id"]
            for row in tested.database.read_now(lambda conn: conn.all(SECRETS))
        }

    def teardown(self) -> None:
        for tested in (self.batched, self.single):
            verification = LiveVerification(tested.harness.trail.mac)
            while tested.database.read_now(verification.step):
                pass
            tested.database.close()
            assert verification.verdict.intact

    @rule(seconds=st.sampled_from([0.5, 20, 30, 61, 100, 400]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(
        drawn=st.lists(
            st.tuples(
                st.integers(0, 2),
                st.sampled_from(["MINER_RESTART", "MINER_RESTART", "HASHING_ENABLE", "DEVICE_REBOOT"]),
                st.integers(0, 2),
                st.sampled_from([50, 300, 1000]),
            ),
            min_size=1,
            max_size=8,
        )
    )
    def create_commands(self, drawn: list[tuple[int, str, int, int]]) -> None:
        creations = [
            CommandRequest(
                site_id=self.miners[at][0],
                miner_id=self.miners[at][1],
                command_type=command_type,
                priority=priority,
                ttl_sec=ttl,
            )
            for at, command_type, priority, ttl in drawn
        ]
        creation_options = OPTIONS.for_creation(self.batched.harness.component.box)

        def create_all(conn: Connection, trail: AuditTrail) -> list[Any]:
            return [attempt(create, conn, trail, request, ACTOR, creation_options) for request in creations]

        for tested in (self.batched, self.single):
            tested.write(partial(create_all, trail=tested.harness.trail))

    @rule(drawn=st.lists(polls, min_size=1, max_size=8))
    def claim_commands(self, drawn: list[tuple[int, int | None, int]]) -> None:
        options = claim_options(lease_seconds=OPTIONS.lease_seconds, rates=RATES, is_signed=True)
        requests = [
            ClaimRequest(self.callers[who], None if zone is None else self.zones[zone], limit)
            for who, zone, limit in drawn
        ]
        batched = self.batched.write(
            lambda conn: [
                self.batched.without_own_secret(comparable(each))
                for each in claim_all(conn, self.batched.harness.trail, options, requests)
            ]
        )
        single = self.single.write(
            lambda conn: [
                self.single.without_own_secret(attempt(claim, conn, self.single.harness.trail, options, each))
                for each in requests
            ]
        )
        assert batched == single
        for each, outcome in zip(requests, batched, strict=True):
            if isinstance(outcome, ClaimResult):
                self.dispatched[:0] = [(each.caller, command) for command in outcome.commands]

    @precondition(lambda self: self.dispatched)
    @rule(drawn=st.lists(acks, min_size=1, max_size=8))
    def send_acks(self, drawn: list[tuple[int, str, str, int | None]]) -> None:
        requests = [self._ack_request(*each) for each in drawn]
        batched = self.batched.write(
            lambda conn: [
                comparable(each)
                for each in accept_acks(conn, self.batched.harness.trail, self.batched.harness.ack_options(), requests)
            ]
        )
        single = self.single.write(
            lambda conn: [
                comparable(
                    accept_ack(
                        conn,
                        self.single.harness.trail,
                        self.single.harness.ack_options(),
                        each.caller,
                        each.command_id,
                        each.ack,
                    )
                )
                for each in requests
            ]
        )
        assert batched == single

    @invariant()
    def databases_are_equal(self) -> None:
        for tested in (self.batched, self.single):
            assert commands_hidden_by_hints(tested.database) == []
        for table in TABLES:
            assert self.batched.rows(table) == self.single.rows(table), table
        assert sorted(map(repr, self.batched.events)) == sorted(map(repr, self.single.events))

    def _ack_request(self, which: int, status: str, proof: str, by: int | None) -> AckRequest:
        owner, command = self.dispatched[which % len(self.dispatched)]
        nonce = {"nonce": command.nonce, "wrong nonce": "another"}.get(proof)
        attempt = command.attempt + 1 if proof == "wrong attempt" else None
        ack = parse_ack(AckBody(status=status, nonce=nonce, attempt=attempt), b"{}")
        command_id = "cmd_unknown" if proof == "wrong command" else command.command_id
        return AckRequest(owner if by is None else self.callers[by], command_id, ack)


def comparable(outcome: Any) -> Any:
    """Turn an outcome into a value that can be compared."""
    if isinstance(outcome, Failed):
        outcome = outcome.error
    if isinstance(outcome, RestanteError):
        return error_code(outcome)
    if isinstance(outcome, AckResult):
        return repr(outcome)
    return outcome


def attempt(work: Callable[..., Any], *args: Any) -> Any:
    """Return the result, or the code of the error."""
    try:
        return work(*args)
    except RestanteError as error:
        return error_code(error)


def test_batches_equal_single_requests(fresh: FreshDatabases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "RAISE_EVERY", 2)
    monkeypatch.setattr(audit_trail, "PART_ROWS", 5)
    run_machine(ListMachine, fresh, examples=20, steps=25)
