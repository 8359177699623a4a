import asyncio
from datetime import timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from restante.database.database import Database
from restante.updates.x509 import (
    Keyed,
    Subject,
    as_pem,
    at_moment,
    issue_leaf,
    make_authority,
    new_signing_key,
    private_key_der,
)
from tests.conftest import START_MS
from tests.updates.world import Site, World, open_site

NOW = at_moment(START_MS)


@pytest.fixture
def world(database: Database) -> World:
    return World(database)


@pytest.fixture
async def site(world: World) -> Site:
    return await open_site(world)


def key_pem(keyed: Keyed) -> str:
    key = serialization.load_der_private_key(keyed.private_key_der, None)
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def elsewhere(*names: str) -> dict[str, Any]:
    """A certificate with its chain that somebody else has issued."""
    ca = make_authority(Subject("Elsewhere"), new_signing_key("P-256", 0), NOW, 30, None)
    leaf = issue_leaf(ca, list(names), NOW, 3600)
    chain = as_pem(leaf.certificate) + as_pem(ca.certificate)
    return {"certificate_pem": chain, "private_key_pem": key_pem(leaf)}


async def created(site: Site, world: World) -> dict[str, Any]:
    account = world.add_account(world.add_authority().id)
    body = {"domain_name": "A.example", "sans": ["b.example"], "acct_id": account.id, "action": "create"}
    answer = await site.call("POST", "/certificates", body)
    assert answer.status_code == 200
    data: dict[str, Any] = answer.json()["data"]
    return data


async def test_create_issue_renew_revoke(site: Site, world: World) -> None:
    record = await created(site, world)
    assert (record["status"], record["sans"]) == ("pending", ["a.example", "b.example"])
    at = f"/certificates/{record['id']}"
    issued = await site.call("POST", at + "/issues", {"validity_seconds": 300})
    assert issued.status_code == 200
    data = issued.json()["data"]
    assert (data["status"], data["not_after"] - data["not_before"]) == ("issued", 300)
    assert (await site.call("GET", at)).json()["data"] == data
    renewed = (await site.call("POST", at + "/issues")).json()["data"]
    assert renewed["serial"] != data["serial"]
    assert renewed["not_after"] - renewed["not_before"] == 90 * 86400
    listed = (await site.call("GET", "/certificates")).json()["data"]
    assert [(item["id"], item["serial"]) for item in listed["items"]] == [(record["id"], renewed["serial"])]
    revoked = (await site.call("DELETE", at)).json()["data"]
    assert revoked["status"] == "revoked"
    assert (await site.call("POST", at + "/issues")).status_code == 409


async def test_no_answer_holds_a_key(site: Site, world: World) -> None:
    record = await created(site, world)
    issued = await site.call("POST", f"/certificates/{record['id']}/issues")
    imported = await site.call("POST", "/certificates/import", elsewhere("a.example"))
    for answer in (issued, imported):
        assert "PRIVATE" not in answer.text
        assert not [name for name in answer.json()["data"] if "key" in name]


async def test_renewals_at_once_end_in_one_or_more_and_never_in_an_error(site: Site, world: World) -> None:
    record = await created(site, world)
    answers = await asyncio.gather(*(site.call("POST", f"/certificates/{record['id']}/issues") for _ in range(4)))
    statuses = [answer.status_code for answer in answers]
    assert set(statuses) <= {200, 409}
    row = world.query("SELECT issue_number, serial FROM cert_records")[0]
    assert row["issue_number"] == statuses.count(200) >= 1
    assert row["serial"] in [a.json()["data"]["serial"] for a in answers if a.status_code == 200]


@pytest.mark.parametrize("seconds", [299, 3650 * 86400 + 1, "300", 300.5])
async def test_validity_has_bounds(site: Site, world: World, seconds: Any) -> None:
    record = await created(site, world)
    answer = await site.call("POST", f"/certificates/{record['id']}/issues", {"validity_seconds": seconds})
    assert answer.status_code == 400
    assert answer.json()["error"]["what"].startswith("validity_seconds: ")


async def test_the_longest_validity_ends_with_the_authority(site: Site, world: World) -> None:
    record = await created(site, world)
    body = {"validity_seconds": 3650 * 86400}
    answer = await site.call("POST", f"/certificates/{record['id']}/issues", body)
    assert answer.json()["data"]["not_after"] == START_MS // 1000 + 3650 * 86400


