import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from restante.database.database import Database
from restante.identity.callers import Role
from restante.identity.sign_in import EMAIL_BURST
from restante.updates.approval import LOOKUPS_BURST
from restante.updates.routes_auth import STARTS_BURST
from tests.conftest import ManualClock
from tests.identity.population import PASSWORD, add_device, add_user
from tests.updates.auth_app import AuthApp, code_of, field_named, registration, serving


@pytest.fixture
async def app(database: Database, clock: ManualClock) -> AsyncIterator[AuthApp]:
    async with serving(database, clock) as app:
        yield app


async def poll(app: AuthApp, device_code: str, **fields: Any) -> httpx.Response:
    async with app.client() as client:
        body = {"action": "device_poll", "device_code": device_code, **fields}
        return await client.post("/auth/device", json=body)


async def refresh(app: AuthApp, token: str) -> httpx.Response:
    async with app.client() as client:
        return await client.post("/auth/refresh", json={"refresh_token": token})


async def post(app: AuthApp, path: str, body: Any, **options: Any) -> httpx.Response:
    async with app.client() as client:
        return await client.post(path, json=body, **options)


async def test_a_start_with_the_defaults(app: AuthApp) -> None:
    started = await app.device_start()
    assert started.keys() == {
        "device_code",
        "user_code",
        "verification_uri",
        "verification_uri_complete",
        "interval",
        "expires_in",
    }
    assert re.fullmatch("[A-Z]{4}-[A-Z]{4}", started["user_code"])
    assert (started["interval"], started["expires_in"]) == (5, 900)
    assert started["verification_uri"] == "http://restante.example/device"
    assert started["verification_uri_complete"] == (f"http://restante.example/device?user_code={started['user_code']}")


@pytest.mark.parametrize(
    "fields",
    [
        {"expires_in": 30},
        {"expires_in": 3600},
        {"interval": 1},
        {"interval": 300},
        {"scopes": ["a", "b"]},
        {"scopes": "a b"},
    ],
)
async def test_a_start_within_its_limits(app: AuthApp, fields: dict[str, Any]) -> None:
    started = await app.device_start(**fields)
    assert fields.items() <= {**started, **({"scopes": fields["scopes"]} if "scopes" in fields else {})}.items()


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"expires_in": 29}, "expires_in"),
        ({"expires_in": 3601}, "expires_in"),
        ({"expires_in": "900"}, "expires_in"),
        ({"interval": 0}, "interval"),
        ({"interval": 301}, "interval"),
        ({"interval": 1.5}, "interval"),
        ({"scopes": 5}, "scopes"),
        ({"scopes": [5]}, "scopes[0]"),
        ({"scopes": ["x" * 101]}, "scopes[0]"),
        ({"scopes": ["x"] * 21}, "scopes"),
    ],
)
async def test_a_start_out_of_its_limits(app: AuthApp, fields: dict[str, Any], field: str) -> None:
    assert field_named(await post(app, "/auth/device", {"action": "device_start", **fields})) == field


@pytest.mark.parametrize("body", [{}, {"action": "dance"}, {"action": 5}, {"action": None}])
async def test_an_unknown_action(app: AuthApp, body: dict[str, Any]) -> None:
    assert field_named(await post(app, "/auth/device", body)) == "action"
    assert field_named(await post(app, "/auth/general", body)) == "action"


async def test_the_configured_address_is_the_one_people_are_sent_to(database: Database, clock: ManualClock) -> None:
    async with serving(database, clock, public_url="https://public.example") as app:
        started = await app.device_start()
    assert started["verification_uri"] == "https://public.example/device"


async def test_a_start_to_an_impossible_host(app: AuthApp) -> None:
    answer = await post(app, "/auth/device", {"action": "device_start"}, headers={"Host": "[::1"})
    assert field_named(answer) == "Host"


async def test_starts_are_limited(app: AuthApp) -> None:
    async with app.client() as client:
        body = {"action": "device_start"}
        answers = await asyncio.gather(*(client.post("/auth/device", json=body) for _ in range(STARTS_BURST)))
        assert {answer.status_code for answer in answers} == {200}
        refused = await client.post("/auth/device", json=body)
    assert code_of(refused) == (429, 5013)
    assert refused.headers["retry-after"] == "1"


