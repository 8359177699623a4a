"""A served node with everything in it that a route can be about, and everybody who can call.

For the tests that go over all routes: `Things` fills the ids of a path, `Callers` has the headers of everybody; good
bodies are in `good_bodies`.
"""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import httpx
from joserfc import jws

from restante.commands import collectors
from restante.database.connection import Connection
from restante.database.queries import Query
from restante.delivery import log, outbox
from restante.delivery.signals import Signal
from restante.identity import api_keys, sessions, users
from restante.identity.callers import Role
from restante.identity.device_tokens import OnlyThese
from restante.server.app import Node
from restante.server.command_setting_kinds import TypeNames
from restante.updates import assignments, authorities, install_configs, issuing
from restante.updates.install_configs import Edit
from restante.updates.install_items import checked_installs
from restante.web.access import SESSION_COOKIE
from restante.web.routes import Route
from tests.identity.population import password_hash
from tests.server.edge_things import APPROVED_TYPE, EdgeThings, add_edge_things, is_edge
from tests.server.event_things import EventThings, add_event_things, add_unwelcome, is_event, is_signals
from tests.server.serving import Served
from tests.updates.world import World

ABSENT_ID = 999_999_999

_TABLES = Query(
    "tables",
    "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name",
    (("postgres", "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename"),),
)
_FAIL = Query("fail", "UPDATE device_update_outbox SET status = 'FAILED' WHERE id = :id")
_NEWEST_ROW = Query("newest_row", "SELECT max(id) AS id FROM device_update_outbox")
_OUTLIVE = Query("outlive", "UPDATE sessions SET expires_at = 1 WHERE user_id = :user_id")

Headers = dict[str, str]


class Things(NamedTuple):
    """One user's: whatever has an id. `free_…` are not the device's yet."""

    user_id: int
    device_id: int
    ca_id: int
    free_ca_id: int
    acct_id: int
    certificate_id: int
    free_certificate_id: int
    row_id: int
    edge: EdgeThings
    events: EventThings
    version: int = 1

    @property
    def cert_id(self) -> int:
        return self.certificate_id


class Inhabited:
    def __init__(self, folder: Path) -> None:
        approved = TypeNames([APPROVED_TYPE])
        self.served = Served(
            folder, is_still=True, poll_burst=1_000_000, events_wait_seconds=0, commands_needing_approval=approved
        )
        self.node: Node = self.served.node
        self.world = World(self.node.database)
        self.routes = self.node.routes()
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.served.fast_port}", timeout=30)

    def close(self) -> None:
        self.client.close()
        self.served.close()

    def add_things(self, user_id: int) -> Things:
        world, database = self.world, self.node.database
        device = world.add_device(user_id)
        ca, free_ca = world.add_authority(user_id), world.add_authority(user_id)
        account = world.add_account(ca.id, user_id)
        certificate = world.add_certificate(account.id, user_id=user_id)
        free_certificate = world.add_certificate(account.id, user_id=user_id)
        database.write_now(assignments.assign, user_id, device.id, certificate.id)
        database.write_now(authorities.assign, world.emit, user_id, device.id, ca.id)
        edit = Edit(user_id, device.id, "tests", None, None)
        database.write_now(install_configs.put, world.emit, edit, checked_installs([]), None)
        database.write_now(log.append, device.id, [Signal("app.note", 1, {})])
        row_id = database.write_now(_add_failed_row, device.id)
        ids = (device.id, ca.id, free_ca.id, account.id, certificate.id, free_certificate.id, row_id)
        return Things(user_id, *ids, self.add_edge_things(), self.add_event_things())

    def add_edge_things(self) -> EdgeThings:
        return self.node.database.write_now(add_edge_things, self.node)

    def add_event_things(self) -> EventThings:
        return self.node.database.write_now(add_event_things, self.node.master_key)

    def issue_and_wrap(self, things: Things) -> None:
        """Have the device's certificate issued, and its key wrapped for the device."""
        database = self.node.database
        plan = database.read_now(issuing.plan, things.user_id, things.certificate_id)
        material = issuing.carry_out(plan, self.node.master_key, 3600)
        database.write_now(issuing.store, self.world.emit, plan, material)
        self.served.wait_for(self.node.wrap_worker.run_once())

    def ask(self, route: Route, path: str, headers: Headers, body: Any = None) -> httpx.Response:
        return self.client.request(route.method, path, headers=headers, json=body)

    def dump(self) -> dict[str, list[tuple[Any, ...]]]:
        """Everything the database holds."""
        return self.node.database.read_now(dump)


def fill_path(route: Route, things: Things) -> str:
    of_route: Any = things
    if is_edge(route):
        of_route = things.edge.for_route(route)
    elif is_event(route) or is_signals(route):
        of_route = things.events.for_route(route)
    path = re.sub(r"\{(\w+)\}", lambda name: str(getattr(of_route, name[1])), route.path)
    # Which stream it is about is said in the query.
    return f"{path}?stream_id={things.events.stream_id}" if is_signals(route) and route.query else path


