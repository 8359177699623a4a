import re
from collections.abc import AsyncIterator

import httpx
import pytest

from restante.database.database import Database
from restante.identity import device_codes
from restante.identity.callers import Role
from restante.identity.sign_in import EMAIL_BURST
from tests.conftest import ManualClock
from tests.identity.population import PASSWORD, add_user
from tests.updates.auth_app import AuthApp, SignedIn, serving


@pytest.fixture
async def app(database: Database, clock: ManualClock) -> AsyncIterator[AuthApp]:
    async with serving(database, clock) as app:
        yield app


def hidden(page: httpx.Response, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', page.text)
    assert found is not None
    return found[1]


async def waiting(app: AuthApp, person: SignedIn) -> tuple[dict[str, str], dict[str, str]]:
    """What a device got at its start, and the form a person who opened the page would send."""
    started = await app.device_start()
    page = await person.client.get("/device", params={"user_code": started["user_code"]})
    assert page.status_code == 200
    return started, {"form_token": hidden(page, "form_token"), "user_code": started["user_code"]}


def status_of(app: AuthApp, started: dict[str, str]) -> str:
    standing = app.database.write_now(device_codes.poll, started["device_code"], None)
    return getattr(standing, "value", "approved")


async def test_a_stranger_is_asked_to_sign_in_and_led_back(app: AuthApp) -> None:
    add_user(app.database)
    started = await app.device_start()
    async with app.client() as client:
        page = await client.get("/device", params={"user_code": started["user_code"]})
        assert page.status_code == 200
        assert 'action="/device/sign-in"' in page.text
        assert hidden(page, "user_code") == started["user_code"]
        form = {"email": "ada@example.com", "password": PASSWORD, "user_code": started["user_code"]}
        answer = await client.post("/device/sign-in", data=form)
        assert answer.status_code == 303
        assert answer.headers["location"] == f"/device?user_code={started['user_code']}"
        assert "HttpOnly" in answer.headers["set-cookie"]
        question = await client.get(answer.headers["location"])
    assert started["user_code"] in question.text
    assert "Signed in as ada@example.com" in question.text


async def test_pages_are_ours_alone(app: AuthApp) -> None:
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


async def test_a_wrong_password_is_told_without_which_half(app: AuthApp) -> None:
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


async def test_signing_in_is_limited_here_too(app: AuthApp) -> None:
    async with app.client() as client:
        form = {"email": "ada@example.com", "password": "wrong"}
        for _ in range(EMAIL_BURST):
            assert (await client.post("/device/sign-in", data=form)).status_code == 401
        refused = await client.post("/device/sign-in", data=form)
    assert refused.status_code == 429
    assert refused.headers["retry-after"] == "30"
    assert "text/html" in refused.headers["content-type"]


@pytest.mark.parametrize(
    ("decision", "said", "standing"),
    [("approve", "Approved", "approved"), ("deny", "Denied", "access_denied")],
)
async def test_the_two_buttons(app: AuthApp, decision: str, said: str, standing: str) -> None:
    person = await app.signed_in()
    started, form = await waiting(app, person)
    page = await person.client.post("/device", data={**form, "decision": decision})
    assert page.status_code == 200
    assert said in page.text
    assert status_of(app, started) == standing


async def test_the_question_shows_what_asks_and_escapes_it(app: AuthApp) -> None:
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


async def test_what_is_in_the_address_is_escaped(app: AuthApp) -> None:
    async with app.client() as client:
        page = await client.get("/device", params={"user_code": '"><script>'})
    assert "<script>" not in page.text


async def test_without_a_code_it_can_be_typed(app: AuthApp) -> None:
    person = await app.signed_in()
    page = await person.client.get("/device")
    assert page.status_code == 200
    assert '<label for="user_code">' in page.text


async def test_a_code_nothing_waits_under(app: AuthApp) -> None:
    person = await app.signed_in()
    page = await person.client.get("/device", params={"user_code": "BBBB-BBBB"})
    assert page.status_code == 404
    assert "No device waits under this code" in page.text
    assert '<label for="user_code">' in page.text


async def test_a_viewer_is_told_what_is_missing(app: AuthApp) -> None:
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


async def test_a_form_of_another_session_or_none_is_refused(app: AuthApp) -> None:
    person, other = await app.signed_in(), await app.signed_in("ben@example.com")
    started, form = await waiting(app, person)
    _, foreign = await waiting(app, other)
    for token in ({"form_token": foreign["form_token"]}, {"form_token": ""}, {"form_token": "ä"}):
        page = await person.client.post("/device", data={**form, **token, "decision": "approve"})
        assert page.status_code == 403
    bare = {"user_code": started["user_code"], "decision": "approve"}
    assert (await person.client.post("/device", data=bare)).status_code == 403
    async with app.client() as nobody:
        assert (await nobody.post("/device", data={**form, "decision": "approve"})).status_code == 401
    assert status_of(app, started) == "authorization_pending"


async def test_a_form_from_another_origin_is_refused(app: AuthApp) -> None:
    person = await app.signed_in()
    started, form = await waiting(app, person)
    evil = {"Origin": "https://evil.example"}
    for path in ("/device", "/device/sign-in", "/device/sign-out"):
        page = await person.client.post(path, data={**form, "decision": "approve"}, headers=evil)
        assert page.status_code == 403
    assert status_of(app, started) == "authorization_pending"


async def test_no_such_button(app: AuthApp) -> None:
    person = await app.signed_in()
    started, form = await waiting(app, person)
    assert (await person.client.post("/device", data={**form, "decision": "maybe"})).status_code == 404
    assert (await person.client.post("/device", data=form)).status_code == 404
    assert status_of(app, started) == "authorization_pending"


async def test_a_decision_comes_once(app: AuthApp) -> None:
    person = await app.signed_in()
    _, form = await waiting(app, person)
    await person.client.post("/device", data={**form, "decision": "deny"})
    again = await person.client.post("/device", data={**form, "decision": "approve"})
    assert again.status_code == 404


async def test_signing_out(app: AuthApp) -> None:
    person = await app.signed_in()
    started, form = await waiting(app, person)
    kept = dict(person.client.cookies)
    answer = await person.client.post("/device/sign-out", data=form)
    assert answer.status_code == 303
    assert answer.headers["location"] == f"/device?user_code={started['user_code']}"
    person.client.cookies.update(kept)
    assert 'action="/device/sign-in"' in (await person.client.get("/device")).text


async def test_behind_a_proxy_with_tls_the_cookie_is_secure(database: Database, clock: ManualClock) -> None:
    async with serving(database, clock, public_url="https://restante.example") as app:
        person = await app.signed_in()
        _, form = await waiting(app, person)
        out = await person.client.post("/device/sign-out", data=form)
        async with app.client() as client:
            answer = await client.post("/device/sign-in", data={"email": "ada@example.com", "password": PASSWORD})
    for answered in (out, answer):
        assert answered.headers["set-cookie"].endswith("; Secure")


async def test_what_is_no_form_is_refused(app: AuthApp) -> None:
    async with app.client() as client:
        page = await client.post("/device/sign-in", json={"email": "a@b"})
    assert page.status_code == 415
    assert "text/html" in page.headers["content-type"]
