"""The pages of people and API keys: within the administrator's grants, recorded, a new key shown once."""

import re
from html import unescape

import httpx

from restante.identity import administration, api_keys
from restante.identity.administration import Administrator
from restante.identity.people import users
from tests.console.console_server import ConsoleClient, ConsoleServer
from tests.identity.people_and_devices import PASSWORD


def test_new_key_is_shown_once_and_works(server: ConsoleServer) -> None:
    with server.client("admin") as admin:
        created = admin.post("/console/keys/new", name="nightly export", role="viewer", scope="updates", days="30")
        assert created.status_code == 200
        token = re.search(r">(rk_[^<]+)</code>", created.text)
        assert token
        path = re.search(r'action="(/console/keys/\d+)/suspend"', created.text)
        assert path
        assert token[1] not in admin.get(path[1]).text
        assert token[1] not in admin.get("/console/keys").text
    used = httpx.get(f"{server.base_url}/apiv1/devices", headers={"authorization": f"Bearer {token[1]}"}, timeout=60)
    assert used.status_code == 200


def test_new_person_chooses_a_password_by_the_link_that_is_shown_once(server: ConsoleServer) -> None:
    with server.client("admin") as admin:
        added = admin.post("/console/people/new", email="New@Example.com", role="viewer", scope="events")
        link = re.search(r"(http://[^<]+/console/invitation)#([^<]+)</code>", added.text)
        assert link
        path = re.search(r'action="(/console/people/\d+)/invite"', added.text)
        assert path
        assert "invited" in admin.get(path[1]).text
        assert link[2] not in admin.get(path[1]).text
        again = admin.post("/console/people/new", email="new@example.com", role="viewer", scope="events")
        assert again.status_code == 409
    with server.client(None) as nobody:
        assert nobody.sign_in("new").status_code == 401
        wanted = {"code": unescape(link[2]), "password": PASSWORD, "again": PASSWORD}
        assert accept(nobody, {**wanted, "again": "another password"}).status_code == 400
        assert accept(nobody, {**wanted, "password": "short", "again": "short"}).status_code == 400
        assert accept(nobody, {**wanted, "code": "guess"}).status_code == 401
        assert accept(nobody, wanted, origin="https://evil.example").status_code == 403
        assert accept(nobody, wanted).headers["location"] == "/console/sign-in?done=password-set"
        assert "the invitation is not known" in accept(nobody, wanted).text.lower()
        assert nobody.sign_in("new").status_code == 303


def test_password_is_reset_by_an_administrator_who_confirms_with_their_own(server: ConsoleServer) -> None:
    person_id = server.add_person("forgetful", "viewer@updates")
    with server.client("admin") as admin, server.client(None) as nobody:
        server.outdate_password(admin.session)
        asked = admin.post(f"/console/people/{person_id}/invite")
        assert "Enter your password" in asked.text
        assert "cannot be undone" not in asked.text
        shown = admin.post(f"/console/people/{person_id}/invite", confirm_password=PASSWORD)
        code = re.search(r"/console/invitation#([^<]+)</code>", shown.text)
        assert code
        assert nobody.sign_in("forgetful").status_code == 303
        new = "another good password"
        assert accept(nobody, {"code": unescape(code[1]), "password": new, "again": new}).status_code == 303
        assert nobody.sign_in("forgetful").status_code == 401
        assert nobody.sign_in("forgetful", new).status_code == 303
        changes = admin.get(f"/console/people/{person_id}").text
        assert "person.invited" in changes
        assert "person.password_changed" in changes


def accept(client: ConsoleClient, fields: dict[str, str], origin: str | None = None) -> httpx.Response:
    return client.http.post("/console/invitation", data=fields, headers={"origin": origin or client.origin})


