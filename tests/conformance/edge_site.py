"""The world of the cases of edge commands.

For each case there is a new site: with two zones, miners, a collector of the whole site, a second one, one of the
eastern zone, a revoked one, and a foreign site beside it.
"""

import gzip
import json
import re
from typing import Any

import msgspec

from restante.commands import collectors, creation, miners, sites
from restante.commands.audit import AuditEntry, AuditTrail
from restante.commands.collectors import NewCollector
from restante.commands.creation import CommandWish
from restante.commands.miners import MinerWish
from restante.commands.wire import parse_iso
from restante.database.connection import Connection
from restante.database.queries import Query
from restante.identity import api_keys
from restante.identity.callers import Role
from restante.server.options import commands_options
from tests.conformance.cases import body_of, filled, found_at
from tests.conformance.command_answers import check_answer, signature_by_formula
from tests.conformance.command_cases import Case, Made, Step
from tests.conformance.runner import Request, World
from tests.conftest import ManualClock
from tests.identity.population import add_device, add_user
from tests.server.inhabited import dump
from tests.server.serving import Served, WireAnswer

# The specification's own moment, 2026-01-18T10:00:00Z.
START_MS = 1_768_730_400_000
ACTOR = "tests"
# Beside the trail, the ids that will be given next: one may be passed over without anything having changed.
NOT_COMPARED = {"command_audit", "audit_checkpoints", "sqlite_sequence"}

Dump = dict[str, list[tuple[Any, ...]]]

_SITE_42 = Query("site_42", "INSERT INTO edge_sites (id, name, created_at) VALUES (42, 'forty-two', 0)")
_ZONE_5 = Query(
    "zone_5", "INSERT INTO edge_zones (id, site_id, name, is_default, created_at) VALUES (5, 42, 'd', 1, 0)"
)
_RENAME = Query("rename", "UPDATE miner_commands SET command_id = :new WHERE command_id = :old")
_EVENTS = Query("events", "SELECT event FROM command_audit WHERE chain = :chain ORDER BY n")
_DRAWN = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{64}|cmd_[0-9a-f]{24}|\bed_[\w-]{20,}")


