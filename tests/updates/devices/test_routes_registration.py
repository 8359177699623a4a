import base64
import hashlib
from typing import Any
from uuid import uuid4

import httpx
import pytest

from restante.core.iso_time import iso_precise
from restante.identity.callers import Role
from restante.identity.devices import registration_codes
from restante.updates.devices import devices
from tests.identity.people_and_devices import add_user
from tests.updates.auth_app import AuthApp, SignedInPerson, code_of, field_named, new_key, registration


async def register(app: AuthApp, body: dict[str, Any]) -> httpx.Response:
    async with app.client(headers={"User-Agent": "agent/1"}) as client:
        return await client.post("/apiv1/device/registration", json=body)


def code_for(app: AuthApp, user_id: int) -> str:
    return app.database.write_now(registration_codes.create, user_id)


async def test_device_registers_itself(app: AuthApp) -> None:
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
        "created_at": iso_precise(app.clock.now_ms),
        "updated_at": iso_precise(app.clock.now_ms),
        "last_seen_at": None,
        "revoked_at": None,
        "agent_version": None,
    }
    assert data["session"].keys() == {"access_token", "refresh_token", "token_type", "expires_in"}
    assert (await app.who(data["session"]["access_token"])).json()["data"]["device_id"] == device["id"]


async def test_registration_code_is_used_once_and_expires(app: AuthApp) -> None:
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
async def test_missing_registration_code_is_refused(app: AuthApp, code: Any) -> None:
    assert field_named(await register(app, registration(registration_code=code))) == "registration_code"


async def test_code_of_another_user_is_forbidden(app: AuthApp) -> None:
    ada, ben = add_user(app.database), add_user(app.database, "ben@example.com")
    body = registration(registration_code=code_for(app, ada), user_id=ben)
    assert code_of(await register(app, body)) == (403, 5022)
    assert (await register(app, {**body, "user_id": ada})).status_code == 200


async def test_second_registration_keeps_the_row_and_rotates_the_tokens(app: AuthApp) -> None:
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
            response = await client.post("/auth/refresh", json={"refresh_token": session["refresh_token"]})
            assert response.status_code == status


async def registered_again(person: SignedInPerson, body: dict[str, Any], token: str) -> httpx.Response:
    return await person.client.post("/apiv1/device/registration", json={**body, "refresh_token": token})


async def test_device_registers_again_with_session_and_refresh_token(app: AuthApp) -> None:
    person, body = await app.signed_in(), registration()
    code = code_for(app, person.user_id)
    first = (await register(app, {**body, "registration_code": code})).json()["data"]
    old = first["session"]["refresh_token"]
    response = await registered_again(person, {**body, "app_version": "2.0", "user_id": person.user_id}, old)
    assert response.status_code == 200
    second = response.json()["data"]
    assert (second["device"]["id"], second["device"]["app_version"]) == (first["device"]["id"], "2.0")
    assert second["session"]["refresh_token"] != old
    assert (await app.who(second["session"]["access_token"])).json()["data"]["device_id"] == first["device"]["id"]
    third = await registered_again(person, {**body, "registration_code": ""}, second["session"]["refresh_token"])
    assert third.status_code == 200


async def test_refresh_token_that_was_used_ends_the_session(app: AuthApp) -> None:
    person, body = await app.signed_in(), registration()
    first = await person.register(**body)
    old = first["session"]["refresh_token"]
    second = (await registered_again(person, body, old)).json()["data"]
    refused = await registered_again(person, {**body, "name": "changed"}, old)
    assert (code_of(refused), refused.json()["error"]["key"]) == ((401, 10003), "refresh_token_rotated")
    assert code_of(await registered_again(person, body, second["session"]["refresh_token"])) == (401, 5018)
    device = (await person.client.get(f"{person.devices}/{first['device']['id']}")).json()["data"]
    assert device["name"] == body["name"]


