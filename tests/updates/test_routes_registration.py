import base64
import hashlib
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from restante.database.database import Database
from restante.identity import registration_codes
from restante.identity.callers import Role
from restante.updates import devices
from tests.conftest import ManualClock
from tests.identity.population import add_user
from tests.updates.auth_app import AuthApp, code_of, field_named, new_key, registration, serving


@pytest.fixture
async def app(database: Database, clock: ManualClock) -> AsyncIterator[AuthApp]:
    async with serving(database, clock) as app:
        yield app


async def register(app: AuthApp, body: dict[str, Any]) -> httpx.Response:
    async with app.client(headers={"User-Agent": "agent/1"}) as client:
        return await client.post("/apiv1/device/registration", json=body)


def code_for(app: AuthApp, user_id: int) -> str:
    return app.database.write_now(registration_codes.create, user_id)


async def test_a_device_registers_itself(app: AuthApp) -> None:
    user_id = add_user(app.database)
    body = registration(registration_code=code_for(app, user_id), user_id=user_id)
    data = (await register(app, body)).json()["data"]
    key = base64.b64decode(body["dev_pk"])
    device = data["device"]
    assert device == {
        "id": device["id"],
        "user_id": user_id,
        "device_public_id": body["device_public_id"],
        "platform": "linux",
        "model": "m1",
        "app_version": "1.2.3",
        "name": "kiosk",
        "status": "active",
        "device_keyfp_b64": base64.b64encode(hashlib.blake2b(key, digest_size=32).digest()).decode(),
        "created_at": app.clock.now_ms // 1000,
        "updated_at": app.clock.now_ms // 1000,
        "last_seen_at": None,
        "revoked_at": None,
        "agent_version": None,
    }
    assert data["session"].keys() == {"access_token", "refresh_token", "token_type", "expires_in"}
    assert (await app.who(data["session"]["access_token"])).json()["data"]["device_id"] == device["id"]


async def test_a_registration_code_counts_once_and_for_its_time(app: AuthApp) -> None:
    user_id = add_user(app.database)
    code = code_for(app, user_id)
    assert (await register(app, registration(registration_code=code))).status_code == 200
    assert code_of(await register(app, registration(registration_code=code))) == (401, 5018)
    late = code_for(app, user_id)
    app.clock.advance(900)
    assert code_of(await register(app, registration(registration_code=late))) == (401, 5018)
    assert code_of(await register(app, registration(registration_code="made up"))) == (401, 5018)
    assert len(app.database.read_now(devices.list_page, None, 0, 10)) == 1


@pytest.mark.parametrize("code", [..., None, ""])
async def test_without_a_registration_code(app: AuthApp, code: Any) -> None:
    assert field_named(await register(app, registration(registration_code=code))) == "registration_code"


async def test_a_code_for_another_user(app: AuthApp) -> None:
    ada, ben = add_user(app.database), add_user(app.database, "ben@example.com")
    body = registration(registration_code=code_for(app, ada), user_id=ben)
    assert code_of(await register(app, body)) == (403, 5022)
    assert (await register(app, {**body, "user_id": ada})).status_code == 200


async def test_registering_again_keeps_the_row_and_rotates_the_tokens(app: AuthApp) -> None:
    user_id = add_user(app.database)
    body = registration()
    first = (await register(app, {**body, "registration_code": code_for(app, user_id)})).json()["data"]
    changed = {**body, "registration_code": code_for(app, user_id), "app_version": "2.0", "dev_pk": new_key()}
    changed["device_public_id"] = body["device_public_id"].upper()
    second = (await register(app, changed)).json()["data"]
    assert second["device"]["id"] == first["device"]["id"]
    assert second["device"]["app_version"] == "2.0"
    assert second["device"]["device_keyfp_b64"] != first["device"]["device_keyfp_b64"]
    async with app.client() as client:
        for session, status in ((first["session"], 401), (second["session"], 200)):
            answer = await client.post("/auth/refresh", json={"refresh_token": session["refresh_token"]})
            assert answer.status_code == status


async def test_a_revoked_device_does_not_come_back(app: AuthApp) -> None:
    person = await app.signed_in()
    public_id = str(uuid4())
    device = (await person.register(device_public_id=public_id))["device"]
    await person.client.delete(f"{person.devices}/{device['id']}")
    again = registration(device_public_id=public_id)
    assert code_of(await person.client.post(person.devices, json=again)) == (403, 5022)
    code = code_for(app, person.user_id)
    assert code_of(await register(app, {**again, "registration_code": code})) == (403, 5022)


