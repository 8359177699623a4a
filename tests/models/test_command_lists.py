"""Claims and ACKs of many at once against the same one after another: results, rows and audit chains must be the same.

Two databases begin alike. What happens, happens to both at the same moment: in one of them as a list, in
the other request by request, each in one transaction.
"""

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule
from msgspec.structs import replace

from restante.commands import audit, claims, collectors, creation
from restante.commands.ack_body import AckBody, read_ack
from restante.commands.acks import Said, Taken, acknowledge, acknowledge_all
from restante.commands.audit_verify import LiveVerification
from restante.commands.claims import Claim, Claimed, ClaimOptions, claim, claim_all
from restante.commands.creation import CommandWish, create
from restante.commands.parts import CommandsOptions
from restante.commands.rate_windows import RateLimit, RateRules
from restante.commands.wire import error_code
from restante.core.errors import RestanteError
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.engine import Engine
from restante.database.hot import Failed
from restante.database.queries import Query
from restante.identity.callers import CollectorCaller
from tests.commands import field as field_module
from tests.commands.field import ACTOR, Field
from tests.commands.hints import misled
from tests.conftest import ManualClock
from tests.databases import FreshDatabases
from tests.models.machines import Machine, try_machine

RATES = RateRules({"MINER_RESTART": RateLimit(3, 100)}, RateLimit(5, 60))
OPTIONS = CommandsOptions(rates=RATES, max_retries=1, is_signed=True)
TABLES = {
    "miner_commands": "id",
    "command_dispatches": "site_id, command_type, dispatched_at, n",
    "audit_checkpoints": "chain, part",
    "command_audit": "chain, n",
    "site_quiet": "site_id",
}
SECRETS = Query("secrets", "SELECT id, hmac_secret FROM edge_devices")
# The order in which rows of different chains were written is not part of any chain.
UNORDERED = "id"

# Collector; one zone or the whole site; how many.
polls = st.tuples(st.integers(0, 7), st.sampled_from([None, None, None, 0, 1, 2]), st.sampled_from([1, 1, 2, 3]))
# Which of the commands that were handed out last; what it says; what proves it; by whom, or by its holder.
said = st.tuples(
    st.integers(0, 11),
    st.sampled_from(["succeeded", "succeeded", "failed", "deferred", "rejected", "running"]),
    st.sampled_from(["nonce", "nonce", "nothing", "wrong nonce", "wrong attempt", "wrong command"]),
    st.one_of(st.none(), st.none(), st.integers(0, 7)),
)


class Side:
    """One of the two: a database with everything on top."""

    def __init__(self, engine: Engine) -> None:
        self.database = Database(engine)
        self.field = Field(self.database, OPTIONS)
        self.heard: list[object] = []
        self.owners: dict[bytes, bytes] = {}
        self._numbers = itertools.count()
        self.database.on_commit(self.heard.extend)

    def write(self, work: Callable[[Connection], list[Any]]) -> list[Any]:
        """The outcomes of one transaction. What is random elsewhere is counted, so that both sides get the same."""
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(claims, "new_nonce", lambda: f"nonce {next(self._numbers)}")
            patched.setattr(creation, "secrets", SimpleNamespace(token_hex=lambda _: str(next(self._numbers))))
            return self.database.write_now(work)

    def unsealed(self, outcome: Any) -> Any:
        """Without what is each database's own: the secret, which is never sealed to the same bytes, as whose it is."""
        if not isinstance(outcome, Claimed):
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


