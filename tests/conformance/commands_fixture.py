"""The conformance cases of edge commands.

Each case has a new site with two zones, miners, a collector for the whole site, a second one, one for the eastern zone
and a revoked one, and a foreign site. `{name}` in a step stands for the data of the site (`site`, `zone`, `miner`,
`device` …), for a command that was created under that name, or for a value that a step has saved.
"""

import gzip
import hashlib
import hmac
import json
import re
from dataclasses import replace
from typing import Any, Literal

import msgspec

from restante.commands.audit.audit_trail import AuditEntry, AuditTrail
from restante.commands.lifecycle import creation
from restante.commands.lifecycle.creation import CommandRequest
from restante.commands.sites import collectors, miners, sites
from restante.commands.sites.collectors import NewCollector
from restante.commands.sites.miners import MinerRequest
from restante.core.iso_time import parse_iso
from restante.database.connection import Connection
from restante.database.queries import Query
from restante.identity import api_keys
from restante.identity.callers import Role
from restante.identity.people import sessions
from restante.server.config.options import commands_options
from restante.web.access import SESSION_COOKIE
from tests.conformance.cases import Expected, MultiStepCase, Step, body_of, check_response, filled, value_at
from tests.conformance.runner import ProtocolFixture, Request
from tests.conftest import ManualClock
from tests.identity.people_and_devices import SESSION_SECONDS, add_device, add_user
from tests.server.live_server import LiveServer, RawResponse
from tests.server.populated_server import dump

# The time of the specification's examples, 2026-01-18T10:00:00Z.
START_MS = 1_768_730_400_000
ACTOR = "tests"
# Not data: the audit trail, and SQLite's next ids, which may skip a number although nothing has changed.
NOT_COMPARED = {"command_audit", "audit_checkpoints", "repeated_reports", "sqlite_sequence"}

Dump = dict[str, list[tuple[Any, ...]]]

_SITE_42 = Query("site_42", "INSERT INTO edge_sites (id, name, created_at) VALUES (42, 'forty-two', 0)")
_ZONE_5 = Query(
    "zone_5", "INSERT INTO edge_zones (id, site_id, name, is_default, created_at) VALUES (5, 42, 'd', 1, 0)"
)
_RENAME = Query("rename", "UPDATE miner_commands SET command_id = :new WHERE command_id = :old")
_EVENTS = Query("events", "SELECT event FROM command_audit WHERE chain = :chain ORDER BY n")
_RANDOM = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{64}|cmd_[0-9a-f]{24}|\bed_[\w-]{20,}")

BASE = "/api/edge/v1"
# In the order of the specification.
SIGNED_FIELDS = (
    *("command_id", "site_id", "zone_id", "miner_id", "command_type", "params", "priority", "expires_at"),
    *("dedupe_key", "signed_at", "nonce"),
)

CollectorName = Literal["collector", "second", "zoned", "foreign", "revoked"]
Caller = (
    CollectorName
    | Literal["anonymous", "garbage", "device", "viewer", "operator", "approver", "admin"]
    | Literal["approver person", "admin person"]
)


class NewCommand(msgspec.Struct, forbid_unknown_fields=True):
    """A command that the fixture creates directly. `id` replaces its random id. `miner` "" means a miner of its own,
    because a miner gets one command at a time."""

    name: str
    command_type: str = "HASHING_ENABLE"
    params: dict[str, Any] = {}
    miner: str = ""
    priority: int = 0
    ttl_sec: int | None = None
    expires_at: str | None = None
    dedupe_key: str | None = None
    max_retries: int | None = None
    targets: list[str] | None = None
    id: str | None = None


class CommandsExpected(Expected, forbid_unknown_fields=True, kw_only=True):
    """The expected response and its effects."""

    # The dispatched commands in order.
    commands: list[str] | None = None
    error: str | None = None
    field: str | None = None
    # Each command must have the signature of the specification's formula over exactly the signed fields.
    signed: bool = False
    # Whether the request changes anything in the database except the audit trail.
    changes: bool | None = None
    # The new events in the audit trail of the site.
    audit: list[str] | None = None


