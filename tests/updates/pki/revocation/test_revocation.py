"""Revocation lists, checked by openssl as another program would."""

import subprocess
from pathlib import Path

import pytest
from cryptography import x509

from restante.updates.pki import authorities, certificates
from restante.updates.pki.authorities import Authority
from restante.updates.pki.revocation import issued_serials, revocation_lists
from restante.updates.pki.revocation.revocation_lists import ListPlan
from tests.conftest import ManualClock
from tests.updates.updates_fixture import CRL_HOURS, DeviceFleet, UpdatesApi

DAY = 86_400


def address(ca: Authority, file: str = "list.crl") -> str:
    return revocation_lists.path_of(ca.id, ca.serial_number).replace("list.crl", file)


async def fetched(api: UpdatesApi, ca: Authority) -> x509.CertificateRevocationList:
    response = await api.call("GET", address(ca))
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "application/pkix-crl"
    return x509.load_der_x509_crl(response.content)


def number_of(crl: x509.CertificateRevocationList) -> int:
    return crl.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number


def issued(fleet: DeviceFleet, ca: Authority, name: str, days: int = 30) -> int:
    cert_id = fleet.add_certificate(fleet.add_account(ca.id).id, name).id
    fleet.issue(cert_id, days * DAY)
    return cert_id