def test_wrong_key_form_keeps_what_was_typed(server: ConsoleServer) -> None:
    with server.client("admin") as admin:
        for fields in (
            {"name": "", "role": "viewer", "scope": "all"},
            {"name": "no grant", "role": "viewer", "scope": ""},
            {"name": "odd scope", "role": "viewer", "scope": "moon"},
            {"name": "odd role", "role": "king", "scope": "all"},
            {"name": "odd days", "role": "viewer", "scope": "all", "days": "0"},
        ):
            refused = admin.post("/console/keys/new", **fields)
            assert refused.status_code == 400
            assert 'class="problem"' in refused.text
            assert f'value="{fields["name"]}"' in refused.text


def test_nobody_gives_grants_that_they_do_not_have(server: ConsoleServer) -> None:
    with server.client("fleet") as fleet:
        refused = fleet.post("/console/keys/new", name="too much", role="viewer", scope="all")
        assert refused.status_code == 403
        assert fleet.post("/console/people/new", email="x@example.com", role="viewer", scope="all").status_code == 403
        assert "you need the role admin in each of these scopes" in refused.text
        everyone = fleet.get("/console/people").text
        assert "admin@example.com</a>" not in everyone
        assert fleet.get(f"/console/people/{server.user_ids['admin']}").status_code == 404
        assert fleet.post(f"/console/people/{server.user_ids['admin']}/suspend").status_code == 404


def test_key_is_suspended_resumed_changed_and_revoked(server: ConsoleServer) -> None:
    key_id = server.add_key()
    path = f"/console/keys/{key_id}"
    with server.client("admin") as admin:
        assert admin.post(f"{path}/suspend").status_code == 303
        assert "suspended" in admin.get(path).text
        assert admin.post(f"{path}/resume").status_code == 303
        assert admin.post(f"{path}/grants", role="operator", scope="events").status_code == 303
        assert admin.post(f"{path}/revoke").status_code == 303
        page = admin.get(path).text
    key = server.database.read_now(api_keys.get_any, key_id)
    assert key.revoked_at is not None
    assert key.grants.as_texts() == ["operator@events"]
    for event in ("key.suspended", "key.resumed", "key.grants_changed", "key.revoked"):
        assert event in page
    assert "admin@example.com" in page


def test_person_is_changed_suspended_resumed_and_removed(server: ConsoleServer) -> None:
    person_id = server.add_person("changed", "viewer@updates")
    path = f"/console/people/{person_id}"
    with server.client("admin") as admin:
        changed = admin.http.post(
            f"{path}/grants",
            data={
                "form_token": admin.form_token(),
                "role": ["operator", "viewer", "viewer"],
                "scope": ["updates:1", "events", ""],
            },
            headers={"origin": server.base_url},
        )
        assert changed.headers["location"] == f"{path}?done=person-changed"
        assert admin.post(f"{path}/suspend").status_code == 303
        assert server.database.read_now(users.get, person_id).suspended_at is not None
        assert admin.post(f"{path}/resume").status_code == 303
        person = server.database.read_now(users.get, person_id)
        assert (person.suspended_at, person.grants.as_texts()) == (None, ["viewer@events", "operator@updates:1"])
        server.outdate_password(admin.session)
        assert "This cannot be undone" in admin.post(f"{path}/remove").text
        assert (
            admin.post(f"{path}/remove", confirm_password=PASSWORD).headers["location"].startswith("/console/people?")
        )
        assert admin.get(path).status_code == 404


def test_last_administrator_stays(server: ConsoleServer) -> None:
    path = f"/console/people/{server.user_ids['admin']}"
    with server.client("admin") as admin:
        for action in ("suspend", "remove"):
            refused = admin.post(f"{path}/{action}")
            assert refused.status_code == 409
            assert "the last person with the role admin" in refused.text
    by = Administrator.of_everything("tests")
    assert server.database.read_now(administration.person, by, server.user_ids["admin"]).suspended_at is None


def test_person_is_found_by_email(server: ConsoleServer) -> None:
    person_id = server.add_person("findable", "viewer@updates")
    with server.client("admin") as admin:
        found = admin.get("/console/search?q=findable@example.com")
        assert found.headers["location"] == f"/console/people/{person_id}"
    with server.client("bank") as bank:
        assert "Nothing found" in bank.get("/console/search?q=findable@example.com").text