class CommandsStep(Step, forbid_unknown_fields=True, kw_only=True):
    """Exactly one of the first seven fields says what the step does."""

    create: list[NewCommand] | None = None
    advance: float | None = None
    act: Literal["revoke", "rotate_secret", "sweep"] | None = None
    poll: str | None = None
    ack: str | None = None
    extend: str | None = None
    request: str | None = None

    by: Caller = "collector"
    json: Any = None
    body: str | None = None
    gzip: bool = False
    # Sign the body as an ACK: with the collector's secret, with its old secret, or with a wrong one.
    sign: Literal["right", "old", "wrong"] | None = None
    headers: list[tuple[str, str]] = msgspec.field(default_factory=list)
    # Commands that are created while the poll is parked.
    meanwhile: list[NewCommand] = msgspec.field(default_factory=list)
    # Names of values that later steps use, with their positions in the body.
    save: dict[str, str] = msgspec.field(default_factory=dict)
    # Whether the fast lane must answer. By default it must answer polls and ACKs.
    fast_lane: bool | None = None
    expected: CommandsExpected = msgspec.field(default_factory=CommandsExpected)

    def uses_fast_lane(self) -> bool:
        return (self.poll is not None or self.ack is not None) if self.fast_lane is None else self.fast_lane

    def is_request(self) -> bool:
        return self.create is None and self.advance is None and self.act is None

    def target(self) -> tuple[str, str]:
        """Method, path and query."""
        if self.poll is not None:
            return "GET", f"{BASE}/commands/poll" + (f"?{self.poll}" if self.poll else "")
        if self.ack is not None:
            return "POST", f"{BASE}/commands/{self.ack}/ack"
        if self.extend is not None:
            return "POST", f"{BASE}/commands/{self.extend}/extend"
        method, _, path = (self.request or "").partition(" ")
        # Paths of the older API are written in full.
        return method, path if path.startswith("/api/") else BASE + path


class CommandsCase(MultiStepCase[CommandsStep], forbid_unknown_fields=True, kw_only=True):
    # The specification's example has fixed ids of site, zone and miner.
    at_site_42: bool = False