async def test_second_registration_without_code_needs_every_proof(app: AuthApp) -> None:
    ada, ben = await app.signed_in(), await app.signed_in("ben@example.com")
    viewer = await app.signed_in("viewer@example.com", Role.viewer)
    body, other_body = registration(), registration()
    token = (await ada.register(**body))["session"]["refresh_token"]
    other_token = (await ada.register(**other_body))["session"]["refresh_token"]
    assert code_of(await register(app, {**body, "refresh_token": token})) == (401, 5018)
    assert code_of(await registered_again(viewer, body, token)) == (403, 5022)
    assert code_of(await registered_again(ben, body, token)) == (404, 5003)
    assert code_of(await registered_again(ada, {**body, "user_id": ben.user_id}, token)) == (403, 5022)
    assert code_of(await registered_again(ada, registration(), token)) == (404, 5003)
    for wrong in (other_token, "rt_made_up", "x"):
        assert code_of(await registered_again(ada, body, wrong)) == (401, 5018)
    assert field_named(await registered_again(ada, body, "a b")) == "refresh_token"
    assert field_named(await registered_again(ada, body, "")) == "registration_code"
    foreign = {"Origin": "https://evil.example"}
    evil = await ada.client.post("/apiv1/device/registration", json={**body, "refresh_token": token}, headers=foreign)
    assert code_of(evil) == (403, 5022)
    assert (await registered_again(ada, body, token)).status_code == 200


async def test_revoked_device_does_not_register_again_with_its_refresh_token(app: AuthApp) -> None:
    person, body = await app.signed_in(), registration()
    registered = await person.register(**body)
    await person.client.delete(f"{person.devices}/{registered['device']['id']}")
    assert code_of(await registered_again(person, body, registered["session"]["refresh_token"])) == (403, 5022)


async def test_revoked_device_cannot_register_again(app: AuthApp) -> None:
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


async def test_unknown_fields_are_ignored(app: AuthApp) -> None:
    code = code_for(app, add_user(app.database))
    body = registration(registration_code=code, firmware={"a": 1}, platform=None, model=...)
    device = (await register(app, body)).json()["data"]["device"]
    assert (device["platform"], device["model"]) == ("", "")


async def test_user_registers_a_device(app: AuthApp) -> None:
    person = await app.signed_in()
    registered = await person.register(user_id=person.user_id)
    who = await app.who(registered["session"]["access_token"])
    assert who.json()["data"] == {"device_id": registered["device"]["id"], "user_id": person.user_id}


async def test_access_to_registration_for_a_user(app: AuthApp) -> None:
    person, other = await app.signed_in(), await app.signed_in("ben@example.com")
    viewer = await app.signed_in("viewer@example.com", Role.viewer)
    async with app.client() as anonymous:
        assert code_of(await anonymous.post(person.devices, json=registration())) == (401, 5018)
    assert code_of(await other.client.post(person.devices, json=registration())) == (403, 5022)
    assert code_of(await viewer.client.post(viewer.devices, json=registration())) == (403, 5022)
    key = app.key_client(Role.operator)
    assert (await key.post(person.devices, json=registration())).status_code == 200
    assert code_of(await key.post("/apiv1/users/999/devices", json=registration())) == (404, 5003)
    foreign = registration(user_id=other.user_id)
    assert field_named(await person.client.post(person.devices, json=foreign)) == "user_id"


async def test_address_and_user_agent_are_stored(app: AuthApp) -> None:
    def stored(conn: Any, device_id: int) -> tuple[str, str]:
        row = conn.one(devices.SQL.device, device_id=device_id)
        return row["ip"], row["user_agent"]

    user_id = add_user(app.database)
    stated = registration(registration_code=code_for(app, user_id), ip="192.0.2.9", user_agent="mine/2")
    unstated = registration(registration_code=code_for(app, user_id))
    for body, expected in ((stated, ("192.0.2.9", "mine/2")), (unstated, ("127.0.0.1", "agent/1"))):
        device = (await register(app, body)).json()["data"]["device"]
        assert app.database.read_now(stored, device["id"]) == expected
