import asyncio
import re
from typing import Any

import httpx
import pytest

from restante.database.database import Database
from restante.identity.callers import Role
from restante.identity.people.sign_in_limits import PAIR
from restante.updates.devices.approval import LOOKUPS_BURST
from restante.updates.devices.routes_auth import STARTS_BURST
from tests.conftest import ManualClock
from tests.identity.people_and_devices import PASSWORD, add_device, add_user
from tests.updates.auth_app import BASE, AuthApp, code_of, field_named, registration, serving


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


async def test_start_with_defaults(app: AuthApp) -> None:
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
async def test_start_within_limits_is_accepted(app: AuthApp, fields: dict[str, Any]) -> None:
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
async def test_start_outside_limits_is_refused(app: AuthApp, fields: dict[str, Any], field: str) -> None:
    assert field_named(await post(app, "/auth/device", {"action": "device_start", **fields})) == field


@pytest.mark.parametrize("body", [{}, {"action": "dance"}, {"action": 5}, {"action": None}])
async def test_unknown_action_is_refused(app: AuthApp, body: dict[str, Any]) -> None:
    assert field_named(await post(app, "/auth/device", body)) == "action"
    assert field_named(await post(app, "/auth/general", body)) == "action"


async def test_verification_uri_uses_the_public_address(database: Database, clock: ManualClock) -> None:
    async with serving(database, clock, public_url="https://public.example") as app:
        started = await app.device_start()
    assert started["verification_uri"] == "https://public.example/device"


async def test_verification_address_does_not_come_from_the_host_header(app: AuthApp) -> None:
    response = await post(app, "/auth/device", {"action": "device_start"}, headers={"Host": "evil.example"})
    assert response.json()["data"]["verification_uri"] == f"{BASE}/device"


async def test_starts_are_rate_limited(app: AuthApp) -> None:
    async with app.client() as client:
        body = {"action": "device_start"}
        responses = await asyncio.gather(*(client.post("/auth/device", json=body) for _ in range(STARTS_BURST)))
        assert {response.status_code for response in responses} == {200}
        refused = await client.post("/auth/device", json=body)
    assert code_of(refused) == (429, 5013)
    assert refused.headers["retry-after"] == "1"


@pytest.mark.parametrize(("approve", "status"), [(True, "approved"), (False, "denied")])
async def test_person_approves_or_denies(app: AuthApp, approve: bool, status: str) -> None:
    person = await app.signed_in()
    started = await app.device_start()
    response = await person.verify(started["user_code"].replace("-", "").lower(), approve)
    assert (response.status_code, response.json()) == (200, {"data": {"status": status}})


async def test_decision_needs_a_signed_in_operator(app: AuthApp) -> None:
    started = await app.device_start()
    body = {"action": "device_verify", "user_code": started["user_code"], "approve": True}
    assert code_of(await post(app, "/auth/device", body)) == (401, 5018)
    key = app.key_client(Role.admin)
    assert code_of(await key.post("/auth/device", json=body)) == (401, 5018)
    viewer = await app.signed_in("viewer@example.com", Role.viewer)
    assert code_of(await viewer.verify(started["user_code"])) == (403, 5022)
    assert (await poll(app, started["device_code"])).json() == {"data": {"status": "authorization_pending"}}


async def test_decision_from_another_origin_is_refused(app: AuthApp) -> None:
    person = await app.signed_in()
    started = await app.device_start()
    body = {"action": "device_verify", "user_code": started["user_code"], "approve": True}
    for origin in ("https://evil.example", "null", "http://["):
        response = await person.client.post("/auth/device", json=body, headers={"Origin": origin})
        assert code_of(response) == (403, 5022)
    own_origin = {"Origin": "http://restante.example"}
    assert (await person.client.post("/auth/device", json=body, headers=own_origin)).status_code == 200


async def test_decision_on_unknown_or_expired_code_is_not_found(app: AuthApp) -> None:
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
async def test_decision_with_bad_fields_is_refused(app: AuthApp, fields: dict[str, Any], field: str) -> None:
    assert field_named(await post(app, "/auth/device", {"action": "device_verify", **fields})) == field


async def test_code_lookups_are_rate_limited(app: AuthApp) -> None:
    person = await app.signed_in()
    for _ in range(LOOKUPS_BURST):
        assert (await person.verify("BBBB-BBBB")).status_code == 404
    refused = await person.verify("BBBB-BBBB")
    assert code_of(refused) == (429, 5013)
    assert refused.headers["retry-after"] == "2"


async def test_poll_returns_pending_then_ready_once(app: AuthApp) -> None:
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


