from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from restante.updates.pki.crypto.sealing import AUTHORITY_KEY_PURPOSE
from tests.updates.updates_fixture import DeviceFleet, UpdatesApi

ACCOUNT = {"name": "a", "email": "ops@example.com", "provider": "self"}


def key_pem(fleet: DeviceFleet, ca_id: int) -> str:
    row = fleet.query("SELECT sealed_key FROM certificate_authorities WHERE id = :id", id=ca_id)[0]
    der = fleet.master_key.open(row["sealed_key"], AUTHORITY_KEY_PURPOSE)
    key = serialization.load_der_private_key(der, None)
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


async def test_authority_is_created_listed_shown_and_revoked(api: UpdatesApi) -> None:
    body = {"name": "Mine", "algorithm": "RSA", "key_size": 2048, "country": "DE", "max_path_length": 1}
    made = await api.call("POST", "/cas", body)
    assert made.status_code == 200
    ca = made.json()["data"]
    assert (ca["name"], ca["algorithm"], ca["key_size"], ca["valid_days"]) == ("Mine", "RSA", 2048, 3650)
    certificate = x509.load_pem_x509_certificate(ca["ca_certificate_pem"].encode())
    assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.path_length == 1
    assert (await api.call("GET", f"/cas/{ca['id']}")).json()["data"] == ca
    page = (await api.call("GET", "/cas?limit=1")).json()["data"]
    assert page == {"items": [ca], "next": None}
    revoked = (await api.call("DELETE", f"/cas/{ca['id']}")).json()["data"]
    assert revoked["status"] == "revoked"


async def test_key_usage_is_stored_and_shown(api: UpdatesApi) -> None:
    body = {"name": "Mine", "state": "", "locality": "", "organizational_unit": "", "key_usage": "keyCertSign,cRLSign"}
    made = (await api.call("POST", "/cas", body)).json()["data"]
    assert made["key_usage"] == "keyCertSign,cRLSign"
    assert (await api.call("GET", f"/cas/{made['id']}")).json()["data"] == made
    certificate = x509.load_pem_x509_certificate(made["ca_certificate_pem"].encode())
    usage = certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    assert (usage.key_cert_sign, usage.crl_sign, usage.digital_signature) == (True, True, False)


async def test_authority_is_imported(api: UpdatesApi, fleet: DeviceFleet) -> None:
    foreign = fleet.add_authority(fleet.other_id)
    body = {
        "name": "Imported",
        "ca_certificate_pem": foreign.ca_certificate_pem,
        "private_key_pem": key_pem(fleet, foreign.id),
    }
    imported = await api.call("POST", "/cas/import", body)
    assert imported.status_code == 200
    assert imported.json()["data"]["serial_number"] == foreign.serial_number
    assert key_pem(fleet, imported.json()["data"]["id"]) == body["private_key_pem"]
    other_key = key_pem(fleet, fleet.add_authority().id)
    for change, field in (
        ({"name": "a\nb"}, "name"),
        ({"ca_certificate_pem": "x"}, "ca_certificate_pem"),
        ({"private_key_pem": "x"}, "private_key_pem"),
        ({"private_key_pem": other_key}, "private_key_pem"),
        ({"extra": 1}, "extra"),
    ):
        response = await api.call("POST", "/cas/import", {**body, **change})
        assert response.status_code == 400
        assert response.json()["error"]["what"].startswith(f"{field}: ")
        assert other_key not in response.text


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({"name": "a", "algorithm": "DSA"}, "algorithm"),
        ({"name": "a", "algorithm": "RSA", "key_size": 1024}, "key_size"),
        ({"name": "a", "valid_days": 7301}, "valid_days"),
    ],
)
async def test_bad_request_names_the_field(api: UpdatesApi, body: dict[str, Any], field: str) -> None:
    response = await api.call("POST", "/cas", body)
    assert response.status_code == 400
    assert response.json()["error"]["what"].startswith(f"{field}: ")


async def test_unknown_user_and_authority_are_not_found(api: UpdatesApi) -> None:
    assert (await api.call("POST", "/apiv1/users/999/cas", {"name": "a"})).status_code == 404
    assert (await api.call("GET", "/apiv1/users/999/cas")).status_code == 404
    assert (await api.call("POST", "/apiv1/users/999/acme-accounts", ACCOUNT)).status_code == 404
    assert (await api.call("GET", "/cas/999")).status_code == 404
    assert (await api.call("DELETE", "/cas/999")).status_code == 404


