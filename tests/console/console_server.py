"""A running server with people of several roles and something on every page of the console, and a client without a
browser that signs in, reads pages and posts their forms."""

import re
import time
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

import httpx

from restante.database.connection import Connection
from restante.database.queries import Query
from restante.delivery.log.signals import Signal
from restante.delivery.outbox import outbox
from restante.identity import api_keys, secret_tokens
from restante.identity.grants import Grants, Role, checked_grants, parse_grant
from restante.identity.people import sessions, users
from restante.server.config.setting_types import CommaList
from restante.updates.devices import devices
from restante.updates.install import install_configs
from restante.updates.install.install_configs import ConfigEdit
from restante.updates.install.install_items import checked_installs
from restante.updates.pki import assignments, authorities
from restante.web.access import SESSION_COOKIE
from tests.identity.people_and_devices import PASSWORD, SESSION_SECONDS, details, password_hash
from tests.server.edge_resources import APPROVED_TYPE, EdgeResources, add_edge_resources
from tests.server.event_resources import EventResources, add_event_resources
from tests.server.live_server import LiveServer
from tests.updates.updates_fixture import DeviceFleet

_FAIL = Query(
    "fail",
    "UPDATE device_update_outbox SET status = 'FAILED', attempts = 5, failure_reason = 'there is no device 7' "
    "WHERE id = (SELECT max(id) FROM device_update_outbox) RETURNING id",
)
_FAIL_RENEWAL = Query(
    "fail_renewal",
    "UPDATE cert_records SET renewal_failures = 3, renewal_error = :error, renewal_failed_at = :now_ms, "
    "renew_at = :now_ms + 3600000 WHERE id = (SELECT max(id) FROM cert_records WHERE status = 'issued') RETURNING id",
)
_OUTDATE = Query("outdate", "UPDATE sessions SET confirmed_at = 1 WHERE token_hash = :token_hash")
_TOKEN = re.compile(r'name="form_token" value="([^"]+)"')
RETRY_FIELDS = {"target": "outbox", "action": "retry"}
_MODELS = ("Edge gateway 4", "Edge gateway 4", "Till printer", "Lift controller")


class ConsoleServer:
    """`people`: the grants of each person of the tests, by name; their e-mail is `<name>@example.com`."""

    people: ClassVar[dict[str, str]] = {
        "admin": "admin@all",
        "fleet": "admin@updates",
        "site": "operator@commands",
        "approver": "approver@commands",
        "bank": "operator@events",
        "viewer": "viewer@events:nobody",
    }

    def __init__(self, folder: Path, live: LiveServer | None = None, **settings: Any) -> None:
        """`live`: the server, if it is running already."""
        self.live = live or LiveServer(folder, commands_needing_approval=CommaList([APPROVED_TYPE]), **settings)
        self.node = self.live.node
        self.database = self.node.database
        self.base_url = f"http://127.0.0.1:{self.live.fast_port}"
        self.fleet = DeviceFleet(self.database)
        self.user_ids = {name: self.add_person(name, grants) for name, grants in self.people.items()}
        self.owner_id = self.fleet.user_id

    def close(self) -> None:
        self.live.close()

    def add_person(self, name: str, *grants: str) -> int:
        checked: Grants = checked_grants(map(parse_grant, grants))
        return self.database.write_now(users.add, f"{name}@example.com", password_hash(), checked, "tests")

    def add_device(self, name: str = "", user_id: int | None = None, place: int = 0) -> int:
        described = details(
            name=name, model=_MODELS[place % len(_MODELS)], platform="linux/arm64", app_version=f"2.{place % 4}.0"
        )
        return self.database.write_now(devices.register, user_id or self.owner_id, described).id

    def add_full_device(self, name: str = "till-front") -> int:
        """A device with two versions of a config, a certificate, an authority and signals."""
        device_id, fleet = self.add_device(name), self.fleet
        for note, path in (("first version", "/etc/ssl/site.pem"), ("new path", "/etc/ssl/private/site.pem")):
            items: list[dict[str, Any]] = [{"id": "site", "type": "copy", "from": ["fullchain.pem"], "to": [path]}]
            edit = ConfigEdit(self.owner_id, device_id, "ada@example.com", note)
            self.database.write_now(install_configs.put, self.node.outbox.emit, edit, checked_installs(items), None)
        authority = fleet.add_authority()
        account = fleet.add_account(authority.id)
        certificate = fleet.add_certificate(account.id, "till.example.com")
        fleet.issue(certificate.id, 86_400 * 20)
        fleet.add_certificate(account.id, "spare.example.com")
        self.database.write_now(assignments.assign, self.owner_id, device_id, certificate.id)
        self.database.write_now(authorities.assign, self.node.outbox.emit, self.owner_id, device_id, authority.id)
        return device_id

    def fail_renewal(self, error: str = "the account was deleted") -> int:
        """Make the renewal of the newest issued certificate fail; return its id."""

        def fail(conn: Connection) -> int:
            row = conn.one(_FAIL_RENEWAL, error=error, now_ms=conn.now_ms)
            assert row is not None
            return int(row["id"])

        return self.database.write_now(fail)

    def add_failed_row(self, device_id: int) -> int:
        def add(conn: Connection) -> int:
            outbox.enqueue(conn, device_id, Signal("app.refresh", conn.now_ms, {"id": 7}))
            row = conn.one(_FAIL)
            assert row is not None
            return int(row["id"])

        return self.database.write_now(add)

    def add_edge_resources(self) -> EdgeResources:
        return self.database.write_now(add_edge_resources, self.node)

    def add_event_resources(self) -> EventResources:
        return self.database.write_now(add_event_resources, self.node.master_key)

    def add_key(self, name: str = "nightly") -> int:
        return self.database.write_now(api_keys.create, f"{name} {uuid4().hex[:6]}", Role.viewer)[0]

    def add_updates_key(self) -> int:
        """A key that administrators of device updates may see."""
        grants = checked_grants([parse_grant("viewer@updates")])
        return self.database.write_now(api_keys.create, f"updates {uuid4().hex[:6]}", grants)[0]

    def outdate_password(self, session: str) -> None:
        """Make the time at which the person of the session gave the password long ago."""
        digest = secret_tokens.digest(session)
        self.database.write_now(lambda conn: conn.run(_OUTDATE, token_hash=digest))

    def session(self, name: str) -> str:
        """The cookie value of a new session of the person."""
        return self.database.write_now(sessions.start, self.user_ids[name], SESSION_SECONDS)

    def client(self, name: str | None) -> "ConsoleClient":
        """A client as this person, who has signed in; None: nobody."""
        return ConsoleClient(self.base_url, self.session(name) if name else None)


