"""People and keys over HTTP, through a real server. Every role in every scope: `test_scope_access.py`."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from restante.identity import api_keys
from restante.identity.grants import Role
from restante.identity.people import sessions, users
from restante.web.access import SESSION_COOKIE
from tests.identity.people_and_devices import PASSWORD, SESSION_SECONDS, password_hash
from tests.server.live_server import LiveServer
from tests.server.two_nodes import Nodes


class Access:
    def __init__(self, server: LiveServer) -> None:
        self.database = server.node.database
        self.url = f"http://127.0.0.1:{server.fast_port}"
        self._clients: list[httpx.Client] = []
        self.admin_id = self.add_person("admin@example.com", Role.admin)
        self.admin = self.session_of(self.admin_id)

    def add_person(self, email: str, role: Role = Role.viewer) -> int:
        return self.database.write_now(users.add, email, password_hash(), role)

    def session_of(self, user_id: int) -> httpx.Client:
        token = self.database.write_now(sessions.start, user_id, SESSION_SECONDS)
        return self._client(cookies={SESSION_COOKIE: token})

    def key(self, token: str) -> httpx.Client:
        return self._client(headers={"authorization": f"Bearer {token}"})

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def _client(self, **options: Any) -> httpx.Client:
        client = httpx.Client(base_url=self.url, timeout=30, **options)
        self._clients.append(client)
        return client

    def data(self, response: httpx.Response, status: int = 200) -> Any:
        assert response.status_code == status, response.text
        return response.json()["data"]


@pytest.fixture
def access(tmp_path: Path) -> Iterator[Access]:
    server = LiveServer(tmp_path, has_services=False)
    access = Access(server)
    yield access
    access.close()
    server.close()


def test_person_is_listed_changed_suspended_and_removed(access: Access) -> None:
    person_id = access.add_person("ada@example.com")
    person, path = access.session_of(person_id), f"/apiv1/people/{person_id}"
    assert person.get("/apiv1/me/devices").status_code == 200
    shown = access.data(access.admin.get(path))
    assert (shown["email"], shown["role"], shown["status"]) == ("ada@example.com", "viewer", "active")
    assert shown["grants"] == [{"role": "viewer", "scope": "all"}]
    assert shown in access.data(access.admin.get("/apiv1/people"))["items"]
    assert "password" not in str(shown)

    new = [{"role": "operator", "scope": "commands:3"}, {"role": "viewer", "scope": "commands:3"}]
    changed = access.data(access.admin.put(f"{path}/grants", json={"grants": new}))
    assert (changed["grants"], changed["role"]) == (new[:1], "operator")
    assert person.get("/apiv1/me/devices").status_code == 403
    assert person.get("/api/edge/v1/admin/sites").status_code == 200

    assert access.data(access.admin.post(f"{path}/suspend"))["status"] == "suspended"
    assert person.get("/api/edge/v1/admin/sites").status_code == 401
    signing_in = {"action": "login", "email": "ada@example.com", "password": PASSWORD}
    assert person.post("/auth/general", json=signing_in).status_code == 401
    assert access.data(access.admin.post(f"{path}/resume"))["suspended_at"] is None
    assert person.post("/auth/general", json=signing_in).status_code == 200

    assert access.admin.delete(path).status_code == 204
    assert access.admin.get(path).status_code == access.admin.delete(path).status_code == 404
    assert person.get("/api/edge/v1/admin/sites").status_code == 401
    page = access.data(access.admin.get("/apiv1/access-audit", params={"person_id": person_id}))
    assert [(each["actor"], each["event"]) for each in page["items"]] == [
        ("admin@example.com", "person.removed"),
        ("admin@example.com", "person.resumed"),
        ("admin@example.com", "person.suspended"),
        ("admin@example.com", "person.grants_changed"),
        ("system", "person.added"),
    ]


def test_person_without_password_is_invited(access: Access) -> None:
    body = {"email": "ada@example.com", "grants": [{"role": "viewer", "scope": "all"}]}
    person = access.data(access.admin.post("/apiv1/people", json=body), 201)
    assert person["status"] == "invited"
    invitation = access.data(access.admin.post(f"/apiv1/people/{person['id']}/invitation"), 201)
    assert invitation["path"] == "/console/invitation"
    fields = {"code": invitation["code"], "password": PASSWORD, "again": PASSWORD}
    accepted = httpx.post(f"{access.url}{invitation['path']}", data=fields, timeout=30)
    assert accepted.status_code == 303
    assert access.data(access.admin.get(f"/apiv1/people/{person['id']}"))["status"] == "active"
    access.admin.post(f"/apiv1/people/{person['id']}/suspend").raise_for_status()
    assert access.admin.post(f"/apiv1/people/{person['id']}/invitation").status_code == 409


def test_key_is_created_changed_suspended_and_removed(access: Access) -> None:
    body = {"name": "nightly", "grants": [{"role": "viewer", "scope": "commands"}], "expires_in_seconds": 3600}
    created = access.data(access.admin.post("/apiv1/keys", json=body), 201)
    path, program = f"/apiv1/keys/{created['id']}", access.key(created.pop("token"))
    assert access.data(access.admin.get(path)) == created
    assert created in access.data(access.admin.get("/apiv1/keys"))["items"]
    assert program.get("/api/edge/v1/admin/sites").status_code == 200
    assert program.get("/admin/clients").status_code == 403

    new = {"grants": [{"role": "viewer", "scope": "events"}]}
    assert access.data(access.admin.put(f"{path}/grants", json=new))["grants"] == new["grants"]
    assert program.get("/admin/clients").status_code == 200
    assert program.get("/api/edge/v1/admin/sites").status_code == 403
    assert access.data(access.admin.post(f"{path}/suspend"))["status"] == "suspended"
    assert program.get("/admin/clients").status_code == 401
    assert access.data(access.admin.post(f"{path}/resume"))["status"] == "active"
    assert program.get("/admin/clients").status_code == 200
    assert access.admin.delete(path).status_code == access.admin.delete(path).status_code == 204
    assert program.get("/admin/clients").status_code == 401
    assert access.data(access.admin.get(path))["status"] == "revoked"
    page = access.data(access.admin.get("/apiv1/access-audit", params={"key_id": created["id"]}))
    assert [each["event"] for each in reversed(page["items"])] == [
        "key.created", "key.grants_changed", "key.suspended", "key.resumed", "key.revoked",
    ]  # fmt: skip


def test_last_administrator_is_kept(access: Access) -> None:
    path = f"/apiv1/people/{access.admin_id}"
    for response in (
        access.admin.delete(path),
        access.admin.post(f"{path}/suspend"),
        access.admin.put(f"{path}/grants", json={"grants": [{"role": "viewer", "scope": "all"}]}),
    ):
        assert response.status_code == 409
        assert "last person" in response.json()["error"]["what"]
    assert access.admin.get(path).status_code == 200


def test_own_key_of_a_user_does_not_manage_access(access: Access) -> None:
    _, key = access.database.write_now(api_keys.create, "own", Role.admin, access.admin_id)
    assert access.key(key).get("/apiv1/people").status_code == 403


@pytest.mark.parametrize(
    ("grants", "field"),
    [
        ([], "grants"),
        ([{"role": "root", "scope": "all"}], "grants[0].role"),
        ([{"role": "viewer", "scope": "sites:3"}], "grants"),
        ([{"role": "viewer", "scope": "commands:x"}], "grants"),
        ([{"role": "viewer", "scope": "all", "until": 1}], "grants[0].until"),
        ([{"role": "viewer"}] * 51, "grants"),
    ],
)
def test_invalid_grants_are_refused_by_name(access: Access, grants: Any, field: str) -> None:
    for path in (f"/apiv1/people/{access.admin_id}/grants", "/apiv1/keys/1/grants"):
        response = access.admin.put(path, json={"grants": grants})
        assert response.status_code == 400
        assert response.json()["error"]["what"].startswith(f"{field}: expected "), response.text


def test_person_reaches_devices_of_another_user_only_by_a_grant_that_names_the_user(access: Access) -> None:
    owner_id, helper_id = access.add_person("owner@example.com"), access.add_person("helper@example.com")
    helper, path = access.session_of(helper_id), f"/apiv1/users/{owner_id}/devices"
    answers = {}
    for scope in ("all", "updates", f"updates:{helper_id}", f"updates:{owner_id}"):
        grants = [{"role": "operator", "scope": scope}]
        access.data(access.admin.put(f"/apiv1/people/{helper_id}/grants", json={"grants": grants}))
        answers[scope] = helper.get(path).status_code, helper.get(f"/apiv1/users/{helper_id}/devices").status_code
    assert list(answers.values()) == [(403, 200), (403, 200), (403, 200), (200, 403)]


def test_suspension_and_new_grants_count_on_every_node_at_once(tmp_path: Path, postgres_url: str) -> None:
    nodes = Nodes(tmp_path, postgres_url)
    here, there = nodes.start(), nodes.start()
    access = Access(here)
    person_id = access.add_person("ada@example.com", Role.operator)
    person = access.session_of(person_id)
    key_id, key = access.database.write_now(api_keys.create, "nightly", Role.operator)
    elsewhere = f"http://127.0.0.1:{there.fast_port}/api/edge/v1/admin/sites"

    def statuses() -> tuple[int, int]:
        cookies = {SESSION_COOKIE: str(person.cookies[SESSION_COOKIE])}
        by_person = httpx.get(elsewhere, cookies=cookies, timeout=30)
        by_key = httpx.get(elsewhere, headers={"authorization": f"Bearer {key}"}, timeout=30)
        return by_person.status_code, by_key.status_code

    assert statuses() == (200, 200)
    only_events = {"grants": [{"role": "operator", "scope": "events"}]}
    access.admin.put(f"/apiv1/people/{person_id}/grants", json=only_events).raise_for_status()
    access.admin.put(f"/apiv1/keys/{key_id}/grants", json=only_events).raise_for_status()
    assert statuses() == (403, 403)
    access.admin.post(f"/apiv1/people/{person_id}/suspend").raise_for_status()
    access.admin.post(f"/apiv1/keys/{key_id}/suspend").raise_for_status()
    assert statuses() == (401, 401)
    access.close()
    nodes.close()