async def test_authority_is_assigned_listed_and_unassigned(api: UpdatesApi, fleet: DeviceFleet) -> None:
    device, ca = fleet.add_device(), fleet.add_authority()
    at = f"/devices/{device.id}/cas"
    for _ in range(2):
        assigned = await api.call("POST", at, {"ca_id": ca.id})
        assert assigned.status_code == 200
    assert (await api.call("GET", at)).json()["data"] == [assigned.json()["data"]]
    assert assigned.json()["data"]["id"] == ca.id
    assert (await api.call("GET", at + "?page=object")).json()["data"]["items"] == [assigned.json()["data"]]
    assert (await api.call("DELETE", f"{at}/{ca.id}")).status_code == 204
    assert (await api.call("DELETE", f"{at}/{ca.id}")).status_code == 404
    assert fleet.signal_types(device) == ["ca.assigned", "ca.unassigned"]
    assert (await api.call("POST", at, {"ca_id": 999})).status_code == 404
    assert (await api.call("POST", at, {"ca_id": "1"})).status_code == 400
    await api.call("DELETE", f"/cas/{ca.id}")
    assert (await api.call("POST", at, {"ca_id": ca.id})).status_code == 409


async def test_account_is_created_listed_and_deleted(api: UpdatesApi, fleet: DeviceFleet) -> None:
    ca = fleet.add_authority()
    made = await api.call("POST", "/acme-accounts", {**ACCOUNT, "ca_id": ca.id})
    assert made.status_code == 200
    account = made.json()["data"]
    assert account["ca_id"] == ca.id
    assert (await api.call("GET", f"/acme-accounts/{account['id']}")).json()["data"] == account
    assert (await api.call("GET", "/acme-accounts")).json()["data"] == [account]
    assert (await api.call("GET", "/acme-accounts?page=object")).json()["data"] == {"items": [account], "next": None}
    assert (await api.call("DELETE", f"/acme-accounts/{account['id']}")).status_code == 204
    assert (await api.call("DELETE", f"/acme-accounts/{account['id']}")).status_code == 404
    assert (await api.call("GET", f"/acme-accounts/{account['id']}")).status_code == 404


DEFAULTS = {"cert_valid_seconds": 315360000, "leaf_key_algorithm": "ECDSA", "leaf_ec_curve": "prime256v1"}


async def test_account_has_defaults_for_its_certificates(api: UpdatesApi, fleet: DeviceFleet) -> None:
    body = {"name": "a", "email": "ops@example.com", "provider": "SELF_CA", "ca_id": fleet.add_authority().id}
    account = (await api.call("POST", "/acme-accounts", body | DEFAULTS)).json()["data"]
    expected = {**DEFAULTS, "leaf_ec_curve": "P-256", "leaf_rsa_bits": None}
    assert {name: account[name] for name in expected} == expected
    assert (await api.call("GET", f"/acme-accounts/{account['id']}")).json()["data"] == account


async def test_zero_and_empty_mean_none(api: UpdatesApi) -> None:
    for absent in ({"ca_id": 0}, {"ca_id": None, "leaf_key_algorithm": "", "leaf_ec_curve": ""}, {}):
        made = await api.call("POST", "/acme-accounts", {**ACCOUNT, **absent})
        assert made.status_code == 200
        account = made.json()["data"]
        assert account["ca_id"] is account["leaf_key_algorithm"] is account["leaf_ec_curve"] is None


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"cert_valid_seconds": 299}, "cert_valid_seconds"),
        ({"cert_valid_seconds": 315360001}, "cert_valid_seconds"),
        ({"leaf_key_algorithm": "DSA"}, "leaf_key_algorithm"),
        ({"leaf_ec_curve": "P-192"}, "leaf_ec_curve"),
        ({"leaf_key_algorithm": "RSA", "leaf_ec_curve": "P-256"}, "leaf_ec_curve"),
        ({"leaf_key_algorithm": "RSA", "leaf_rsa_bits": 1024}, "leaf_rsa_bits"),
        ({"leaf_rsa_bits": 2048}, "leaf_rsa_bits"),
        ({"ca_id": -1}, "ca_id"),
        ({"name": ""}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"email": "nobody"}, "email"),
        ({"provider": "\t"}, "provider"),
        ({"ca_id": 999}, "ca_id"),
        ({"extra": 1}, "extra"),
    ],
)
async def test_bad_account_names_the_field(api: UpdatesApi, change: dict[str, Any], field: str) -> None:
    response = await api.call("POST", "/acme-accounts", {**ACCOUNT, **change})
    assert response.status_code == 400
    assert response.json()["error"]["what"].startswith(f"{field}: ")