def dump(conn: Connection) -> dict[str, list[tuple[Any, ...]]]:
    """Every table with its rows, in an order of their own: PostgreSQL has none."""
    names = [row["name"] for row in conn.all(_TABLES)]
    return {
        name: sorted((tuple(dict(row).values()) for row in conn.all(Query(name, f"SELECT * FROM {name}"))), key=repr)
        for name in names
    }


def _add_failed_row(conn: Connection, device_id: int) -> int:
    outbox.enqueue(conn, device_id, Signal("app.failed", 1, {}))
    newest = conn.one(_NEWEST_ROW)
    assert newest is not None
    conn.run(_FAIL, id=newest["id"])
    return int(newest["id"])


class Callers:
    """Everybody who may knock, by name: the headers they knock with. `owner` is an operator whose things they are."""

    def __init__(self, inhabited: Inhabited, things: Things) -> None:
        self._node = inhabited.node
        self.things = things
        self.viewer_id = self._add_user(Role.viewer)
        self.admin_id = self._add_user(Role.admin)
        self.other_id = self._add_user(Role.operator)
        self.headers: dict[str, Headers] = {
            "nobody": {},
            "garbage": _bearer("garbage"),
            "empty cookie": {"cookie": f"{SESSION_COOKIE}="},
            "garbage cookie": {"cookie": f"{SESSION_COOKIE}=garbage"},
            **self._devices(inhabited),
            **self._collectors(inhabited),
            **self._clients(),
            **self._keys(),
            **self._sessions(),
        }

    def _devices(self, inhabited: Inhabited) -> dict[str, Headers]:
        tokens, device_id = self._node.tokens, self.things.device_id
        revoked = inhabited.world.add_device(self.things.user_id)
        inhabited.world.revoke_device(revoked)
        return {
            "device": _bearer(tokens.mint(self.things.user_id, device_id)),
            "device under another user": _bearer(tokens.mint(self.other_id, device_id)),
            "revoked device": _bearer(tokens.mint(self.things.user_id, revoked.id)),
            "absent device": _bearer(tokens.mint(self.things.user_id, ABSENT_ID)),
            "expired device token": _bearer(self._expired_token()),
        }

    def _collectors(self, inhabited: Inhabited) -> dict[str, Headers]:
        trail, rotated, revoked = self._node.commands.trail, inhabited.add_edge_things(), inhabited.add_edge_things()
        self._write(collectors.rotate_token, trail, rotated.device_id, "tests")
        self._write(collectors.revoke, trail, revoked.device_id, "tests")
        return {
            "collector": _bearer(self.things.edge.token),
            "collector of another site": _bearer(inhabited.add_edge_things().token),
            "collector with an old token": _bearer(rotated.token),
            "revoked collector": _bearer(revoked.token),
        }

    def _clients(self) -> dict[str, Headers]:
        unwelcome = {name: _bearer(token) for name, token in self._write(add_unwelcome).items()}
        return {"client": _bearer(self.things.events.token), **unwelcome}

    def _expired_token(self) -> str:
        kid, key = self._node.signing_keys.signing
        claims = b'{"iss":"restante","sub":"%d","device_id":%d,"exp":%d}' % (
            self.things.user_id,
            self.things.device_id,
            time.time() - 1,
        )
        return jws.serialize_compact({"alg": "EdDSA", "kid": kid}, claims, key, registry=OnlyThese(["EdDSA"]))

    def _keys(self) -> dict[str, Headers]:
        made = {role.name: self._write(api_keys.create, role.name, role) for role in Role}
        revoked_id, revoked = self._write(api_keys.create, "revoked", Role.admin)
        self._write(api_keys.revoke, revoked_id)
        return {
            **{f"{name} key": _bearer(key) for name, (_, key) in made.items()},
            "revoked key": _bearer(revoked),
        }

    def _sessions(self) -> dict[str, Headers]:
        owner_id = self.things.user_id
        late_id = self._add_user(Role.admin)
        expired = self._session(late_id)
        self._write(_outlive, late_id)
        ended = self._write(sessions.start, owner_id)
        self._write(sessions.end, ended)
        elsewhere = {"origin": "https://elsewhere.example"}
        return {
            "owner": self._session(owner_id),
            "owner, from another origin": self._session(owner_id) | elsewhere,
            "another operator": self._session(self.other_id),
            "viewer": self._session(self.viewer_id),
            "approver": self._session(self._add_user(Role.approver)),
            "admin": self._session(self.admin_id),
            "admin, from another origin": self._session(self.admin_id) | elsewhere,
            "expired session": expired,
            "ended session": {"cookie": f"{SESSION_COOKIE}={ended}"},
            "session and garbage": self._session(owner_id) | _bearer("garbage"),
        }

    def _add_user(self, role: Role) -> int:
        return int(self._write(users.add, f"{uuid4()}@example.com", password_hash(), role))

    def _session(self, user_id: int) -> Headers:
        return {"cookie": f"{SESSION_COOKIE}={self._write(sessions.start, user_id)}"}

    def _write(self, work: Callable[..., Any], *args: Any) -> Any:
        return self._node.database.write_now(work, *args)


def _outlive(conn: Connection, user_id: int) -> None:
    conn.run(_OUTLIVE, user_id=user_id)


def _bearer(token: str) -> Headers:
    return {"authorization": f"Bearer {token}"}