@pytest.mark.parametrize(("approve", "status"), [(True, "approved"), (False, "denied")])
async def test_a_person_decides(app: AuthApp, approve: bool, status: str) -> None:
    person = await app.signed_in()
    started = await app.device_start()
    answer = await person.verify(started["user_code"].replace("-", "").lower(), approve)
    assert (answer.status_code, answer.json()) == (200, {"data": {"status": status}})


async def test_deciding_takes_a_signed_in_operator(app: AuthApp) -> None:
    started = await app.device_start()
    body = {"action": "device_verify", "user_code": started["user_code"], "approve": True}
    assert code_of(await post(app, "/auth/device", body)) == (401, 5018)
    key = app.key_client(Role.admin)
    assert code_of(await key.post("/auth/device", json=body)) == (401, 5018)
    viewer = await app.signed_in("viewer@example.com", Role.viewer)
    assert code_of(await viewer.verify(started["user_code"])) == (403, 5022)
    assert (await poll(app, started["device_code"])).json() == {"data": {"status": "authorization_pending"}}


async def test_deciding_from_a_page_of_another_origin(app: AuthApp) -> None:
    person = await app.signed_in()
    started = await app.device_start()
    body = {"action": "device_verify", "user_code": started["user_code"], "approve": True}
    for origin in ("https://evil.example", "null", "http://["):
        answer = await person.client.post("/auth/device", json=body, headers={"Origin": origin})
        assert code_of(answer) == (403, 5022)
    ours = {"Origin": "http://restante.example"}
    assert (await person.client.post("/auth/device", json=body, headers=ours)).status_code == 200


async def test_deciding_about_nothing(app: AuthApp) -> None:
    person = await app.signed_in()
    expired = await app.device_start(expires_in=30)
    app.clock.advance(30)
    for user_code in ("BBBB-BBBB", expired["user_code"]):
        assert code_of(await person.verify(user_code)) == (404, 5003)


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"approve": True}, "user_code"),
        ({"user_code": "BBBB-BBBB"}, "approve"),
        ({"user_code": "BBBB-BBBB", "approve": "yes"}, "approve"),
        ({"user_code": "B" * 33, "approve": True}, "user_code"),
    ],
)
async def test_deciding_with_bad_fields(app: AuthApp, fields: dict[str, Any], field: str) -> None:
    assert field_named(await post(app, "/auth/device", {"action": "device_verify", **fields})) == field


async def test_guessing_codes_is_limited(app: AuthApp) -> None:
    person = await app.signed_in()
    for _ in range(LOOKUPS_BURST):
        assert (await person.verify("BBBB-BBBB")).status_code == 404
    refused = await person.verify("BBBB-BBBB")
    assert code_of(refused) == (429, 5013)
    assert refused.headers["retry-after"] == "2"


async def test_from_pending_to_ready_once(app: AuthApp) -> None:
    person = await app.signed_in()
    started = await app.device_start(interval=5)
    assert (await poll(app, started["device_code"])).json() == {"data": {"status": "authorization_pending"}}
    await person.verify(started["user_code"])
    assert (await poll(app, started["device_code"])).json() == {"data": {"status": "slow_down"}}
    app.clock.advance(5)
    ready = (await poll(app, started["device_code"])).json()["data"]
    assert ready.keys() == {"status", "user_id", "registration_code", "registration_code_ttl"}
    assert (ready["status"], ready["user_id"]) == ("ready", person.user_id)
    assert ready["registration_code_ttl"] == 900
    app.clock.advance(5)
    assert (await poll(app, started["device_code"])).json() == {"data": {"status": "expired"}}


async def test_a_denied_and_an_expired_code(app: AuthApp) -> None:
    person = await app.signed_in()
    denied, expired = await app.device_start(), await app.device_start(expires_in=30)
    await person.verify(denied["user_code"], approve=False)
    assert (await poll(app, denied["device_code"])).json() == {"data": {"status": "access_denied"}}
    app.clock.advance(30)
    assert (await poll(app, expired["device_code"])).json() == {"data": {"status": "expired"}}