class CommandsFixture(ProtocolFixture[CommandsCase, CommandsStep]):
    def __init__(self, server: LiveServer, clock: ManualClock) -> None:
        super().__init__(server, clock)
        clock.now_ms = START_MS
        self._options = commands_options(self.node.settings)
        self._keys = {role.name: self.write(api_keys.create, role.name, role)[1] for role in Role}
        self._sessions = {f"{role.name} person": self._session_of(role) for role in Role}
        user_id = add_user(self.node.database)
        device_token = self.node.identity.device_tokens.mint(user_id, add_device(self.node.database, user_id))
        self._keys |= {"device": device_token, "garbage": "garbage"}
        self.write(_add_site_42, self.node.commands.trail)
        self._site_count = 0

    def _session_of(self, role: Role) -> str:
        user_id = add_user(self.node.database, f"{role.name}@example.com", role)
        return str(self.write(sessions.start, user_id, SESSION_SECONDS))

    def set_up(self, case: CommandsCase) -> None:
        """Reset the clock and create a new site."""
        self.clock.now_ms = START_MS
        self._random_values: dict[bytes, bytes] = {}
        self._collectors: dict[str, NewCollector] = {}
        self._old_secret = ""
        self._site_count += 1
        self.write(self._add_site, 42 if case.at_site_42 else None)
        for collector in self._collectors.values():
            self.server.wait_for(self.node.identity.collector_tokens.verify(collector.token))
        self.write(collectors.revoke, self.node.commands.trail, self._collectors["revoked"].id, ACTOR)
        self.server.call(self.node.identity.collector_tokens.forget_all)
        for name in ("collector", "second", "zoned", "foreign"):
            self.server.wait_for(self.node.identity.collector_tokens.verify(self._collectors[name].token))
        self._refresh_cached_knowledge()

    def _add_site(self, conn: Connection, site_id: int | None) -> None:
        trail, box, n = self.node.commands.trail, self.node.commands.box, self._site_count
        site = sites.add(conn, trail, f"site {n}", ACTOR) if site_id is None else sites.get(conn, site_id)
        foreign = sites.add(conn, trail, f"foreign {n}", ACTOR)
        east = sites.add_zone(conn, trail, site.id, f"east {n}", ACTOR).id
        zones = {"zone": site.default_zone_id, "east": east, "foreign_zone": foreign.default_zone_id}
        self.names |= {"site": site.id, "foreign_site": foreign.id, **zones}
        for name, zone_id in (("miner", None), ("second_miner", None), ("east_miner", east)):
            own_id = 1001 if site_id is not None and name == "miner" else None
            self.names[name] = miners.add(conn, trail, MinerRequest(site.id, name, zone_id, own_id), ACTOR).id
        self.names["foreign_miner"] = miners.add(conn, trail, MinerRequest(foreign.id, "m"), ACTOR).id
        for name in ("collector", "second", "zoned", "revoked"):
            zone_id = east if name == "zoned" else None
            self._collectors[name] = collectors.create(conn, trail, box, site.id, zone_id, f"{name} {n}", ACTOR)
        self._collectors["foreign"] = collectors.create(conn, trail, box, foreign.id, None, "foreign", ACTOR)
        self.names["token"] = self._collectors["collector"].token
        self.names |= {("device" if name == "collector" else name): new.id for name, new in self._collectors.items()}

    def perform(self, step: CommandsStep) -> None:
        if step.create is not None:
            self.create(step.create)
        elif step.advance is not None:
            self.advance(step.advance)
        elif step.act is not None:
            getattr(self, step.act)()

    def act_while_waiting(self, step: CommandsStep) -> None:
        if step.meanwhile:
            self.server.wait_until(lambda: self.parked_count() == 1)
            self.create(step.meanwhile)

    def create(self, commands: list[NewCommand]) -> None:
        for command in commands:
            self.names[command.name] = self.write(self._create, command)

    def _create(self, conn: Connection, command: NewCommand) -> str:
        targets = None if command.targets is None else [self.names[name] for name in command.targets]
        if not command.miner and targets is None:
            own = MinerRequest(self.names["site"], f"miner of {command.name}")
            self.names[""] = miners.add(conn, self.node.commands.trail, own, ACTOR).id
        request = CommandRequest(
            site_id=self.names["foreign_site" if command.miner == "foreign_miner" else "site"],
            command_type=command.command_type,
            miner_id=None if targets else self.names[command.miner],
            target_ids=targets,
            params=json.dumps(command.params).encode(),
            priority=command.priority,
            ttl_sec=command.ttl_sec,
            expires_at_ms=None if command.expires_at is None else parse_iso(command.expires_at, "expires_at"),
            dedupe_key=self.filled(command.dedupe_key),
            max_retries=command.max_retries,
        )
        options = self._options.for_creation(self.node.commands.box)
        created = creation.create(conn, self.node.commands.trail, request, ACTOR, options)
        if command.id is None:
            return created.command_id
        conn.run(_RENAME, old=created.command_id, new=command.id)
        return command.id

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self._refresh_cached_knowledge()

    def _refresh_cached_knowledge(self) -> None:
        """The cached due times assume a clock that runs; this clock is moved by hand."""
        self.server.call(self.node.commands.poll.waiters.notify_all)
        self.server.call(self.node.commands.tick, self.clock.now_ms / 1000)

    def revoke(self) -> None:
        self.write(collectors.revoke, self.node.commands.trail, self._collectors["collector"].id, ACTOR)
        self.server.wait_until(lambda: self.node.identity.collector_tokens.cached_count == 0)

    def rotate_secret(self) -> None:
        commands, collector = self.node.commands, self._collectors["collector"]
        overlap = self._options.secret_overlap_seconds
        secret = self.write(collectors.rotate_secret, commands.trail, commands.box, collector.id, overlap, ACTOR)
        self._old_secret = collector.hmac_secret
        self._collectors["collector"] = replace(collector, hmac_secret=secret)

    def sweep(self) -> None:
        """Apply expired leases and deadlines, as the lease sweeper does once a minute."""
        self.server.wait_for(self.node.commands.lease_sweeper.run_once())

    def filled(self, value: Any) -> Any:
        return filled(value, self.names)

    def request(self, step: CommandsStep) -> Request:
        return Request(*self.target(step), self.headers(step), self.body(step))

    def target(self, step: CommandsStep) -> tuple[str, str]:
        method, path = step.target()
        return method, str(self.filled(path))

    def body(self, step: CommandsStep) -> bytes:
        if step.body is not None:
            body = str(self.filled(step.body)).encode()
        else:
            body = b"" if step.json is None else msgspec.json.encode(self._signed(step, self.filled(step.json)))
        return gzip.compress(body, mtime=0) if step.gzip else body

    def _signed(self, step: CommandsStep, body: Any) -> Any:
        if step.sign is None:
            return body
        right = self._collectors["collector"].hmac_secret
        secret = {"right": right, "old": self._old_secret, "wrong": "0" * 64}[step.sign]
        return {**body, "signature": signature_by_formula(body, secret)}

    def headers(self, step: CommandsStep) -> list[tuple[str, str]]:
        headers = [(name, str(self.filled(value))) for name, value in step.headers]
        names = {name.lower() for name, _ in headers}
        if step.by in self._sessions:
            headers.insert(0, ("Cookie", f"{SESSION_COOKIE}={self._sessions[step.by]}"))
        elif step.by != "anonymous" and "authorization" not in names:
            collector = self._collectors.get(step.by)
            token = self._keys[step.by] if collector is None else collector.token
            headers.insert(0, ("Authorization", f"Bearer {token}"))
        if self.target(step)[0] != "GET" and "content-type" not in names:
            headers.append(("Content-Type", "application/json"))
        if step.gzip:
            headers.append(("Content-Encoding", "gzip"))
        return headers

    def snapshot(self, step: CommandsStep) -> tuple[int, Dump | None]:
        return len(self.events()), None if step.expected.changes is None else self.data()

    def check(self, step: CommandsStep, response: RawResponse, before: tuple[int, Dump | None]) -> None:
        expected, (events, data) = step.expected, before
        check_response(expected, response, self.names)
        self._check_body(expected, body_of(response))
        if data is not None:
            assert (self.data() != data) == expected.changes
        if expected.audit is not None:
            assert self.events()[events:] == expected.audit
        for name, position in step.save.items():
            self.names[name] = value_at(body_of(response), position)

    def _check_body(self, expected: CommandsExpected, body: Any) -> None:
        if expected.commands is not None:
            assert [command["command_id"] for command in body["commands"]] == self.filled(expected.commands)
        if expected.error is not None:
            assert body["error"] == expected.error, body
            assert isinstance(body["message"], str)
            assert body["message"]
        if expected.field is not None:
            assert body["field"] == expected.field, body
        if expected.signed:
            for command in body["commands"]:
                signed = {field: command[field] for field in SIGNED_FIELDS}
                secret = self._collectors["collector"].hmac_secret
                assert command["signature"] == signature_by_formula(signed, secret)

    def normalized(self, response: RawResponse) -> RawResponse:
        """Random values are numbered in the order of their first occurrence."""

        def numbered(found: re.Match[bytes]) -> bytes:
            return self._random_values.setdefault(found[0], b"<%d>" % len(self._random_values))

        return response.without_date()._replace(body=_RANDOM.sub(numbered, response.body))

    def data(self) -> Dump:
        return {name: rows for name, rows in self.node.database.read_now(dump).items() if name not in NOT_COMPARED}

    def events(self) -> list[str]:
        rows = self.node.database.read_now(lambda conn: conn.all(_EVENTS, chain=self.names["site"]))
        return [row["event"] for row in rows]

    def parked_count(self) -> int:
        return self.node.commands.poll.parked_count


def signature_by_formula(fields: dict[str, Any], secret: str) -> str:
    """The signature by the code of the specification."""
    canonical_json = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hmac.new(secret.encode("utf-8"), canonical_json.encode("utf-8"), hashlib.sha256).hexdigest()


def _add_site_42(conn: Connection, trail: AuditTrail) -> None:
    conn.run(_SITE_42)
    conn.run(_ZONE_5)
    trail.record(conn, AuditEntry(42, ACTOR, "site.created", None, None, None, {}))