async def test_two_users_with_one_public_id_have_two_devices(app: AuthApp) -> None:
    public_id = str(uuid4())
    ada, ben = await app.signed_in(), await app.signed_in("ben@example.com")
    first, second = [await person.register(device_public_id=public_id) for person in (ada, ben)]
    assert first["device"]["id"] != second["device"]["id"]


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"device_public_id": ...}, "device_public_id"),
        ({"device_public_id": "not a uuid"}, "device_public_id"),
        ({"device_public_id": 5}, "device_public_id"),
        ({"dev_pk": ...}, "dev_pk"),
        ({"dev_pk": ""}, "dev_pk"),
        ({"dev_pk": "!" * 44}, "dev_pk"),
        ({"dev_pk": base64.b64encode(bytes(31)).decode()}, "dev_pk"),
        ({"dev_pk": base64.b64encode(b"x" * 33).decode()}, "dev_pk"),
        ({"dev_pk": base64.b64encode(bytes(32)).decode()}, "dev_pk"),
        ({"dev_pk": base64.b64encode(b"\x01" + bytes(31)).decode()}, "dev_pk"),
        ({"dev_pk": base64.b64encode(b"\xec" + b"\xff" * 30 + b"\x7f").decode()}, "dev_pk"),
        ({"dev_pk": "ÄÖÜ"}, "dev_pk"),
        ({"platform": "x" * 256}, "platform"),
        ({"platform": 5}, "platform"),
        ({"model": "x" * 256}, "model"),
        ({"app_version": "x" * 256}, "app_version"),
        ({"name": "x" * 256}, "name"),
        ({"name": "a\x00b"}, "name"),
        ({"ip": "x" * 256}, "ip"),
        ({"user_agent": "x" * 256}, "user_agent"),
        ({"user_id": 0}, "user_id"),
        ({"user_id": 2**63}, "user_id"),
        ({"registration_code": "x" * 257}, "registration_code"),
    ],
)
async def test_bad_fields_change_nothing(app: AuthApp, changed: dict[str, Any], field: str) -> None:
    user_id = add_user(app.database)
    code = code_for(app, user_id)
    assert field_named(await register(app, registration(**{"registration_code": code, **changed}))) == field
    assert app.database.read_now(devices.list_page, None, 0, 10) == []
    assert (await register(app, registration(registration_code=code))).status_code == 200


async def test_what_is_not_asked_for_is_not_looked_at(app: AuthApp) -> None:
    code = code_for(app, add_user(app.database))
    body = registration(registration_code=code, firmware={"a": 1}, platform=None, model=...)
    device = (await register(app, body)).json()["data"]["device"]
    assert (device["platform"], device["model"]) == ("", "")


async def test_a_user_registers_a_device(app: AuthApp) -> None:
    person = await app.signed_in()
    registered = await person.register(user_id=person.user_id)
    who = await app.who(registered["session"]["access_token"])
    assert who.json()["data"] == {"device_id": registered["device"]["id"], "user_id": person.user_id}


async def test_who_may_register_for_a_user(app: AuthApp) -> None:
    person, other = await app.signed_in(), await app.signed_in("ben@example.com")
    viewer = await app.signed_in("viewer@example.com", Role.viewer)
    async with app.client() as nobody:
        assert code_of(await nobody.post(person.devices, json=registration())) == (401, 5018)
    assert code_of(await other.client.post(person.devices, json=registration())) == (403, 5022)
    assert code_of(await viewer.client.post(viewer.devices, json=registration())) == (403, 5022)
    key = app.key_client(Role.operator)
    assert (await key.post(person.devices, json=registration())).status_code == 200
    assert code_of(await key.post("/apiv1/users/999/devices", json=registration())) == (404, 5003)
    foreign = registration(user_id=other.user_id)
    assert field_named(await person.client.post(person.devices, json=foreign)) == "user_id"


async def test_where_the_device_came_from_is_kept(app: AuthApp) -> None:
    def kept(conn: Any, device_id: int) -> tuple[str, str]:
        row = conn.one(devices.SQL.device, device_id=device_id)
        return row["ip"], row["user_agent"]

    user_id = add_user(app.database)
    told = registration(registration_code=code_for(app, user_id), ip="192.0.2.9", user_agent="mine/2")
    untold = registration(registration_code=code_for(app, user_id))
    for body, expected in ((told, ("192.0.2.9", "mine/2")), (untold, ("127.0.0.1", "agent/1"))):
        device = (await register(app, body)).json()["data"]["device"]
        assert app.database.read_now(kept, device["id"]) == expected