class ConsoleClient:
    def __init__(self, base_url: str, session: str | None) -> None:
        cookies = {SESSION_COOKIE: session} if session else {}
        self.http = httpx.Client(base_url=base_url, cookies=cookies, timeout=60, headers={"accept": "text/html"})
        self.origin = base_url
        self.session = session or ""

    def __enter__(self) -> "ConsoleClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    def get(self, path: str) -> httpx.Response:
        return self.http.get(path)

    def form_token(self, page: str = "/console") -> str:
        found = _TOKEN.search(self.get(page).text)
        assert found, "the page has no form"
        return unescape(found[1])

    def post(self, path: str, origin: str | None = None, token: str | None = None, **fields: str) -> httpx.Response:
        """Post a form as the browser does, from a page of this session."""
        data = {"form_token": self.form_token() if token is None else token, **fields}
        return self.http.post(path, data=data, headers={"origin": origin or self.origin})

    def sign_in(self, name: str, password: str = PASSWORD) -> httpx.Response:
        data = {"email": f"{name}@example.com", "password": password}
        return self.http.post("/console/sign-in", data=data, headers={"origin": self.origin})


def eventually(is_true: Callable[[], bool]) -> None:
    """Wait until it is true: the overview reads what it reports at most once a second."""
    end = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < end
        time.sleep(0.1)


def run_job(client: "ConsoleClient", **fields: str) -> str:
    """Make a dry run, create the job from its page, and return the path of the job."""
    shown = client.post("/console/jobs/new", **RETRY_FIELDS, **fields, step="dry-run")
    key = re.search(r'name="key" value="(\w+)"', shown.text)
    assert key, shown.text
    done = client.post("/console/jobs/new", **RETRY_FIELDS, **fields, step="run", key=key[1])
    again = client.post("/console/jobs/new", **RETRY_FIELDS, **fields, step="run", key=key[1])
    assert done.status_code == again.status_code == 303
    assert done.headers["location"] == again.headers["location"]
    return done.headers["location"].partition("?")[0]


def start_rollout(client: "ConsoleClient", name_prefix: str, waves: str) -> str:
    """Roll a config out to the devices whose names begin so, and return the path of the rollout."""
    wanted = {"target": "devices", "action": "put_config", "filter.name": name_prefix}
    params = {"params.installs": '[{"id": "site", "type": "copy", "from": ["a"], "to": ["/b"]}]'}
    shown = client.post("/console/jobs/new", **wanted, **params, step="dry-run")
    key = re.search(r'name="key" value="([\w-]+-waves)"', shown.text)
    assert key, shown.text
    rules = {"success_percent": "100", "error_percent": "50", "min_wave_seconds": "0", "max_wave_seconds": ""}
    fields = {**wanted, **params, **rules, "waves": waves, "name": "", "key": key[1], "step": "rollout"}
    done, again = client.post("/console/jobs/new", **fields), client.post("/console/jobs/new", **fields)
    assert done.status_code == again.status_code == 303, done.text
    assert done.headers["location"] == again.headers["location"]
    return str(done.headers["location"].partition("?")[0])
