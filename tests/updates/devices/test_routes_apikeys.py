from typing import Any

import httpx
import pytest

from restante.core.iso_time import iso_precise
from restante.identity.callers import Role
from tests.identity.people_and_devices import add_device
from tests.updates.auth_app import AuthApp, SignedInPerson, code_of, field_named, registration

# What the certificate product's scripts send.
PERMISSIONS = [{"obtype": "ForDeviceAuthenticate", "obid": "*", "actions": ["authenticate", "validate", "revoke"]}]
FIELD_REQUEST = {"name": "device-apikey-1", "permissions": PERMISSIONS, "expires_in_seconds": 2592000}


def keys_of(person: SignedInPerson) -> str:
    return f"/apiv1/users/{person.user_id}/apikeys"


async def created(person: SignedInPerson, **fields: Any) -> dict[str, Any]:
    response = await person.client.post(keys_of(person), json={"name": "own", **fields})
    assert response.status_code == 200, response.text
    data: dict[str, Any] = response.json()["data"]
    return data


def client_with(app: AuthApp, key: dict[str, Any]) -> httpx.AsyncClient:
    return app.client(headers={"Authorization": f"Bearer {key['token']}"})


async def test_key_registers_and_lists_devices_of_its_user(app: AuthApp, person: SignedInPerson) -> None:
    key = await created(person, **FIELD_REQUEST)
    now_ms = app.clock.now_ms
    assert key == {
        "id": key["id"],
        "user_id": person.user_id,
        "name": "device-apikey-1",
        "role": "operator",
        "created_at": iso_precise(now_ms),
        "expires_at": iso_precise(now_ms + 2_592_000_000),
        "revoked_at": None,
        "token": key["token"],
        "expires_in_seconds": 2592000,
    }
    assert key["token"].startswith("rk_")
    async with client_with(app, key) as program:
        registered = await program.post(person.devices, json=registration())
        assert registered.status_code == 200
        device_id = registered.json()["data"]["device"]["id"]
        for path in (person.devices, "/apiv1/me/devices"):
            assert [device["id"] for device in (await program.get(path)).json()["data"]] == [device_id]


async def test_key_opens_nothing_of_another_user(app: AuthApp, person: SignedInPerson) -> None:
    other = await app.signed_in("ben@example.com")
    device_id = add_device(app.database, other.user_id)
    async with client_with(app, await created(person)) as program:
        for path in (other.devices, f"{other.devices}/{device_id}", keys_of(other)):
            assert code_of(await program.get(path)) == (403, 5022)
        assert code_of(await program.post(other.devices, json=registration())) == (403, 5022)
        assert code_of(await program.delete(f"{other.devices}/{device_id}")) == (403, 5022)


async def test_key_expires_and_is_revoked(app: AuthApp, person: SignedInPerson) -> None:
    short, long = await created(person, expires_in_seconds=60), await created(person)
    assert (long["expires_at"], long["expires_in_seconds"]) == (None, None)
    app.clock.advance(60)
    async with client_with(app, short) as program:
        assert code_of(await program.get(person.devices)) == (401, 5018)
    async with client_with(app, long) as program:
        assert (await program.get(person.devices)).status_code == 200
        for _ in range(2):
            assert (await person.client.delete(f"{keys_of(person)}/{long['id']}")).status_code == 204
        assert code_of(await program.get(person.devices)) == (401, 5018)


async def test_keys_are_listed_without_their_secrets(app: AuthApp, person: SignedInPerson) -> None:
    keys = [await created(person, role="viewer") for _ in range(3)]
    response = await person.client.get(f"{keys_of(person)}?limit=2")
    secret = {"token", "expires_in_seconds"}
    assert response.json()["data"] == [
        {name: value for name, value in key.items() if name not in secret} for key in keys[:2]
    ]
    assert response.headers["x-next-after"] == str(keys[1]["id"])
    page = (await person.client.get(f"{keys_of(person)}?page=object")).json()["data"]
    assert ([key["id"] for key in page["items"]], page["next"]) == ([key["id"] for key in keys], None)
    assert "rk_" not in response.text


async def test_role_of_a_key_is_at_most_that_of_its_user_and_creator(app: AuthApp, person: SignedInPerson) -> None:
    for role in ("viewer", "operator"):
        assert (await created(person, role=role))["role"] == role
    for role in ("approver", "admin"):
        refused = await person.client.post(keys_of(person), json={"name": "own", "role": role})
        assert code_of(refused) == (403, 5022)
    admin = await app.signed_in("admin@example.com", Role.admin)
    by_program = await app.key_client(Role.operator).post(keys_of(admin), json={"name": "own"})
    assert by_program.json()["data"]["role"] == "operator"
    async with client_with(app, await created(person, role="viewer")) as program:
        assert (await program.get(person.devices)).status_code == 200
        assert code_of(await program.post(person.devices, json=registration())) == (403, 5022)


async def test_key_of_a_user_creates_no_keys(app: AuthApp, person: SignedInPerson) -> None:
    key = await created(person)
    async with client_with(app, key) as program:
        assert code_of(await program.post(keys_of(person), json={"name": "more"})) == (403, 5022)
        assert (await program.delete(f"{keys_of(person)}/{key['id']}")).status_code == 204


async def test_missing_and_foreign_keys_give_the_same_error(app: AuthApp, person: SignedInPerson) -> None:
    other = await app.signed_in("ben@example.com")
    foreign = await created(other)
    answers = [await person.client.delete(f"{keys_of(person)}/{key_id}") for key_id in (foreign["id"], 10**18)]
    assert [code_of(answer) for answer in answers] == [(404, 5003)] * 2
    assert answers[0].json() == answers[1].json()
    async with client_with(app, foreign) as program:
        assert (await program.get(other.devices)).status_code == 200
    absent = "/apiv1/users/999/apikeys"
    program = app.key_client(Role.admin)
    assert code_of(await program.get(absent)) == (404, 5003)
    assert code_of(await program.post(absent, json={"name": "own"})) == (404, 5003)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({"name": ""}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": "a", "role": "owner"}, "role"),
        ({"name": "a", "expires_in_seconds": 0}, "expires_in_seconds"),
        ({"name": "a", "expires_in_seconds": 315360001}, "expires_in_seconds"),
        ({"name": "a", "permissions": "all"}, "permissions"),
        ({"name": "a", "permissions": [{"obtype": "x", "obid": "*"}]}, "permissions[0].actions"),
        ({"name": "a", "colour": 1}, "colour"),
    ],
)
async def test_bad_request_names_the_field(person: SignedInPerson, body: dict[str, Any], field: str) -> None:
    assert field_named(await person.client.post(keys_of(person), json=body)) == field
    assert (await person.client.get(keys_of(person))).json()["data"] == []
