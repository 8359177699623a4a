"""One way to a node for the cases of edge commands: through the application, or through a socket behind the fast lane.

For each case there is a new site: with two zones, miners, a collector of the whole site, a second one, one of the
eastern zone, a revoked one, and a foreign site beside it.
"""

import asyncio
import gzip
import hashlib
import hmac
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import msgspec

from restante.commands import collectors, creation, miners, sites
from restante.commands.audit import AuditEntry, AuditTrail
from restante.commands.collectors import NewCollector
from restante.commands.creation import CommandWish
from restante.commands.miners import MinerWish
from restante.commands.poll import WAIT_MAX_SECONDS
from restante.commands.wire import parse_iso
from restante.database.connection import Connection
from restante.database.queries import Query
from restante.identity import api_keys
from restante.identity.callers import Role
from restante.server.options import commands_options
from restante.server.settings import DECLARED
from tests.conformance.command_cases import Made, Step
from tests.conftest import ManualClock
from tests.identity.population import add_device, add_user
from tests.server.serving import Served, WireAnswer

# The specification's own moment, 2026-01-18T10:00:00Z.
START_MS = 1_768_730_400_000
ACTOR = "tests"

_SITE_42 = Query("site_42", "INSERT INTO edge_sites (id, name, created_at) VALUES (42, 'forty-two', 0)")
_ZONE_5 = Query(
    "zone_5", "INSERT INTO edge_zones (id, site_id, name, is_default, created_at) VALUES (5, 42, 'd', 1, 0)"
)
_RENAME = Query("rename", "UPDATE miner_commands SET command_id = :new WHERE command_id = :old")
_EVENTS = Query("events", "SELECT event FROM command_audit WHERE chain = :chain ORDER BY n")
_NAME = re.compile(r"\{(\w+)\}")
_DRAWN = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{64}|cmd_[0-9a-f]{24}|\bed_[\w-]{20,}")


class Way(ABC):
    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.clock = ManualClock()
        self.clock.now_ms = START_MS
        read = {name: DECLARED[name].kind.read(value) for name, value in settings.items()}
        self.served = Served(folder, clock=self.clock, is_still=True, **read)
        self.node = self.served.node
        self._options = commands_options(self.node.settings)
        self._keys = {role.name: self._write(api_keys.create, role.name, role)[1] for role in Role}
        user_id = add_user(self.node.database)
        device_token = self.node.tokens.mint(user_id, add_device(self.node.database, user_id))
        self._keys |= {"device": device_token, "garbage": "garbage"}
        self._write(_add_site_42, self.node.commands.trail)
        self._sites = 0

    @abstractmethod
    def ask(self, step: Step, meanwhile: Callable[[], None]) -> WireAnswer:
        """The answer to the step's request; what happens meanwhile happens when it waits."""

    def begin(self, at_site_42: bool) -> None:
        """A new site, and the moment at which every case begins."""
        self.clock.now_ms = START_MS
        self.bound: dict[str, Any] = {}
        self._drawn: dict[bytes, bytes] = {}
        self._hired: dict[str, NewCollector] = {}
        self._old_secret = ""
        self._sites += 1
        self._write(self._furnish, 42 if at_site_42 else None)
        for hired in self._hired.values():
            self.served.wait_for(self.node.collector_tokens.verify(hired.token))
        self._write(collectors.revoke, self.node.commands.trail, self._hired["revoked"].id, ACTOR)
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

    def create(self, made: list[Made]) -> None:
        for each in made:
            self.bound[each.name] = self._write(self._create, each)

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
        self._write(collectors.revoke, self.node.commands.trail, self._hired["collector"].id, ACTOR)
        self.served.until(lambda: self.node.collector_tokens.cached_count == 0)

    def rotate_secret(self) -> None:
        commands, hired = self.node.commands, self._hired["collector"]
        overlap = self._options.secret_overlap_seconds
        secret = self._write(collectors.rotate_secret, commands.trail, commands.box, hired.id, overlap, ACTOR)
        self._old_secret = hired.hmac_secret
        self._hired["collector"] = hired._replace(hmac_secret=secret)

    def settle(self) -> None:
        """What the scheduler does once a minute."""
        self.served.wait_for(self.node.commands.recovery.run_once())

    # Requests.

    def filled(self, value: Any) -> Any:
        """The value with what its names stand for; a text that is one name becomes that thing, a number for one."""
        match value:
            case str():
                whole = _NAME.fullmatch(value)
                if whole and whole[1] in self.bound:
                    return self.bound[whole[1]]
                return _NAME.sub(lambda name: str(self.bound.get(name[1], name[0])), value)
            case list():
                return [self.filled(each) for each in value]
            case dict():
                return {key: self.filled(each) for key, each in value.items()}
        return value

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

    def same_in_both(self, answer: WireAnswer) -> WireAnswer:
        """The answer without its date, and with what was drawn at random named in the order it was seen."""

        def named(found: re.Match[bytes]) -> bytes:
            return self._drawn.setdefault(found[0], b"<%d>" % len(self._drawn))

        return answer.without_date()._replace(body=_DRAWN.sub(named, answer.body))

    def secret(self) -> str:
        return self._hired["collector"].hmac_secret

    def events(self) -> list[str]:
        rows = self.node.database.read_now(lambda conn: conn.all(_EVENTS, chain=self.bound["site"]))
        return [row["event"] for row in rows]

    def waiting_count(self) -> int:
        return self.node.commands.poll.bell.waiting_count

    def _write(self, work: Callable[..., Any], *args: Any) -> Any:
        return self.node.database.write_now(work, *args)


class ByApplication(Way):
    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        super().__init__(folder, settings)
        self._application = self.node.application(with_lifespan=False)

    def ask(self, step: Step, meanwhile: Callable[[], None]) -> WireAnswer:
        answer = asyncio.run_coroutine_threadsafe(self._ask(step), self.served.loop)
        meanwhile()
        return answer.result(WAIT_MAX_SECONDS)

    async def _ask(self, step: Step) -> WireAnswer:
        method, path = self.target(step)
        url = f"http://restante.test{path}"
        request = httpx.Request(method, url, headers=self.headers(step), content=self.body(step))
        response = await httpx.ASGITransport(self._application).handle_async_request(request)
        # An ASGI server sends no body in answer to HEAD, whatever the application gives it.
        body = b"" if method == "HEAD" else await response.aread()
        return WireAnswer(response.status_code, response.headers.raw, body)


class BySocket(Way):
    def ask(self, step: Step, meanwhile: Callable[[], None]) -> WireAnswer:
        (method, path), body = self.target(step), self.body(step)
        lines = [f"{method} {path} HTTP/1.1", "Host: restante.test"]
        lines += [f"{name}: {value}" for name, value in self.headers(step)]
        if body or method == "POST":
            lines.append(f"Content-Length: {len(body)}")
        with self.served.connect() as wire:
            wire.send("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
            meanwhile()
            return wire.answer(is_to_head=method == "HEAD")


def signature_by_formula(fields: dict[str, Any], secret: str) -> str:
    """The specification's own lines."""
    canonical_json = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hmac.new(secret.encode("utf-8"), canonical_json.encode("utf-8"), hashlib.sha256).hexdigest()


def _add_site_42(conn: Connection, trail: AuditTrail) -> None:
    conn.run(_SITE_42)
    conn.run(_ZONE_5)
    trail.record(conn, AuditEntry(42, ACTOR, "site.created", None, None, None, {}))
