import asyncio
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from restante.core.iso_time import iso_precise, parse_iso
from restante.updates.pki.crypto.x509 import (
    CertificateSubject,
    CertificateWithKey,
    as_pem,
    issue_leaf,
    make_authority,
    new_signing_key,
    private_key_der,
    utc_datetime,
)
from tests.conftest import START_MS
from tests.updates.updates_fixture import DeviceFleet, UpdatesApi

NOW = utc_datetime(START_MS)


def key_pem(with_key: CertificateWithKey) -> str:
    key = serialization.load_der_private_key(with_key.private_key_der, None)
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def externally_issued(*names: str) -> dict[str, Any]:
    """A certificate with its chain that another authority has issued."""
    ca = make_authority(CertificateSubject("Elsewhere"), new_signing_key("P-256", 0), NOW, 30, None)
    leaf = issue_leaf(ca, list(names), NOW, 3600)
    chain = as_pem(leaf.certificate) + as_pem(ca.certificate)
    return {"certificate_pem": chain, "private_key_pem": key_pem(leaf)}


async def created(api: UpdatesApi, fleet: DeviceFleet) -> dict[str, Any]:
    account = fleet.add_account(fleet.add_authority().id)
    body = {"domain_name": "A.example", "sans": ["b.example"], "acct_id": account.id, "action": "create"}
    response = await api.call("POST", "/certificates", body)
    assert response.status_code == 200
    data: dict[str, Any] = response.json()["data"]
    return data


def validity_seconds(certificate: dict[str, Any]) -> float:
    return (parse_iso(certificate["not_after"], "") - parse_iso(certificate["not_before"], "")) / 1000


async def test_certificate_is_created_issued_renewed_and_revoked(api: UpdatesApi, fleet: DeviceFleet) -> None:
    record = await created(api, fleet)
    assert (record["status"], record["sans"]) == ("pending", ["a.example", "b.example"])
    at = f"/certificates/{record['id']}"
    issued = await api.call("POST", at + "/issues", {"validity_seconds": 300})
    assert issued.status_code == 200
    data = issued.json()["data"]
    assert (data["status"], validity_seconds(data)) == ("issued", 300)
    assert (await api.call("GET", at)).json()["data"] == data
    renewed = (await api.call("POST", at + "/issues")).json()["data"]
    assert renewed["serial"] != data["serial"]
    assert validity_seconds(renewed) == 90 * 86400
    listed = (await api.call("GET", "/certificates")).json()["data"]
    assert [(item["id"], item["serial"]) for item in listed["items"]] == [(record["id"], renewed["serial"])]
    revoked = (await api.call("DELETE", at)).json()["data"]
    assert revoked["status"] == "revoked"
    assert (await api.call("POST", at + "/issues")).status_code == 409


SUBJECT = {
    "organization": "Test Org",
    "organizational_unit": "IT",
    "country": "US",
    "state": "CA",
    "locality": "San Jose",
}


async def account_with(api: UpdatesApi, fleet: DeviceFleet, **defaults: Any) -> int:
    body = {"name": "a", "email": "ops@example.com", "provider": "SELF_CA", "ca_id": fleet.add_authority().id}
    made = await api.call("POST", "/acme-accounts", body | defaults)
    assert made.status_code == 200, made.text
    return int(made.json()["data"]["id"])


async def issued_leaf(api: UpdatesApi, acct_id: int, **fields: Any) -> x509.Certificate:
    body = {"domain_name": "a.example", "sans": [], "acct_id": acct_id, "action": "create", **fields}
    record = (await api.call("POST", "/certificates", body)).json()["data"]
    issued = (await api.call("POST", f"/certificates/{record['id']}/issues")).json()["data"]
    return x509.load_pem_x509_certificate(issued["certificate_pem"].encode())


async def test_subject_is_in_the_issued_certificate(api: UpdatesApi, fleet: DeviceFleet) -> None:
    acct_id = await account_with(api, fleet)
    leaf = await issued_leaf(api, acct_id, **SUBJECT)
    assert leaf.subject.rfc4514_string() == "CN=a.example,OU=IT,O=Test Org,L=San Jose,ST=CA,C=US"
    listed = (await api.call("GET", "/certificates")).json()["data"]["items"][0]
    assert {name: listed[name] for name in SUBJECT} == SUBJECT
    empty = await issued_leaf(api, acct_id, **dict.fromkeys(SUBJECT, ""))
    assert empty.subject.rfc4514_string() == "CN=a.example"