async def test_poll_of_denied_and_expired_code(app: AuthApp) -> None:
    person = await app.signed_in()
    denied, expired = await app.device_start(), await app.device_start(expires_in=30)
    await person.verify(denied["user_code"], approve=False)
    assert (await poll(app, denied["device_code"])).json() == {"data": {"status": "access_denied"}}
    app.clock.advance(30)
    assert (await poll(app, expired["device_code"])).json() == {"data": {"status": "expired"}}


async def test_poll_for_registered_device_returns_tokens(app: AuthApp) -> None:
    person = await app.signed_in()
    device_id = add_device(app.database, person.user_id)
    response = await poll(app, await app.approved_code(person), device_id=device_id)
    ready = response.json()["data"]
    assert ready.keys() == {"status", "user_id", "access_token", "refresh_token", "token_type", "expires_in"}
    assert ready["user_id"] == person.user_id
    assert (ready["status"], ready["token_type"], ready["expires_in"]) == ("ready", "Bearer", 3600)
    who = await app.who(ready["access_token"])
    assert who.json()["data"] == {"device_id": device_id, "user_id": person.user_id}
    assert (await refresh(app, ready["refresh_token"])).status_code == 200
    assert response.headers["cache-control"] == "no-store"


async def test_poll_for_foreign_device_is_forbidden(app: AuthApp) -> None:
    person = await app.signed_in()
    revoked = add_device(app.database, person.user_id)
    await person.client.delete(f"{person.devices}/{revoked}")
    foreign = add_device(app.database, add_user(app.database, "ben@example.com"))
    code = await app.approved_code(person)
    for device_id in (foreign, revoked, 10**6):
        response = await poll(app, code, device_id=device_id)
        assert code_of(response) == (403, 5022)
        assert "data" not in response.json()
        app.clock.advance(5)
    assert (await poll(app, code)).json()["data"]["status"] == "ready"


async def test_concurrent_polls_get_one_approval(app: AuthApp) -> None:
    code = await app.approved_code(await app.signed_in())
    responses = await asyncio.gather(*(poll(app, code) for _ in range(10)))
    statuses = [response.json()["data"]["status"] for response in responses]
    assert statuses.count("ready") == 1


async def test_unknown_device_code_is_not_found(app: AuthApp) -> None:
    assert code_of(await poll(app, "nothing")) == (404, 5003)


@pytest.mark.parametrize("device_id", [0, -1, "1", 2**63, 1.5])
async def test_invalid_device_id_is_refused(app: AuthApp, device_id: Any) -> None:
    assert field_named(await poll(app, "x", device_id=device_id)) == "device_id"


async def test_poll_without_code_is_refused(app: AuthApp) -> None:
    assert field_named(await post(app, "/auth/device", {"action": "device_poll"})) == "device_code"


async def test_refresh_returns_the_token_pair_in_both_places(app: AuthApp) -> None:
    person = await app.signed_in()
    session = (await person.register())["session"]
    response = await refresh(app, session["refresh_token"])
    data = response.json()["data"]
    assert data["session"] == {name: data[name] for name in data if name != "session"}
    assert data["session"].keys() == {"access_token", "refresh_token", "token_type", "expires_in"}
    assert data["refresh_token"] != session["refresh_token"]
    assert (await app.who(data["access_token"])).status_code == 200


async def test_refresh_token_used_twice_ends_the_session(app: AuthApp) -> None:
    session = (await (await app.signed_in()).register())["session"]
    newest = (await refresh(app, session["refresh_token"])).json()["data"]["refresh_token"]
    again = await refresh(app, session["refresh_token"])
    assert code_of(again) == (401, 10003)
    assert again.json()["error"]["key"] == "refresh_token_rotated"
    # The whole family has ended, and that was committed although the response was an error.
    assert code_of(await refresh(app, newest)) == (401, 5018)


async def test_one_of_many_concurrent_refreshes_wins(app: AuthApp) -> None:
    session = (await (await app.signed_in()).register())["session"]
    responses = await asyncio.gather(*(refresh(app, session["refresh_token"]) for _ in range(10)))
    assert sorted(response.status_code for response in responses) == [200] + [401] * 9


async def test_refresh_for_revoked_device_is_forbidden(app: AuthApp) -> None:
    person = await app.signed_in()
    registered = await person.register()
    await person.client.delete(f"{person.devices}/{registered['device']['id']}")
    assert code_of(await refresh(app, registered["session"]["refresh_token"])) == (403, 5022)


async def test_refresh_with_unknown_or_bad_token_is_refused(app: AuthApp) -> None:
    assert code_of(await refresh(app, "rt_nothing")) == (401, 5018)
    assert field_named(await post(app, "/auth/refresh", {})) == "refresh_token"
    assert field_named(await refresh(app, "x" * 1025)) == "refresh_token"