def openssl(*args: str) -> tuple[int, str]:
    done = subprocess.run(["openssl", *args], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("algorithm", ["ECDSA", "RSA"])
async def test_openssl_refuses_a_revoked_certificate_and_accepts_another(
    api: UpdatesApi, fleet: DeviceFleet, clock: ManualClock, tmp_path: Path, algorithm: str
) -> None:
    ca = fleet.add_authority(algorithm=algorithm)
    files = tmp_path / algorithm
    files.mkdir()
    (files / "ca.pem").write_text(ca.ca_certificate_pem)
    ids = {name: issued(fleet, ca, f"{name}.example") for name in ("kept", "revoked")}
    pems = {
        name: fleet.database.read_now(certificates.get, fleet.user_id, cert_id).certificate_pem
        for name, cert_id in ids.items()
    }
    await api.call("DELETE", f"/certificates/{ids['revoked']}?reason=key_compromise")
    response = await api.call("GET", address(ca, "list.pem"))
    assert response.headers["content-type"] == "application/x-pem-file"
    (files / "list.pem").write_bytes(response.content)
    (files / "list.crl").write_bytes((await api.call("GET", address(ca))).content)
    code, text = openssl("crl", "-inform", "DER", "-in", f"{files}/list.crl", "-CAfile", f"{files}/ca.pem", "-text")
    assert code == 0
    assert "verify OK" in text
    assert "Key Compromise" in text
    at = str(clock.now_ms // 1000)
    for name, pem in pems.items():
        assert pem is not None
        (files / f"{name}.pem").write_text(pem)
        common = ("-CAfile", f"{files}/ca.pem", "-CRLfile", f"{files}/list.pem", "-crl_check", "-attime", at)
        code, text = openssl("verify", *common, f"{files}/{name}.pem")
        assert (code == 0) == (name == "kept"), text
        assert ("certificate revoked" in text) == (name == "revoked")


async def test_issued_certificate_names_the_list(api: UpdatesApi, fleet: DeviceFleet) -> None:
    ca = fleet.add_authority()
    pem = fleet.database.read_now(certificates.get, fleet.user_id, issued(fleet, ca, "a.example")).certificate_pem
    assert pem is not None
    points = x509.load_pem_x509_certificate(pem.encode()).extensions.get_extension_for_class(x509.CRLDistributionPoints)
    assert points.value[0].full_name == [x509.UniformResourceIdentifier("https://pki.example.com" + address(ca))]


async def test_list_is_kept_until_half_of_its_time_or_the_next_revocation(
    api: UpdatesApi, fleet: DeviceFleet, clock: ManualClock
) -> None:
    ca = fleet.add_authority()
    one, two = issued(fleet, ca, "a.example"), issued(fleet, ca, "b.example")
    first = await fetched(api, ca)
    assert (number_of(first), len(first)) == (1, 0)
    assert first.next_update_utc is not None
    assert (first.next_update_utc - first.last_update_utc).total_seconds() == CRL_HOURS * 3600
    clock.advance(CRL_HOURS * 3600 / 2 - 1)
    assert await fetched(api, ca) == first
    clock.advance(1)
    assert number_of(await fetched(api, ca)) == 2
    fleet.database.write_now(certificates.revoke, fleet.emit, fleet.user_id, one)
    third = await fetched(api, ca)
    assert (number_of(third), len(third)) == (3, 1)
    fleet.database.write_now(certificates.revoke, fleet.emit, fleet.user_id, two)
    assert len(await fetched(api, ca)) == 2


async def test_every_serial_of_a_renewed_certificate_is_revoked(
    api: UpdatesApi, fleet: DeviceFleet, clock: ManualClock
) -> None:
    ca = fleet.add_authority()
    cert_id = issued(fleet, ca, "a.example", days=1)
    for _ in range(2):
        clock.advance(DAY // 2 + 1)
        fleet.issue(cert_id, DAY)
    fleet.database.write_now(certificates.revoke, fleet.emit, fleet.user_id, cert_id, "superseded", "ada")
    assert len(await fetched(api, ca)) == 2, "the first one has ended"
    [row] = fleet.query("SELECT actor, detail FROM access_audit WHERE event = 'certificate.revoked'")
    assert row["actor"] == "ada"
    assert '"serials":2' in row["detail"]
    assert fleet.database.write_now(issued_serials.delete_ended) == 0
    clock.advance(DAY * 40)
    assert fleet.database.write_now(issued_serials.delete_ended) == 3
    assert len(await fetched(api, ca)) == 0


async def test_of_two_lists_that_are_signed_at_once_one_is_stored(fleet: DeviceFleet) -> None:
    ca = fleet.add_authority()
    serial = ca.serial_number.replace(":", "")
    plan = fleet.database.read_now(revocation_lists.current_or_plan, ca.id, serial)
    assert isinstance(plan, ListPlan)
    one, two = (revocation_lists.sign(plan, fleet.master_key, CRL_HOURS) for _ in range(2))
    assert fleet.database.write_now(revocation_lists.store, plan, one) == one
    assert fleet.database.write_now(revocation_lists.store, plan, two) == one


async def test_revocation_while_a_list_is_signed_is_in_the_next_one(api: UpdatesApi, fleet: DeviceFleet) -> None:
    ca = fleet.add_authority()
    cert_id = issued(fleet, ca, "a.example")
    serial = ca.serial_number.replace(":", "")
    plan = fleet.database.read_now(revocation_lists.current_or_plan, ca.id, serial)
    assert isinstance(plan, ListPlan)
    fleet.database.write_now(certificates.revoke, fleet.emit, fleet.user_id, cert_id)
    made = revocation_lists.sign(plan, fleet.master_key, CRL_HOURS)
    fleet.database.write_now(revocation_lists.store, plan, made)
    assert len(await fetched(api, ca)) == 1


async def test_revoked_authority_keeps_its_last_list(api: UpdatesApi, fleet: DeviceFleet, clock: ManualClock) -> None:
    ca, without = fleet.add_authority(), fleet.add_authority()
    last = await fetched(api, ca)
    for each in (ca, without):
        fleet.database.write_now(authorities.revoke, fleet.emit, fleet.user_id, each.id)
    clock.advance(CRL_HOURS * 3600)
    assert await fetched(api, ca) == last
    assert (await api.call("GET", address(without))).status_code == 404


async def test_authority_that_may_not_sign_lists_has_none(api: UpdatesApi, fleet: DeviceFleet) -> None:
    ca = fleet.add_authority(key_usage="digitalSignature,keyCertSign")
    pem = fleet.database.read_now(certificates.get, fleet.user_id, issued(fleet, ca, "a.example")).certificate_pem
    assert pem is not None
    with pytest.raises(x509.ExtensionNotFound):
        x509.load_pem_x509_certificate(pem.encode()).extensions.get_extension_for_class(x509.CRLDistributionPoints)
    assert (await api.call("GET", address(ca))).status_code == 404


@pytest.mark.parametrize("path", ["/crl/{id}/00/list.crl", "/crl/999/{serial}/list.crl", "/crl/{id}/%00/list.crl"])
async def test_list_is_found_by_id_and_serial_together_only(api: UpdatesApi, fleet: DeviceFleet, path: str) -> None:
    ca = fleet.add_authority()
    found = await api.call("GET", path.format(id=ca.id, serial=ca.serial_number.replace(":", "")))
    assert found.status_code == 404


async def test_unknown_reason_is_refused(api: UpdatesApi, fleet: DeviceFleet) -> None:
    cert_id = issued(fleet, fleet.add_authority(), "a.example")
    response = await api.call("DELETE", f"/certificates/{cert_id}?reason=because")
    assert response.status_code == 400
    assert "key_compromise" in response.json()["error"]["what"]
