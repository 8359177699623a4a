"""A running server with one resource of every kind, and with every kind of caller.

For the tests that call all routes: `Resources` fills the ids of a path, `Callers` has the headers of each caller, and
`valid_bodies` has valid bodies.
"""

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import httpx
from joserfc import jws

from restante.commands.sites import collectors
from restante.database.connection import Connection
from restante.database.queries import Query
from restante.delivery.log.signals import Signal
from restante.delivery.outbox import outbox
from restante.identity import api_keys
from restante.identity.callers import Role
from restante.identity.jwt.jwts import AllowedAlgorithms
from restante.identity.people import sessions, users
from restante.server.app import Node
from restante.server.config.setting_types import CommaList
from restante.updates.fleet import groups
from restante.updates.fleet.device_filter import DeviceFilter
from restante.updates.install import install_configs
from restante.updates.install.install_configs import ConfigEdit
from restante.updates.install.install_items import checked_installs
from restante.updates.pki import assignments, authorities, issuing
from restante.web.access import SESSION_COOKIE
from restante.web.routes import Route
from tests.defaults import append_signals
from tests.identity.people_and_devices import SESSION_SECONDS, password_hash
from tests.server.edge_resources import APPROVED_TYPE, EdgeResources, add_edge_resources, is_edge
from tests.server.event_resources import EventResources, add_event_resources, add_invalid_tokens, is_event, is_ssf
from tests.server.live_server import LiveServer
from tests.updates.updates_fixture import DeviceFleet

ABSENT_ID = 999_999_999

_TABLES = Query(
    "tables",
    "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name",
    (("postgres", "SELECT tablename AS name FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename"),),
)
_FAIL = Query("fail", "UPDATE device_update_outbox SET status = 'FAILED' WHERE id = :id")
_NEWEST_ROW = Query("newest_row", "SELECT max(id) AS id FROM device_update_outbox")
_EXPIRE_SESSIONS = Query("outlive", "UPDATE sessions SET expires_at = 1 WHERE user_id = :user_id")

Headers = dict[str, str]


class Resources(NamedTuple):
    """The ids of one user's resources. `free_…` are not assigned to the device yet."""

    user_id: int
    device_id: int
    ca_id: int
    free_ca_id: int
    acct_id: int
    certificate_id: int
    free_certificate_id: int
    row_id: int
    apikey_id: int
    person_id: int
    key_id: int
    group_id: int
    edge: EdgeResources
    events: EventResources
    # Of the authority `ca_id`, as addresses of revocation lists have it.
    serial: str
    version: int = 1
    tag: str = "pilot"

    @property
    def cert_id(self) -> int:
        return self.certificate_id


class PopulatedServer:
    def __init__(self, folder: Path) -> None:
        approved = CommaList([APPROVED_TYPE])
        self.live_server = LiveServer(
            folder, has_services=False, poll_burst=1_000_000, events_wait_seconds=0, commands_needing_approval=approved
        )
        self.node: Node = self.live_server.node
        self.fleet = DeviceFleet(self.node.database)
        self.routes = self.node.routes()
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.live_server.fast_port}", timeout=30)

    def close(self) -> None:
        self.client.close()
        self.live_server.close()

    def add_resources(self, user_id: int) -> Resources:
        fleet, database = self.fleet, self.node.database
        device = fleet.add_device(user_id)
        ca, free_ca = fleet.add_authority(user_id), fleet.add_authority(user_id)
        account = fleet.add_account(ca.id, user_id)
        certificate = fleet.add_certificate(account.id, user_id=user_id)
        free_certificate = fleet.add_certificate(account.id, user_id=user_id)
        database.write_now(assignments.assign, user_id, device.id, certificate.id)
        database.write_now(authorities.assign, fleet.emit, user_id, device.id, ca.id)
        edit = ConfigEdit(user_id, device.id, "tests", None, None)
        database.write_now(install_configs.put, fleet.emit, edit, checked_installs([]), None)
        database.write_now(append_signals, device.id, [Signal("app.note", 1, {})])
        row_id = database.write_now(_add_failed_row, device.id)
        apikey_id, _ = database.write_now(api_keys.create, "own", Role.viewer, user_id)
        person_id = database.write_now(users.add, f"{uuid4()}@example.com", password_hash(), Role.viewer)
        key_id, _ = database.write_now(api_keys.create, "nightly", Role.viewer)
        saved = DeviceFilter(tag="pilot")
        group = database.write_now(groups.create, f"group {uuid4()}", user_id, saved, "tests")
        own = (device.id, ca.id, free_ca.id, account.id, certificate.id, free_certificate.id, row_id, apikey_id)
        others = (person_id, key_id, group.id)
        serial = ca.serial_number.replace(":", "")
        return Resources(user_id, *own, *others, self.add_edge_resources(), self.add_event_resources(), serial)

    def add_edge_resources(self) -> EdgeResources:
        return self.node.database.write_now(add_edge_resources, self.node)

    def add_event_resources(self) -> EventResources:
        return self.node.database.write_now(add_event_resources, self.node.master_key)

    def issue_and_wrap(self, resources: Resources) -> None:
        """Issue the certificate of the device, and encrypt its key for the device."""
        database = self.node.database
        plan = database.read_now(issuing.plan, resources.user_id, resources.certificate_id)
        material = issuing.make_certificate(plan, self.node.master_key, 3600)
        database.write_now(issuing.store, self.fleet.emit, plan, material)
        self.live_server.wait_for(self.node.updates.wrap_worker.run_once())

    def request(self, route: Route, path: str, headers: Headers, body: Any = None) -> httpx.Response:
        return self.client.request(route.method, path, headers=headers, json=body)

    def dump(self) -> dict[str, list[tuple[Any, ...]]]:
        """The content of all tables."""
        return self.node.database.read_now(dump)