async def test_refresh_token_expires_after_thirty_days(app: AuthApp) -> None:
    session = (await (await app.signed_in()).register())["session"]
    app.clock.advance(30 * 86400)
    assert code_of(await refresh(app, session["refresh_token"])) == (401, 5018)


async def test_sign_in_and_sign_out(app: AuthApp) -> None:
    user_id = add_user(app.database)
    async with app.client() as client:
        login = {"action": "login", "email": "Ada@example.com", "password": PASSWORD}
        response = await client.post("/auth/general", json=login)
        user = {"id": user_id, "email": "ada@example.com", "roles": ["operator"]}
        assert response.json() == {"data": {"user": user, "to": "/"}}
        signed_in = {"authenticated": True, "user": user, "to": "/"}
        assert (await client.get("/auth/status")).json() == {"data": signed_in}
        cookie = response.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Lax" in cookie
        assert "Secure" not in cookie
        assert (await client.get(f"/apiv1/users/{user_id}/devices")).status_code == 200
        kept = dict(client.cookies)
        out = await client.post("/auth/general", json={"action": "logout"})
        assert out.status_code == 200
        assert "Max-Age=0" in out.headers["set-cookie"]
        client.cookies.update(kept)
        assert (await client.get("/auth/status")).json()["data"]["authenticated"] is False
        assert code_of(await client.get(f"/apiv1/users/{user_id}/devices")) == (401, 5018)


async def test_status_without_a_session_is_no_error(app: AuthApp) -> None:
    for cookies in ({}, {"restante_session": "made up"}):
        async with app.client(cookies=cookies) as client:
            response = await client.get("/auth/status")
            assert response.status_code == 200
            assert response.json() == {"data": {"authenticated": False, "user": None, "to": "/"}}


async def test_sign_out_without_a_session(app: AuthApp) -> None:
    assert (await post(app, "/auth/general", {"action": "logout"})).status_code == 200


async def test_cookie_is_secure_over_https(app: AuthApp) -> None:
    add_user(app.database)
    async with app.client("https://restante.example") as client:
        login = {"action": "login", "email": "ada@example.com", "password": PASSWORD}
        response = await client.post("/auth/general", json=login)
    assert response.headers["set-cookie"].endswith("; Secure")


async def test_cookie_is_secure_behind_a_tls_proxy(database: Database, clock: ManualClock) -> None:
    add_user(database)
    async with serving(database, clock, public_url="https://restante.example") as app:
        login = {"action": "login", "email": "ada@example.com", "password": PASSWORD}
        for body in (login, {"action": "logout"}):
            response = await post(app, "/auth/general", body)
            assert response.headers["set-cookie"].endswith("; Secure")


async def test_wrong_password_and_unknown_email_get_the_same_response(app: AuthApp) -> None:
    add_user(app.database)
    responses = [
        await post(app, "/auth/general", {"action": "login", "email": email, "password": "wrong"})
        for email in ("ada@example.com", "nobody@example.com")
    ]
    assert responses[0].json() == responses[1].json()
    assert code_of(responses[0]) == (401, 5018)
    assert "set-cookie" not in responses[0].headers


async def test_sign_in_is_rate_limited(app: AuthApp) -> None:
    login = {"action": "login", "email": "nobody@example.com", "password": "wrong"}
    for _ in range(PAIR.burst):
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
async def test_sign_in_with_bad_fields_is_refused(app: AuthApp, fields: dict[str, Any], field: str) -> None:
    assert field_named(await post(app, "/auth/general", {"action": "login", **fields})) == field


async def test_sign_in_from_another_origin_is_refused(app: AuthApp) -> None:
    add_user(app.database)
    login = {"action": "login", "email": "ada@example.com", "password": PASSWORD}
    response = await post(app, "/auth/general", login, headers={"Origin": "https://evil.example"})
    assert code_of(response) == (403, 5022)


async def test_bodies_must_be_json(app: AuthApp) -> None:
    async with app.client() as client:
        for path in ("/auth/device", "/auth/refresh", "/auth/general"):
            assert (await client.post(path, data={"action": "logout"})).status_code == 415


async def test_device_flow_from_start_to_authenticated_call(app: AuthApp) -> None:
    person = await app.signed_in()
    code = (await poll(app, await app.approved_code(person))).json()["data"]["registration_code"]
    registered = await post(app, "/apiv1/device/registration", registration(registration_code=code))
    session = registered.json()["data"]["session"]
    assert (await app.who(session["access_token"])).json()["data"]["user_id"] == person.user_id