async def test_renewal_keeps_the_subject(api: UpdatesApi, fleet: DeviceFleet) -> None:
    body = {"domain_name": "a.example", "acct_id": await account_with(api, fleet), "organization": "Org"}
    record = (await api.call("POST", "/certificates", body)).json()["data"]
    for _ in range(2):
        issued = (await api.call("POST", f"/certificates/{record['id']}/issues")).json()["data"]
        leaf = x509.load_pem_x509_certificate(issued["certificate_pem"].encode())
        assert leaf.subject.rfc4514_string() == "CN=a.example,O=Org"


async def test_account_defaults_decide_validity_and_key(api: UpdatesApi, fleet: DeviceFleet) -> None:
    curve = await account_with(
        api, fleet, cert_valid_seconds=3600, leaf_key_algorithm="ECDSA", leaf_ec_curve="secp384r1"
    )
    leaf = await issued_leaf(api, curve)
    assert leaf.not_valid_after_utc - leaf.not_valid_before_utc == timedelta(seconds=3600)
    key = leaf.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert key.curve.name == "secp384r1"
    for defaults, bits in (({}, 2048), ({"leaf_rsa_bits": 3072}, 3072)):
        leaf = await issued_leaf(api, await account_with(api, fleet, leaf_key_algorithm="RSA", **defaults))
        key = leaf.public_key()
        assert isinstance(key, rsa.RSAPublicKey)
        assert key.key_size == bits
        assert leaf.extensions.get_extension_for_class(x509.KeyUsage).value.key_encipherment


async def test_issue_overrides_the_validity_of_the_account(api: UpdatesApi, fleet: DeviceFleet) -> None:
    certificate = fleet.add_certificate(await account_with(api, fleet, cert_valid_seconds=3600))
    issued = await api.call("POST", f"/certificates/{certificate.id}/issues", {"validity_seconds": 600})
    assert validity_seconds(issued.json()["data"]) == 600


async def test_no_response_contains_a_key(api: UpdatesApi, fleet: DeviceFleet) -> None:
    record = await created(api, fleet)
    issued = await api.call("POST", f"/certificates/{record['id']}/issues")
    imported = await api.call("POST", "/certificates/import", externally_issued("a.example"))
    for response in (issued, imported):
        assert "PRIVATE" not in response.text
        assert not [name for name in response.json()["data"] if "key" in name]


async def test_concurrent_renewals_succeed_or_conflict(api: UpdatesApi, fleet: DeviceFleet) -> None:
    record = await created(api, fleet)
    responses = await asyncio.gather(*(api.call("POST", f"/certificates/{record['id']}/issues") for _ in range(4)))
    statuses = [response.status_code for response in responses]
    assert set(statuses) <= {200, 409}
    row = fleet.query("SELECT issue_number, serial FROM cert_records")[0]
    assert row["issue_number"] == statuses.count(200) >= 1
    assert row["serial"] in [a.json()["data"]["serial"] for a in responses if a.status_code == 200]


@pytest.mark.parametrize("seconds", [299, 3650 * 86400 + 1, "300", 300.5])
async def test_validity_out_of_bounds_is_refused(api: UpdatesApi, fleet: DeviceFleet, seconds: Any) -> None:
    record = await created(api, fleet)
    response = await api.call("POST", f"/certificates/{record['id']}/issues", {"validity_seconds": seconds})
    assert response.status_code == 400
    assert response.json()["error"]["what"].startswith("validity_seconds: ")


async def test_longest_validity_ends_with_the_authority(api: UpdatesApi, fleet: DeviceFleet) -> None:
    record = await created(api, fleet)
    body = {"validity_seconds": 3650 * 86400}
    response = await api.call("POST", f"/certificates/{record['id']}/issues", body)
    assert response.json()["data"]["not_after"] == iso_precise(START_MS + 3650 * 86_400_000)


async def test_account_without_authority_is_422_with_the_reason(api: UpdatesApi, fleet: DeviceFleet) -> None:
    certificate = fleet.add_certificate(fleet.add_account(None).id)
    response = await api.call("POST", f"/certificates/{certificate.id}/issues")
    assert response.status_code == 422
    assert "public ACME providers" in response.json()["error"]["what"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"domain_name": "bücher.example"}, "domain_name"),
        ({"domain_name": ""}, "domain_name"),
        ({"sans": ["a.example", "*.*.example"]}, "sans[1]"),
        ({"sans": "a.example"}, "sans"),
        ({"sans": ["a.example"] * 101}, "sans"),
        ({"acct_id": 999}, "acct_id"),
        ({"acct_id": None}, "acct_id"),
        ({"action": "destroy"}, "action"),
        ({"key_size": 1}, "key_size"),
        ({"country": "USA"}, "country"),
        ({"organization": "x" * 65}, "organization"),
        ({"locality": "a\nb"}, "locality"),
    ],
)
async def test_bad_certificate_names_the_field(
    api: UpdatesApi, fleet: DeviceFleet, change: dict[str, Any], field: str
) -> None:
    body = {"domain_name": "a.example", "acct_id": fleet.add_account(None).id, **change}
    response = await api.call("POST", "/certificates", body)
    assert response.status_code == 400
    assert response.json()["error"]["what"].startswith(f"{field}: ")
    assert (await api.call("GET", "/certificates")).json()["data"]["items"] == []