class Lists(Machine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.together, self.alone = (Side(self.fresh.new(self.clock, place)) for place in range(2))
        for side in (self.together, self.alone):
            with pytest.MonkeyPatch.context() as patched:
                patched.setattr(field_module, "_numbers", itertools.count())
                self._build(side)
        # The newest first, with who holds it.
        self.handed_out: list[tuple[CollectorCaller, claims.HandedOut]] = []

    def _build(self, side: Side) -> None:
        field = side.field
        self.sites = [field.add_site(), field.add_site()]
        self.zones = [field.add_zone(self.sites[0]), field.add_zone(self.sites[0]), field.add_zone(self.sites[1])]
        self.miners = [
            (self.sites[0], field.add_miner(self.sites[0])),
            (self.sites[0], field.add_miner(self.sites[0], self.zones[0])),
            (self.sites[1], field.add_miner(self.sites[1])),
        ]
        where = [(0, None), (0, None), (0, 0), (0, 1), (1, None), (1, 2), (0, None), (1, None)]
        hired = [field.hire(self.sites[at], None if zone is None else self.zones[zone]) for at, zone in where]
        self.callers = [each.caller for each in hired]
        # The last but one is revoked, the last one's token was replaced since.
        side.database.write_now(collectors.revoke, field.trail, self.callers[6].device_id, ACTOR)
        self.callers[7] = self.callers[7]._replace(token_hash=b"of another token")
        side.owners = {
            bytes(row["hmac_secret"]): b"%d" % row["id"]
            for row in side.database.read_now(lambda conn: conn.all(SECRETS))
        }

    def teardown(self) -> None:
        for side in (self.together, self.alone):
            verification = LiveVerification(side.field.trail.mac)
            while side.database.read_now(verification.step):
                pass
            side.database.close()
            assert verification.verdict.intact

    @rule(seconds=st.sampled_from([0.5, 20, 30, 61, 100, 400]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(
        wanted=st.lists(
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
    def commands_are_made(self, wanted: list[tuple[int, str, int, int]]) -> None:
        wishes = [
            CommandWish(
                site_id=self.miners[at][0],
                miner_id=self.miners[at][1],
                command_type=kind,
                priority=priority,
                ttl_sec=ttl,
            )
            for at, kind, priority, ttl in wanted
        ]
        made = OPTIONS.for_creation()
        for side in (self.together, self.alone):
            trail = side.field.trail
            side.write(
                lambda conn: [tried(lambda: create(conn, trail, wish, ACTOR, made)) for wish in wishes]  # noqa: B023 — run at once
            )

    @rule(wanted=st.lists(polls, min_size=1, max_size=8))
    def collectors_poll(self, wanted: list[tuple[int, int | None, int]]) -> None:
        options = ClaimOptions(OPTIONS.lease_seconds, RATES, is_signed=True)
        asked = [
            Claim(self.callers[who], None if zone is None else self.zones[zone], limit) for who, zone, limit in wanted
        ]
        together = self.together.write(
            lambda conn: [
                self.together.unsealed(shown(each))
                for each in claim_all(conn, self.together.field.trail, options, asked)
            ]
        )
        alone = self.alone.write(
            lambda conn: [
                self.alone.unsealed(tried(lambda: claim(conn, self.alone.field.trail, options, each)))  # noqa: B023 — run at once
                for each in asked
            ]
        )
        assert together == alone
        for each, outcome in zip(asked, together, strict=True):
            if isinstance(outcome, Claimed):
                self.handed_out[:0] = [(each.caller, command) for command in outcome.commands]

    @precondition(lambda self: self.handed_out)
    @rule(wanted=st.lists(said, min_size=1, max_size=8))
    def acks_arrive(self, wanted: list[tuple[int, str, str, int | None]]) -> None:
        asked = [self._said(*each) for each in wanted]
        together = self.together.write(
            lambda conn: [
                shown(each)
                for each in acknowledge_all(conn, self.together.field.trail, self.together.field.ack_options(), asked)
            ]
        )
        alone = self.alone.write(
            lambda conn: [
                shown(
                    acknowledge(
                        conn,
                        self.alone.field.trail,
                        self.alone.field.ack_options(),
                        each.caller,
                        each.command_id,
                        each.read,
                    )
                )
                for each in asked
            ]
        )
        assert together == alone

    @invariant()
    def both_are_the_same(self) -> None:
        for side in (self.together, self.alone):
            assert misled(side.database) == []
        for table in TABLES:
            assert self.together.rows(table) == self.alone.rows(table), table
        assert sorted(map(repr, self.together.heard)) == sorted(map(repr, self.alone.heard))

    def _said(self, which: int, status: str, proof: str, by: int | None) -> Said:
        holder, command = self.handed_out[which % len(self.handed_out)]
        nonce = {"nonce": command.nonce, "wrong nonce": "another"}.get(proof)
        attempt = command.attempt + 1 if proof == "wrong attempt" else None
        read = read_ack(AckBody(status=status, nonce=nonce, attempt=attempt), b"{}")
        command_id = "cmd_unknown" if proof == "wrong command" else command.command_id
        return Said(holder if by is None else self.callers[by], command_id, read)


def shown(outcome: Any) -> Any:
    """An outcome in a form that can be compared."""
    if isinstance(outcome, Failed):
        outcome = outcome.error
    if isinstance(outcome, RestanteError):
        return error_code(outcome)
    if isinstance(outcome, Taken):
        return repr(outcome)
    return outcome


def tried(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except RestanteError as refused:
        return error_code(refused)


def test_lists(fresh: FreshDatabases, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "RAISE_EVERY", 2)
    monkeypatch.setattr(audit, "PART_ROWS", 5)
    try_machine(Lists, fresh, examples=20, steps=25)
