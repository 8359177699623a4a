from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from restante.database.database import Database
from restante.updates.sealing import AUTHORITY_KEY_PURPOSE
from tests.updates.world import Site, World, open_site

ACCOUNT = {"name": "a", "email": "ops@example.com", "provider": "self"}


@pytest.fixture
def world(database: Database) -> World:
    return World(database)


@pytest.fixture
async def site(world: World) -> Site:
    return await open_site(world)


def key_pem(world: World, ca_id: int) -> str:
    row = world.query("SELECT sealed_key FROM certificate_authorities WHERE id = :id", id=ca_id)[0]
    der = world.master_key.open(row["sealed_key"], AUTHORITY_KEY_PURPOSE)
    key = serialization.load_der_private_key(der, None)
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


async def test_make_list_get_revoke(site: Site) -> None:
    wish = {"name": "Mine", "algorithm": "RSA", "key_size": 2048, "country": "DE", "max_path_length": 1}
    made = await site.call("POST", "/cas", wish)
    assert made.status_code == 200
    ca = made.json()["data"]
    assert (ca["name"], ca["algorithm"], ca["key_size"], ca["valid_days"]) == ("Mine", "RSA", 2048, 3650)
    certificate = x509.load_pem_x509_certificate(ca["ca_certificate_pem"].encode())
    assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length == 1
    assert (await site.call("GET", f"/cas/{ca['id']}")).json()["data"] == ca
    page = (await site.call("GET", "/cas?limit=1")).json()["data"]
    assert page == {"items": [ca], "next": None}
    revoked = (await site.call("DELETE", f"/cas/{ca['id']}")).json()["data"]
    assert revoked["status"] == "revoked"


async def test_import(site: Site, world: World) -> None:
    foreign = world.add_authority(world.other_id)
    body = {
        "name": "Taken over",
        "ca_certificate_pem": foreign.ca_certificate_pem,
        "private_key_pem": key_pem(world, foreign.id),
    }
    taken = await site.call("POST", "/cas/import", body)
    assert taken.status_code == 200
    assert taken.json()["data"]["serial_number"] == foreign.serial_number
    assert key_pem(world, taken.json()["data"]["id"]) == body["private_key_pem"]
    other_key = key_pem(world, world.add_authority().id)
    for change, field in (
        ({"name": "a\nb"}, "name"),
        ({"ca_certificate_pem": "x"}, "ca_certificate_pem"),
        ({"private_key_pem": "x"}, "private_key_pem"),
        ({"private_key_pem": other_key}, "private_key_pem"),
        ({"extra": 1}, "extra"),
    ):
        answer = await site.call("POST", "/cas/import", {**body, **change})
        assert answer.status_code == 400
        assert answer.json()["error"]["what"].startswith(f"{field}: ")
        assert other_key not in answer.text


@pytest.mark.parametrize(
    ("wish", "field"),
    [
        ({}, "name"),
        ({"name": "a", "algorithm": "DSA"}, "algorithm"),
        ({"name": "a", "algorithm": "RSA", "key_size": 1024}, "key_size"),
        ({"name": "a", "valid_days": 7301}, "valid_days"),
    ],
)
async def test_wishes_that_cannot_be(site: Site, wish: dict[str, Any], field: str) -> None:
    answer = await site.call("POST", "/cas", wish)
    assert answer.status_code == 400
    assert answer.json()["error"]["what"].startswith(f"{field}: ")


async def test_nobody_s_things(site: Site) -> None:
    assert (await site.call("POST", "/apiv1/users/999/cas", {"name": "a"})).status_code == 404
    assert (await site.call("GET", "/apiv1/users/999/cas")).status_code == 404
    assert (await site.call("POST", "/apiv1/users/999/acme-accounts", ACCOUNT)).status_code == 404
    assert (await site.call("GET", "/cas/999")).status_code == 404
    assert (await site.call("DELETE", "/cas/999")).status_code == 404


async def test_assign_list_unassign(site: Site, world: World) -> None:
    device, ca = world.add_device(), world.add_authority()
    at = f"/devices/{device.id}/cas"
    for _ in range(2):
        assigned = await site.call("POST", at, {"ca_id": ca.id})
        assert assigned.status_code == 200
    assert (await site.call("GET", at)).json()["data"] == {"items": [assigned.json()["data"]], "next": None}
    assert (await site.call("DELETE", f"{at}/{ca.id}")).status_code == 204
    assert (await site.call("DELETE", f"{at}/{ca.id}")).status_code == 404
    assert world.signal_types(device) == ["ca.assigned", "ca.unassigned"]
    assert (await site.call("POST", at, {"ca_id": 999})).status_code == 404
    assert (await site.call("POST", at, {"ca_id": "1"})).status_code == 400
    await site.call("DELETE", f"/cas/{ca.id}")
    assert (await site.call("POST", at, {"ca_id": ca.id})).status_code == 409


async def test_accounts(site: Site, world: World) -> None:
    ca = world.add_authority()
    made = await site.call("POST", "/acme-accounts", {**ACCOUNT, "ca_id": ca.id})
    assert made.status_code == 200
    account = made.json()["data"]
    assert account["ca_id"] == ca.id
    assert (await site.call("GET", f"/acme-accounts/{account['id']}")).json()["data"] == account
    assert (await site.call("GET", "/acme-accounts")).json()["data"] == {"items": [account], "next": None}
    assert (await site.call("DELETE", f"/acme-accounts/{account['id']}")).status_code == 204
    assert (await site.call("DELETE", f"/acme-accounts/{account['id']}")).status_code == 404
    assert (await site.call("GET", f"/acme-accounts/{account['id']}")).status_code == 404


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"email": "nobody"}, "email"),
        ({"provider": "\t"}, "provider"),
        ({"ca_id": 999}, "ca_id"),
        ({"ca_id": 0}, "ca_id"),
        ({"extra": 1}, "extra"),
    ],
)
async def test_bad_accounts(site: Site, change: dict[str, Any], field: str) -> None:
    answer = await site.call("POST", "/acme-accounts", {**ACCOUNT, **change})
    assert answer.status_code == 400
    assert answer.json()["error"]["what"].startswith(f"{field}: ")