async def test_certificate_is_imported(api: UpdatesApi, fleet: DeviceFleet) -> None:
    body = externally_issued("www.example.com", "*.example.org", "192.0.2.7")
    imported = await api.call("POST", "/certificates/import", body)
    assert imported.status_code == 200
    data = imported.json()["data"]
    assert (data["status"], data["domain_name"], data["issuer"]) == (
        "issued",
        "www.example.com",
        "CN=Elsewhere",
    )
    assert data["sans"] == ["www.example.com", "*.example.org", "192.0.2.7"]
    assert data["certificate_pem"] + data["chain_pem"] == body["certificate_pem"]
    named = await api.call("POST", "/certificates/import", {**body, "domain_name": "X.example.org"})
    assert named.json()["data"]["domain_name"] == "x.example.org"
    again = await api.call("POST", f"/certificates/{data['id']}/issues")
    assert again.status_code == 422


async def test_bad_import_is_refused(api: UpdatesApi) -> None:
    body = externally_issued("a.example")
    other = externally_issued("a.example")
    for change, field in (
        ({"certificate_pem": "x"}, "certificate_pem"),
        ({"certificate_pem": other["certificate_pem"]}, "private_key_pem"),
        ({"private_key_pem": "x"}, "private_key_pem"),
        ({"domain_name": "b.example"}, "domain_name"),
        ({"domain_name": "?"}, "domain_name"),
        ({"extra": 1}, "extra"),
    ):
        response = await api.call("POST", "/certificates/import", {**body, **change})
        assert response.status_code == 400, field
        assert response.json()["error"]["what"].startswith(f"{field}: ")
        assert body["private_key_pem"] not in response.text


async def test_certificate_without_names_is_not_imported(api: UpdatesApi) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([])
    until = NOW + timedelta(days=1)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 7, NOW, until)
    names = x509.SubjectAlternativeName([x509.RFC822Name("ops@example.com")])
    certificate = builder.add_extension(names, False).sign(key, hashes.SHA256())
    body = {
        "certificate_pem": as_pem(certificate),
        "private_key_pem": key_pem(CertificateWithKey(certificate, private_key_der(key))),
    }
    response = await api.call("POST", "/certificates/import", body)
    assert response.status_code == 400
    assert response.json()["error"]["what"].startswith("certificate_pem: ")


async def test_foreign_and_missing_certificates_are_not_found(api: UpdatesApi, fleet: DeviceFleet) -> None:
    foreign = fleet.add_certificate(user_id=fleet.other_id)
    for cert_id in (foreign.id, 999):
        assert (await api.call("GET", f"/certificates/{cert_id}")).status_code == 404
        assert (await api.call("DELETE", f"/certificates/{cert_id}")).status_code == 404
        assert (await api.call("POST", f"/certificates/{cert_id}/issues")).status_code == 404
    absent = "/apiv1/users/999/certificates"
    assert (await api.call("GET", absent)).status_code == 404
    assert (await api.call("POST", absent + "/import", externally_issued("a.example"))).status_code == 404
    body = {"domain_name": "a.example", "acct_id": 1}
    assert (await api.call("POST", absent, body)).status_code == 404


async def test_certificate_is_assigned_listed_and_unassigned(api: UpdatesApi, fleet: DeviceFleet) -> None:
    device, certificate = fleet.add_device(), fleet.add_certificate()
    at = f"/devices/{device.id}/certificates"
    for _ in range(2):
        assigned = await api.call("POST", at, {"cert_id": certificate.id})
        assert assigned.status_code == 200
    assert assigned.json()["data"]["wrap_status"] == "pending"
    assert (await api.call("GET", at)).json()["data"] == [assigned.json()["data"]]
    assert assigned.json()["data"]["id"] == certificate.id
    assert (await api.call("GET", at + "?page=object")).json()["data"]["items"] == [assigned.json()["data"]]
    assert (await api.call("DELETE", f"{at}/{certificate.id}")).status_code == 204
    assert (await api.call("DELETE", f"{at}/{certificate.id}")).status_code == 404
    assert fleet.signal_types(device) == ["cert.revoked", "cert.unassigned"]
    assert (await api.call("POST", at, {"cert_id": 999})).status_code == 404
    assert (await api.call("POST", at, {})).status_code == 400
    await api.call("DELETE", f"/certificates/{certificate.id}")
    assert (await api.call("POST", at, {"cert_id": certificate.id})).status_code == 409