async def test_ready_with_a_registered_device(app: AuthApp) -> None:
    person = await app.signed_in()
    device_id = add_device(app.database, person.user_id)
    answer = await poll(app, await app.approved_code(person), device_id=device_id)
    ready = answer.json()["data"]
    assert ready.keys() == {"status", "access_token", "refresh_token", "token_type", "expires_in"}
    assert (ready["status"], ready["token_type"], ready["expires_in"]) == ("ready", "Bearer", 3600)
    who = await app.who(ready["access_token"])
    assert who.json()["data"] == {"device_id": device_id, "user_id": person.user_id}
    assert (await refresh(app, ready["refresh_token"])).status_code == 200
    assert answer.headers["cache-control"] == "no-store"


async def test_ready_with_a_device_that_is_not_theirs(app: AuthApp) -> None:
    person = await app.signed_in()
    revoked = add_device(app.database, person.user_id)
    await person.client.delete(f"{person.devices}/{revoked}")
    foreign = add_device(app.database, add_user(app.database, "ben@example.com"))
    code = await app.approved_code(person)
    for device_id in (foreign, revoked, 10**6):
        answer = await poll(app, code, device_id=device_id)
        assert code_of(answer) == (403, 5022)
        assert "data" not in answer.json()
        app.clock.advance(5)
    assert (await poll(app, code)).json()["data"]["status"] == "ready"


async def test_polls_at_once_get_one_approval(app: AuthApp) -> None:
    code = await app.approved_code(await app.signed_in())
    answers = await asyncio.gather(*(poll(app, code) for _ in range(10)))
    statuses = [answer.json()["data"]["status"] for answer in answers]
    assert statuses.count("ready") == 1


async def test_an_unknown_device_code(app: AuthApp) -> None:
    assert code_of(await poll(app, "nothing")) == (404, 5003)


@pytest.mark.parametrize("device_id", [0, -1, "1", 2**63, 1.5])
async def test_a_device_id_that_is_none(app: AuthApp, device_id: Any) -> None:
    assert field_named(await poll(app, "x", device_id=device_id)) == "device_id"


async def test_a_poll_without_its_code(app: AuthApp) -> None:
    assert field_named(await post(app, "/auth/device", {"action": "device_poll"})) == "device_code"


async def test_a_refresh_gives_the_pair_in_both_places(app: AuthApp) -> None:
    person = await app.signed_in()
    session = (await person.register())["session"]
    answer = await refresh(app, session["refresh_token"])
    data = answer.json()["data"]
    assert data["session"] == {name: data[name] for name in data if name != "session"}
    assert data["session"].keys() == {"access_token", "refresh_token", "token_type", "expires_in"}
    assert data["refresh_token"] != session["refresh_token"]
    assert (await app.who(data["access_token"])).status_code == 200


async def test_a_refresh_token_used_twice(app: AuthApp) -> None:
    session = (await (await app.signed_in()).register())["session"]
    newest = (await refresh(app, session["refresh_token"])).json()["data"]["refresh_token"]
    again = await refresh(app, session["refresh_token"])
    assert code_of(again) == (401, 10003)
    assert again.json()["error"]["key"] == "refresh_token_rotated"
    # The whole family is gone, and that was kept although the answer was an error.
    assert code_of(await refresh(app, newest)) == (401, 5018)


async def test_of_refreshes_at_once_one_wins(app: AuthApp) -> None:
    session = (await (await app.signed_in()).register())["session"]
    answers = await asyncio.gather(*(refresh(app, session["refresh_token"]) for _ in range(10)))
    assert sorted(answer.status_code for answer in answers) == [200] + [401] * 9


async def test_a_refresh_for_a_revoked_device(app: AuthApp) -> None:
    person = await app.signed_in()
    registered = await person.register()
    await person.client.delete(f"{person.devices}/{registered['device']['id']}")
    assert code_of(await refresh(app, registered["session"]["refresh_token"])) == (403, 5022)


async def test_a_refresh_with_nothing_of_ours(app: AuthApp) -> None:
    assert code_of(await refresh(app, "rt_nothing")) == (401, 5018)
    assert field_named(await post(app, "/auth/refresh", {})) == "refresh_token"
    assert field_named(await refresh(app, "x" * 1025)) == "refresh_token"


async def test_a_refresh_token_expires_after_thirty_days(app: AuthApp) -> None:
    session = (await (await app.signed_in()).register())["session"]
    app.clock.advance(30 * 86400)
    assert code_of(await refresh(app, session["refresh_token"])) == (401, 5018)


