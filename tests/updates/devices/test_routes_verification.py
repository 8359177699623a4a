import re

import httpx
import pytest

from restante.database.database import Database
from restante.identity.callers import Role
from restante.identity.devices import device_codes
from restante.identity.people.sign_in_limits import PAIR
from tests.conftest import ManualClock
from tests.identity.people_and_devices import CODE_KEY, PASSWORD, add_user
from tests.updates.auth_app import AuthApp, SignedInPerson, serving


def hidden(page: httpx.Response, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', page.text)
    assert found is not None
    return found[1]


async def start_and_open_form(app: AuthApp, person: SignedInPerson) -> tuple[dict[str, str], dict[str, str]]:
    """The codes of a started device, and the form of a person who opened the page."""
    started = await app.device_start()
    page = await person.client.get("/device", params={"user_code": started["user_code"]})
    assert page.status_code == 200
    return started, {"form_token": hidden(page, "form_token"), "user_code": started["user_code"]}


def status_of(app: AuthApp, started: dict[str, str]) -> str:
    result = app.database.write_now(device_codes.poll, CODE_KEY, started["device_code"], None)
    return getattr(result, "value", "approved")


async def test_anonymous_visitor_signs_in_and_is_redirected_back(app: AuthApp) -> None:
    add_user(app.database)
    started = await app.device_start()
    async with app.client() as client:
        page = await client.get("/device", params={"user_code": started["user_code"]})
        assert page.status_code == 200
        assert 'action="/device/sign-in"' in page.text
        assert hidden(page, "user_code") == started["user_code"]
        form = {"email": "ada@example.com", "password": PASSWORD, "user_code": started["user_code"]}
        response = await client.post("/device/sign-in", data=form)
        assert response.status_code == 303
        assert response.headers["location"] == f"/device?user_code={started['user_code']}"
        assert "HttpOnly" in response.headers["set-cookie"]
        decision_page = await client.get(response.headers["location"])
    assert started["user_code"] in decision_page.text
    assert "Signed in as ada@example.com" in decision_page.text


async def test_pages_cannot_be_framed_and_have_no_scripts(app: AuthApp) -> None:
    async with app.client() as client:
        page = await client.get("/device")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"
    assert "<script" not in page.text
    assert "style=" not in page.text
    for name in ("email", "password"):
        assert f'<label for="{name}">' in page.text
        assert f'id="{name}"' in page.text


async def test_wrong_password_and_unknown_email_get_the_same_page(app: AuthApp) -> None:
    add_user(app.database)
    async with app.client() as client:
        pages = [
            await client.post("/device/sign-in", data={"email": email, "password": "wrong", "user_code": "A"})
            for email in ("ada@example.com", "nobody@example.com")
        ]
    assert pages[0].text == pages[1].text
    assert pages[0].status_code == 401
    assert "The e-mail or the password is wrong." in pages[0].text
    assert hidden(pages[0], "user_code") == "A"
    assert "set-cookie" not in pages[0].headers


async def test_sign_in_is_rate_limited(app: AuthApp) -> None:
    async with app.client() as client:
        form = {"email": "ada@example.com", "password": "wrong"}
        for _ in range(PAIR.burst):
            assert (await client.post("/device/sign-in", data=form)).status_code == 401
        refused = await client.post("/device/sign-in", data=form)
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "30"
    assert "text/html" in refused.headers["content-type"]


@pytest.mark.parametrize(
    ("decision", "text", "status"),
    [("approve", "Approved", "approved"), ("deny", "Denied", "access_denied")],
)
async def test_approve_and_deny_buttons(app: AuthApp, decision: str, text: str, status: str) -> None:
    person = await app.signed_in()
    started, form = await start_and_open_form(app, person)
    page = await person.client.post("/device", data={**form, "decision": decision})
    assert page.status_code == 200
    assert text in page.text
    assert status_of(app, started) == status


async def test_pending_approval_is_shown_escaped(app: AuthApp) -> None:
    person = await app.signed_in()
    async with app.client(headers={"User-Agent": "<script>alert(1)</script>"}) as device:
        body = {"action": "device_start", "scopes": ["<b>updates</b>"]}
        started = (await device.post("/auth/device", json=body)).json()["data"]
    page = await person.client.get("/device", params={"user_code": started["user_code"].lower()})
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.text
    assert "&lt;b&gt;updates&lt;/b&gt;" in page.text
    assert "127.0.0.1" in page.text
    assert "<script>" not in page.text
    assert 'value="approve"' in page.text
    assert 'value="deny"' in page.text


async def test_code_in_the_address_is_escaped(app: AuthApp) -> None:
    async with app.client() as client:
        page = await client.get("/device", params={"user_code": '"><script>'})
    assert "<script>" not in page.text


async def test_page_without_code_has_a_form_for_it(app: AuthApp) -> None:
    person = await app.signed_in()
    page = await person.client.get("/device")
    assert page.status_code == 200
    assert '<label for="user_code">' in page.text


async def test_unknown_code_is_not_found(app: AuthApp) -> None:
    person = await app.signed_in()
    page = await person.client.get("/device", params={"user_code": "BBBB-BBBB"})
    assert page.status_code == 404
    assert "No device waits under this code" in page.text
    assert '<label for="user_code">' in page.text


async def test_viewer_is_refused_with_the_missing_role(app: AuthApp) -> None:
    viewer = await app.signed_in(role=Role.viewer)
    started = await app.device_start()
    page = await viewer.client.get("/device", params={"user_code": started["user_code"]})
    assert page.status_code == 403
    assert "operator" in page.text
    form = {
        "form_token": hidden(page, "form_token"),
        "user_code": started["user_code"],
        "decision": "approve",
    }
    assert (await viewer.client.post("/device", data=form)).status_code == 403
    assert status_of(app, started) == "authorization_pending"


async def test_form_of_another_session_is_refused(app: AuthApp) -> None:
    person, other = await app.signed_in(), await app.signed_in("ben@example.com")
    started, form = await start_and_open_form(app, person)
    _, foreign = await start_and_open_form(app, other)
    for token in ({"form_token": foreign["form_token"]}, {"form_token": ""}, {"form_token": "ä"}):
        page = await person.client.post("/device", data={**form, **token, "decision": "approve"})
        assert page.status_code == 403
    bare = {"user_code": started["user_code"], "decision": "approve"}
    assert (await person.client.post("/device", data=bare)).status_code == 403
    async with app.client() as anonymous:
        assert (await anonymous.post("/device", data={**form, "decision": "approve"})).status_code == 401
    assert status_of(app, started) == "authorization_pending"


async def test_form_from_another_origin_is_refused(app: AuthApp) -> None:
    person = await app.signed_in()
    started, form = await start_and_open_form(app, person)
    evil = {"Origin": "https://evil.example"}
    for path in ("/device", "/device/sign-in", "/device/sign-out"):
        page = await person.client.post(path, data={**form, "decision": "approve"}, headers=evil)
        assert page.status_code == 403
    assert status_of(app, started) == "authorization_pending"


async def test_unknown_button_is_not_found(app: AuthApp) -> None:
    person = await app.signed_in()
    started, form = await start_and_open_form(app, person)
    assert (await person.client.post("/device", data={**form, "decision": "maybe"})).status_code == 404
    assert (await person.client.post("/device", data=form)).status_code == 404
    assert status_of(app, started) == "authorization_pending"


async def test_second_decision_is_refused(app: AuthApp) -> None:
    person = await app.signed_in()
    _, form = await start_and_open_form(app, person)
    await person.client.post("/device", data={**form, "decision": "deny"})
    again = await person.client.post("/device", data={**form, "decision": "approve"})
    assert again.status_code == 404


async def test_sign_out_ends_the_session(app: AuthApp) -> None:
    person = await app.signed_in()
    started, form = await start_and_open_form(app, person)
    kept = dict(person.client.cookies)
    response = await person.client.post("/device/sign-out", data=form)
    assert response.status_code == 303
    assert response.headers["location"] == f"/device?user_code={started['user_code']}"
    person.client.cookies.update(kept)
    assert 'action="/device/sign-in"' in (await person.client.get("/device")).text


async def test_cookie_is_secure_behind_a_tls_proxy(database: Database, clock: ManualClock) -> None:
    async with serving(database, clock, public_url="https://restante.example") as app:
        person = await app.signed_in()
        _, form = await start_and_open_form(app, person)
        out = await person.client.post("/device/sign-out", data=form)
        async with app.client() as client:
            response = await client.post("/device/sign-in", data={"email": "ada@example.com", "password": PASSWORD})
    for each in (out, response):
        assert each.headers["set-cookie"].endswith("; Secure")


async def test_json_instead_of_a_form_is_refused(app: AuthApp) -> None:
    async with app.client() as client:
        page = await client.post("/device/sign-in", json={"email": "a@b"})
    assert page.status_code == 415
    assert "text/html" in page.headers["content-type"]