def fill_path(route: Route, resources: Resources) -> str:
    values: Any = resources
    if is_edge(route) or is_job(route):
        values = resources.edge.for_route(route)
    elif is_event(route) or is_ssf(route):
        values = resources.events.for_route(route)
    path = re.sub(r"\{(\w+)\}", lambda name: str(getattr(values, name[1])), route.path)
    # These routes take the stream in the query.
    return f"{path}?stream_id={resources.events.stream_id}" if is_ssf(route) and route.query else path


def is_job(route: Route) -> bool:
    return route.path.startswith(("/apiv1/jobs", "/apiv1/rollouts"))


def dump(conn: Connection) -> dict[str, list[tuple[Any, ...]]]:
    """Every table with its rows, sorted, because PostgreSQL returns them in no order."""
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
    """The headers of every kind of caller, by name. `owner` is an operator, and owns the resources."""

    def __init__(self, server: PopulatedServer, resources: Resources) -> None:
        self._node = server.node
        self.resources = resources
        self.viewer_id = self._add_user(Role.viewer)
        self.admin_id = self._add_user(Role.admin)
        self.other_id = self._add_user(Role.operator)
        self.headers: dict[str, Headers] = {
            "nobody": {},
            "garbage": _bearer("garbage"),
            "empty cookie": {"cookie": f"{SESSION_COOKIE}="},
            "garbage cookie": {"cookie": f"{SESSION_COOKIE}=garbage"},
            **self._devices(server),
            **self._collectors(server),
            **self._clients(),
            **self._keys(),
            **self._sessions(),
        }

    def _devices(self, server: PopulatedServer) -> dict[str, Headers]:
        tokens, device_id = self._node.identity.device_tokens, self.resources.device_id
        revoked = server.fleet.add_device(self.resources.user_id)
        server.fleet.revoke_device(revoked)
        return {
            "device": _bearer(tokens.mint(self.resources.user_id, device_id)),
            "device under another user": _bearer(tokens.mint(self.other_id, device_id)),
            "revoked device": _bearer(tokens.mint(self.resources.user_id, revoked.id)),
            "absent device": _bearer(tokens.mint(self.resources.user_id, ABSENT_ID)),
            "expired device token": _bearer(self._expired_token()),
        }

    def _collectors(self, server: PopulatedServer) -> dict[str, Headers]:
        trail, rotated, revoked = (
            self._node.commands.trail,
            server.add_edge_resources(),
            server.add_edge_resources(),
        )
        self._write(collectors.rotate_token, trail, rotated.device_id, "tests")
        self._write(collectors.revoke, trail, revoked.device_id, "tests")
        return {
            "collector": _bearer(self.resources.edge.token),
            "collector of another site": _bearer(server.add_edge_resources().token),
            "collector with an old token": _bearer(rotated.token),
            "revoked collector": _bearer(revoked.token),
        }

    def _clients(self) -> dict[str, Headers]:
        invalid = {name: _bearer(token) for name, token in self._write(add_invalid_tokens).items()}
        return {"client": _bearer(self.resources.events.token), **invalid}

    def _expired_token(self) -> str:
        kid, key = self._node.identity.signing_keys.signing
        claims = b'{"iss":"restante","sub":"%d","device_id":%d,"exp":%d}' % (
            self.resources.user_id,
            self.resources.device_id,
            time.time() - 1,
        )
        return jws.serialize_compact(
            {"alg": "EdDSA", "typ": "at+jwt", "kid": kid}, claims, key, registry=AllowedAlgorithms(["EdDSA"])
        )

    def _keys(self) -> dict[str, Headers]:
        keys = {role.name: self._write(api_keys.create, role.name, role) for role in Role}
        revoked_id, revoked = self._write(api_keys.create, "revoked", Role.admin)
        self._write(api_keys.revoke, revoked_id)
        return {
            **{f"{name} key": _bearer(key) for name, (_, key) in keys.items()},
            "revoked key": _bearer(revoked),
            "owner's key": self._key_of(self.resources.user_id),
            "another operator's key": self._key_of(self.other_id),
            "admin's own key": self._key_of(self.admin_id),
        }

    def _key_of(self, user_id: int) -> Headers:
        """A key of the user with the highest role, so that it is the user's own role that counts."""
        return _bearer(self._write(api_keys.create, "own", Role.admin, user_id)[1])

    def _sessions(self) -> dict[str, Headers]:
        owner_id = self.resources.user_id
        late_id = self._add_user(Role.admin)
        expired = self._session(late_id)
        self._write(_expire_sessions, late_id)
        ended = self._write(sessions.start, owner_id, SESSION_SECONDS)
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
        return {"cookie": f"{SESSION_COOKIE}={self._write(sessions.start, user_id, SESSION_SECONDS)}"}

    def _write(self, work: Callable[..., Any], *args: Any) -> Any:
        return self._node.database.write_now(work, *args)


def _expire_sessions(conn: Connection, user_id: int) -> None:
    conn.run(_EXPIRE_SESSIONS, user_id=user_id)


def _bearer(token: str) -> Headers:
    return {"authorization": f"Bearer {token}"}