async def test_an_account_without_authority_is_422_and_says_why(site: Site, world: World) -> None:
    certificate = world.add_certificate(world.add_account(None).id)
    answer = await site.call("POST", f"/certificates/{certificate.id}/issues")
    assert answer.status_code == 422
    assert "public ACME providers" in answer.json()["error"]["what"]


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
    ],
)
async def test_bad_records(site: Site, world: World, change: dict[str, Any], field: str) -> None:
    body = {"domain_name": "a.example", "acct_id": world.add_account(None).id, **change}
    answer = await site.call("POST", "/certificates", body)
    assert answer.status_code == 400
    assert answer.json()["error"]["what"].startswith(f"{field}: ")
    assert (await site.call("GET", "/certificates")).json()["data"]["items"] == []


async def test_import(site: Site, world: World) -> None:
    body = elsewhere("www.example.com", "*.example.org", "192.0.2.7")
    imported = await site.call("POST", "/certificates/import", body)
    assert imported.status_code == 200
    data = imported.json()["data"]
    assert (data["status"], data["domain_name"], data["issuer"]) == (
        "issued",
        "www.example.com",
        "CN=Elsewhere",
    )
    assert data["sans"] == ["www.example.com", "*.example.org", "192.0.2.7"]
    assert data["certificate_pem"] + data["chain_pem"] == body["certificate_pem"]
    named = await site.call("POST", "/certificates/import", {**body, "domain_name": "X.example.org"})
    assert named.json()["data"]["domain_name"] == "x.example.org"
    again = await site.call("POST", f"/certificates/{data['id']}/issues")
    assert again.status_code == 422


async def test_bad_imports(site: Site) -> None:
    body = elsewhere("a.example")
    other = elsewhere("a.example")
    for change, field in (
        ({"certificate_pem": "x"}, "certificate_pem"),
        ({"certificate_pem": other["certificate_pem"]}, "private_key_pem"),
        ({"private_key_pem": "x"}, "private_key_pem"),
        ({"domain_name": "b.example"}, "domain_name"),
        ({"domain_name": "?"}, "domain_name"),
        ({"extra": 1}, "extra"),
    ):
        answer = await site.call("POST", "/certificates/import", {**body, **change})
        assert answer.status_code == 400, field
        assert answer.json()["error"]["what"].startswith(f"{field}: ")
        assert body["private_key_pem"] not in answer.text


async def test_a_certificate_that_names_nothing_is_not_imported(site: Site) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([])
    until = NOW + timedelta(days=1)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 7, NOW, until)
    names = x509.SubjectAlternativeName([x509.RFC822Name("ops@example.com")])
    certificate = builder.add_extension(names, False).sign(key, hashes.SHA256())
    body = {
        "certificate_pem": as_pem(certificate),
        "private_key_pem": key_pem(Keyed(certificate, private_key_der(key))),
    }
    answer = await site.call("POST", "/certificates/import", body)
    assert answer.status_code == 400
    assert answer.json()["error"]["what"].startswith("certificate_pem: ")


async def test_nobody_s_things(site: Site, world: World) -> None:
    foreign = world.add_certificate(user_id=world.other_id)
    for cert_id in (foreign.id, 999):
        assert (await site.call("GET", f"/certificates/{cert_id}")).status_code == 404
        assert (await site.call("DELETE", f"/certificates/{cert_id}")).status_code == 404
        assert (await site.call("POST", f"/certificates/{cert_id}/issues")).status_code == 404
    absent = "/apiv1/users/999/certificates"
    assert (await site.call("GET", absent)).status_code == 404
    assert (await site.call("POST", absent + "/import", elsewhere("a.example"))).status_code == 404
    body = {"domain_name": "a.example", "acct_id": 1}
    assert (await site.call("POST", absent, body)).status_code == 404


async def test_assign_list_unassign(site: Site, world: World) -> None:
    device, certificate = world.add_device(), world.add_certificate()
    at = f"/devices/{device.id}/certificates"
    for _ in range(2):
        assigned = await site.call("POST", at, {"cert_id": certificate.id})
        assert assigned.status_code == 200
    assert assigned.json()["data"]["wrap_status"] == "pending"
    assert (await site.call("GET", at)).json()["data"] == {"items": [assigned.json()["data"]], "next": None}
    assert (await site.call("DELETE", f"{at}/{certificate.id}")).status_code == 204
    assert (await site.call("DELETE", f"{at}/{certificate.id}")).status_code == 404
    assert world.signal_types(device) == ["cert.revoked"]
    assert (await site.call("POST", at, {"cert_id": 999})).status_code == 404
    assert (await site.call("POST", at, {})).status_code == 400
    await site.call("DELETE", f"/certificates/{certificate.id}")
    assert (await site.call("POST", at, {"cert_id": certificate.id})).status_code == 409