class EdgeSite(World[Case, Step]):
    def __init__(self, served: Served, clock: ManualClock) -> None:
        super().__init__(served, clock)
        clock.now_ms = START_MS
        self._options = commands_options(self.node.settings)
        self._keys = {role.name: self.write(api_keys.create, role.name, role)[1] for role in Role}
        user_id = add_user(self.node.database)
        device_token = self.node.tokens.mint(user_id, add_device(self.node.database, user_id))
        self._keys |= {"device": device_token, "garbage": "garbage"}
        self.write(_add_site_42, self.node.commands.trail)
        self._sites = 0

    def begin(self, case: Case) -> None:
        """A new site, and the moment at which every case begins."""
        self.clock.now_ms = START_MS
        self.bound: dict[str, Any] = {}
        self._drawn: dict[bytes, bytes] = {}
        self._hired: dict[str, NewCollector] = {}
        self._old_secret = ""
        self._sites += 1
        self.write(self._furnish, 42 if case.at_site_42 else None)
        for hired in self._hired.values():
            self.served.wait_for(self.node.collector_tokens.verify(hired.token))
        self.write(collectors.revoke, self.node.commands.trail, self._hired["revoked"].id, ACTOR)
        self.served.call(self.node.collector_tokens.forget_all)
        for name in ("collector", "second", "zoned", "foreign"):
            self.served.wait_for(self.node.collector_tokens.verify(self._hired[name].token))
        self._look_anew()

    def _furnish(self, conn: Connection, site_id: int | None) -> None:
        trail, box, n = self.node.commands.trail, self.node.commands.box, self._sites
        site = sites.add(conn, trail, f"site {n}", ACTOR) if site_id is None else sites.get(conn, site_id)
        foreign = sites.add(conn, trail, f"foreign {n}", ACTOR)
        east = sites.add_zone(conn, trail, site.id, f"east {n}", ACTOR).id
        zones = {"zone": site.default_zone_id, "east": east, "foreign_zone": foreign.default_zone_id}
        self.bound |= {"site": site.id, "foreign_site": foreign.id, **zones}
        for name, zone_id in (("miner", None), ("second_miner", None), ("east_miner", east)):
            own_id = 1001 if site_id is not None and name == "miner" else None
            self.bound[name] = miners.add(conn, trail, MinerWish(site.id, name, zone_id, own_id), ACTOR).id
        self.bound["foreign_miner"] = miners.add(conn, trail, MinerWish(foreign.id, "m"), ACTOR).id
        for name in ("collector", "second", "zoned", "revoked"):
            zone_id = east if name == "zoned" else None
            self._hired[name] = collectors.create(conn, trail, box, site.id, zone_id, f"{name} {n}", ACTOR)
        self._hired["foreign"] = collectors.create(conn, trail, box, foreign.id, None, "foreign", ACTOR)
        self.bound |= {("device" if name == "collector" else name): hired.id for name, hired in self._hired.items()}

    # What happens beside requests.

    def happen(self, step: Step) -> None:
        if step.create is not None:
            self.create(step.create)
        elif step.advance is not None:
            self.advance(step.advance)
        elif step.act is not None:
            getattr(self, step.act)()

    def meanwhile(self, step: Step) -> None:
        if step.meanwhile:
            self.served.until(lambda: self.waiting_count() == 1)
            self.create(step.meanwhile)

    def create(self, made: list[Made]) -> None:
        for each in made:
            self.bound[each.name] = self.write(self._create, each)

    def _create(self, conn: Connection, made: Made) -> str:
        targets = None if made.targets is None else [self.bound[name] for name in made.targets]
        wish = CommandWish(
            site_id=self.bound["foreign_site" if made.miner == "foreign_miner" else "site"],
            command_type=made.command_type,
            miner_id=None if targets else self.bound[made.miner],
            target_ids=targets,
            params=json.dumps(made.params).encode(),
            priority=made.priority,
            ttl_sec=made.ttl_sec,
            expires_at_ms=None if made.expires_at is None else parse_iso(made.expires_at, "expires_at"),
            dedupe_key=self.filled(made.dedupe_key),
            max_retries=made.max_retries,
        )
        created = creation.create(conn, self.node.commands.trail, wish, ACTOR, self._options.for_creation())
        if made.id is None:
            return created.command_id
        conn.run(_RENAME, old=created.command_id, new=made.id)
        return made.id

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self._look_anew()

    def _look_anew(self) -> None:
        """The moments that the bell remembers are of a clock that moves by itself; this one is moved."""
        self.served.call(self.node.commands.poll.bell.ring_all)
        self.served.call(self.node.commands.tick, self.clock.now_ms / 1000)

    def revoke(self) -> None:
        self.write(collectors.revoke, self.node.commands.trail, self._hired["collector"].id, ACTOR)
        self.served.until(lambda: self.node.collector_tokens.cached_count == 0)

    def rotate_secret(self) -> None:
        commands, hired = self.node.commands, self._hired["collector"]
        overlap = self._options.secret_overlap_seconds
        secret = self.write(collectors.rotate_secret, commands.trail, commands.box, hired.id, overlap, ACTOR)
        self._old_secret = hired.hmac_secret
        self._hired["collector"] = hired._replace(hmac_secret=secret)

    def settle(self) -> None:
        """What the scheduler does once a minute."""
        self.served.wait_for(self.node.commands.recovery.run_once())

    # Requests.

    def filled(self, value: Any) -> Any:
        return filled(value, self.bound)

    def request(self, step: Step) -> Request:
        return Request(*self.target(step), self.headers(step), self.body(step))

    def target(self, step: Step) -> tuple[str, str]:
        method, path = step.target()
        return method, str(self.filled(path))

    def body(self, step: Step) -> bytes:
        if step.body is not None:
            body = str(self.filled(step.body)).encode()
        else:
            body = b"" if step.json is None else msgspec.json.encode(self._signed(step, self.filled(step.json)))
        return gzip.compress(body, mtime=0) if step.gzip else body

    def _signed(self, step: Step, said: Any) -> Any:
        if step.sign is None:
            return said
        right = self._hired["collector"].hmac_secret
        secret = {"right": right, "old": self._old_secret, "wrong": "0" * 64}[step.sign]
        return {**said, "signature": signature_by_formula(said, secret)}

    def headers(self, step: Step) -> list[tuple[str, str]]:
        headers = [(name, str(self.filled(value))) for name, value in step.headers]
        names = {name.lower() for name, _ in headers}
        if step.by != "nobody" and "authorization" not in names:
            hired = self._hired.get(step.by)
            token = self._keys[step.by] if hired is None else hired.token
            headers.insert(0, ("Authorization", f"Bearer {token}"))
        if self.target(step)[0] != "GET" and "content-type" not in names:
            headers.append(("Content-Type", "application/json"))
        if step.gzip:
            headers.append(("Content-Encoding", "gzip"))
        return headers

    # What came of it.

    def look(self, step: Step) -> tuple[int, Dump | None]:
        return len(self.events()), None if step.expected.changes is None else self.things()

    def check(self, step: Step, answer: WireAnswer, before: tuple[int, Dump | None]) -> None:
        expected, (events, things) = step.expected, before
        check_answer(self, expected, answer)
        if things is not None:
            assert (self.things() != things) == expected.changes
        if expected.audit is not None:
            assert self.events()[events:] == expected.audit
        for name, where in step.save.items():
            self.bound[name] = found_at(body_of(answer), where)

    def same_in_both(self, answer: WireAnswer) -> WireAnswer:
        """The answer without its date, and with what was drawn at random named in the order it was seen."""

        def named(found: re.Match[bytes]) -> bytes:
            return self._drawn.setdefault(found[0], b"<%d>" % len(self._drawn))

        return answer.without_date()._replace(body=_DRAWN.sub(named, answer.body))

    def secret(self) -> str:
        return self._hired["collector"].hmac_secret

    def things(self) -> Dump:
        return {name: rows for name, rows in self.node.database.read_now(dump).items() if name not in NOT_COMPARED}

    def events(self) -> list[str]:
        rows = self.node.database.read_now(lambda conn: conn.all(_EVENTS, chain=self.bound["site"]))
        return [row["event"] for row in rows]

    def waiting_count(self) -> int:
        return self.node.commands.poll.bell.waiting_count


def _add_site_42(conn: Connection, trail: AuditTrail) -> None:
    conn.run(_SITE_42)
    conn.run(_ZONE_5)
    trail.record(conn, AuditEntry(42, ACTOR, "site.created", None, None, None, {}))