async def test_signing_in_and_out(app: AuthApp) -> None:
    user_id = add_user(app.database)
    async with app.client() as client:
        login = {"action": "login", "email": "Ada@example.com", "password": PASSWORD}
        answer = await client.post("/auth/general", json=login)
        assert answer.json() == {"data": {"user": {"id": user_id, "email": "ada@example.com"}}}
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Lax" in cookie
        assert "Secure" not in cookie
        assert (await client.get(f"/apiv1/users/{user_id}/devices")).status_code == 200
        kept = dict(client.cookies)
        out = await client.post("/auth/general", json={"action": "logout"})
        assert out.status_code == 200
        assert "Max-Age=0" in out.headers["set-cookie"]
        client.cookies.update(kept)
        assert code_of(await client.get(f"/apiv1/users/{user_id}/devices")) == (401, 5018)


async def test_signing_out_without_being_in(app: AuthApp) -> None:
    assert (await post(app, "/auth/general", {"action": "logout"})).status_code == 200


async def test_over_https_the_cookie_is_secure(app: AuthApp) -> None:
    add_user(app.database)
    async with app.client("https://restante.example") as client:
        login = {"action": "login", "email": "ada@example.com", "password": PASSWORD}
        answer = await client.post("/auth/general", json=login)
    assert answer.headers["set-cookie"].endswith("; Secure")


async def test_behind_a_proxy_with_tls_the_cookie_is_secure(database: Database, clock: ManualClock) -> None:
    add_user(database)
    async with serving(database, clock, public_url="https://restante.example") as app:
        login = {"action": "login", "email": "ada@example.com", "password": PASSWORD}
        for body in (login, {"action": "logout"}):
            answer = await post(app, "/auth/general", body)
            assert answer.headers["set-cookie"].endswith("; Secure")


async def test_a_wrong_password_and_an_unknown_email_get_one_answer(app: AuthApp) -> None:
    add_user(app.database)
    answers = [
        await post(app, "/auth/general", {"action": "login", "email": email, "password": "wrong"})
        for email in ("ada@example.com", "nobody@example.com")
    ]
    assert answers[0].json() == answers[1].json()
    assert code_of(answers[0]) == (401, 5018)
    assert "set-cookie" not in answers[0].headers


async def test_signing_in_is_limited(app: AuthApp) -> None:
    login = {"action": "login", "email": "nobody@example.com", "password": "wrong"}
    for _ in range(EMAIL_BURST):
        assert (await post(app, "/auth/general", login)).status_code == 401
    refused = await post(app, "/auth/general", login)
    assert code_of(refused) == (429, 5013)
    assert refused.headers["retry-after"] == "30"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"password": "x"}, "email"),
        ({"email": "a@b"}, "password"),
        ({"email": "x" * 255, "password": "x"}, "email"),
        ({"email": "a@b", "password": "x" * 1025}, "password"),
        ({"email": "a@b", "password": ""}, "password"),
    ],
)
async def test_signing_in_with_bad_fields(app: AuthApp, fields: dict[str, Any], field: str) -> None:
    assert field_named(await post(app, "/auth/general", {"action": "login", **fields})) == field


async def test_a_page_of_another_origin_signs_nobody_in(app: AuthApp) -> None:
    add_user(app.database)
    login = {"action": "login", "email": "ada@example.com", "password": PASSWORD}
    answer = await post(app, "/auth/general", login, headers={"Origin": "https://evil.example"})
    assert code_of(answer) == (403, 5022)


async def test_bodies_must_be_json(app: AuthApp) -> None:
    async with app.client() as client:
        for path in ("/auth/device", "/auth/refresh", "/auth/general"):
            assert (await client.post(path, data={"action": "logout"})).status_code == 415


async def test_from_start_to_call_as_a_device_does_it(app: AuthApp) -> None:
    person = await app.signed_in()
    code = (await poll(app, await app.approved_code(person))).json()["data"]["registration_code"]
    registered = await post(app, "/apiv1/device/registration", registration(registration_code=code))
    session = registered.json()["data"]["session"]
    assert (await app.who(session["access_token"])).json()["data"]["user_id"] == person.user_id
