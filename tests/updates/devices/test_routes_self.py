import json
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.verification import PolicyBuilder, Store

from restante.updates.pki.crypto.x509 import utc_datetime
from restante.updates.pki.wrapping import WrapWorker
from tests.conftest import START_MS
from tests.updates.updates_fixture import DeviceFleet, FleetDevice, UpdatesApi, decrypt_as_device

BUNDLE_FIELDS = {
    "wrap_alg",
    "enc_scheme",
    "device_keyfp_b64",
    "enc_data_key_b64",
    "enc_privkey_b64",
    "privkey_nonce_b64",
    "privkey_tag_b64",
    "certificate_pem",
    "chain_pem",
    "fullchain_pem",
    "domain_name",
    "serial",
}


async def assigned(api: UpdatesApi, fleet: DeviceFleet, device: FleetDevice) -> int:
    certificate = fleet.add_certificate()
    await api.call("POST", f"/devices/{device.id}/certificates", {"cert_id": certificate.id})
    return certificate.id


async def wrap(fleet: DeviceFleet) -> None:
    assert await WrapWorker(fleet.database, fleet.master_key, fleet.emit).run_once() == 1


async def test_device_fetches_its_install_config(api: UpdatesApi, fleet: DeviceFleet, device: FleetDevice) -> None:
    assert (await api.as_device(device, "GET", "/install-config")).status_code == 404
    body = {"installs": [{"id": "a", "type": "exec"}], "after_update_script": "echo done"}
    await api.call("PUT", f"/devices/{device.id}/install-config", body)
    response = await api.as_device(device, "GET", "/install-config")
    assert (response.status_code, response.headers["etag"]) == (200, '"1"')
    data = response.json()["data"]
    assert data["installs"] == json.loads(data["installs_json"])
    assert data["installs_hash"] == fleet.signals(device)[0]["ref"]["installs_hash_b64"]
    assert (data["user_device_id"], data["version"], data["updated_by"]) == (device.id, 1, "key:tests")
    assert data["after_update_script"] == "echo done"
    assert data["created_at"] == data["updated_at"] == START_MS // 1000


@pytest.mark.parametrize("tag", ["1", '"1"', 'W/"1"'])
async def test_known_install_config_is_not_sent_again(api: UpdatesApi, device: FleetDevice, tag: str) -> None:
    path = f"/devices/{device.id}/install-config"
    await api.call("PUT", path, {"installs": []})
    same = await api.as_device(device, "GET", "/install-config", if_none_match=tag)
    assert (same.status_code, same.headers["etag"], same.content) == (304, '"1"', b"")
    await api.call("PUT", path, {"installs": []})
    newer = await api.as_device(device, "GET", "/install-config", if_none_match=tag)
    assert (newer.status_code, newer.headers["etag"]) == (200, '"2"')


async def test_certificate_from_assignment_to_revocation(
    api: UpdatesApi, fleet: DeviceFleet, device: FleetDevice
) -> None:
    cert_id = await assigned(api, fleet, device)
    at = f"/certificates/{cert_id}"
    for path in (at, at + "/bundle", at + "/deploy-materials"):
        early = await api.as_device(device, "GET", path)
        assert early.status_code == 409
        assert early.json()["error"]["what"].startswith("WRAP_PENDING: the certificate is not issued yet")
    await api.call("POST", at + "/issues")
    for path in (at + "/bundle", at + "/deploy-materials"):
        pending = await api.as_device(device, "GET", path)
        assert pending.status_code == 409
        assert "WRAP_PENDING" in pending.json()["error"]["what"]
    assert (await api.as_device(device, "GET", at)).status_code == 200
    await wrap(fleet)
    for path in (at + "/bundle", at + "/deploy-materials"):
        ready = await api.as_device(device, "GET", path)
        assert ready.status_code == 200
        assert ready.json()["data"].keys() >= BUNDLE_FIELDS
        check_bundle(ready.json()["data"], device)
    renewed = (await api.call("POST", at + "/issues")).json()["data"]
    assert (await api.as_device(device, "GET", at + "/bundle")).status_code == 409
    await wrap(fleet)
    last = (await api.as_device(device, "GET", at + "/bundle")).json()["data"]
    assert last["serial"] == renewed["serial"]
    check_bundle(last, device)
    await api.call("DELETE", at)
    for path in (at, at + "/bundle", at + "/deploy-materials"):
        assert (await api.as_device(device, "GET", path)).status_code == 404
    assert fleet.signal_types(device) == [
        "cert.wrap_ready",
        "cert.updated",
        "cert.renewed",
        "cert.wrap_ready",
        "cert.updated",
        "cert.revoked",
        "cert.unassigned",
    ]


def check_bundle(bundle: dict[str, Any], device: FleetDevice) -> None:
    """Check that the key opens and fits the certificate, and that its authority verifies it."""
    key = serialization.load_der_private_key(decrypt_as_device(bundle, device.private_key), None)
    leaf, authority = x509.load_pem_x509_certificates(bundle["fullchain_pem"].encode())
    assert key.public_key() == leaf.public_key()
    policy = PolicyBuilder().store(Store([authority])).time(utc_datetime(START_MS))
    policy.build_server_verifier(x509.DNSName(bundle["domain_name"])).verify(leaf, [])
    assert (bundle["wrap_alg"], bundle["enc_scheme"]) == ("x25519", "aes256gcm")


async def test_imported_certificate_reaches_its_device(
    api: UpdatesApi, fleet: DeviceFleet, device: FleetDevice
) -> None:
    source = await assigned(api, fleet, device)
    fleet.issue(source)
    await wrap(fleet)
    bundle = (await api.as_device(device, "GET", f"/certificates/{source}/bundle")).json()["data"]
    key = serialization.load_der_private_key(decrypt_as_device(bundle, device.private_key), None)
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, form, plain).decode()
    body = {"certificate_pem": bundle["fullchain_pem"], "private_key_pem": pem}
    cert_id = (await api.call("POST", "/certificates/import", body)).json()["data"]["id"]
    await api.call("POST", f"/devices/{device.id}/certificates", {"cert_id": cert_id})
    await wrap(fleet)
    imported = (await api.as_device(device, "GET", f"/certificates/{cert_id}/bundle")).json()["data"]
    assert imported["serial"] == bundle["serial"]
    check_bundle(imported, device)


async def test_download_has_the_same_content_as_a_file(
    api: UpdatesApi, fleet: DeviceFleet, device: FleetDevice
) -> None:
    cert_id = await assigned(api, fleet, device)
    fleet.issue(cert_id)
    await wrap(fleet)
    plain = await api.as_device(device, "GET", f"/certificates/{cert_id}/bundle")
    packed = await api.as_device(device, "GET", f"/certificates/{cert_id}/bundle?pack=download")
    assert packed.content == plain.content
    assert packed.headers["content-disposition"] == f'attachment; filename="certificate-{cert_id}.json"'
    assert packed.headers["cache-control"] == "no-store"
    assert "content-disposition" not in plain.headers
    odd = await api.as_device(device, "GET", f"/certificates/{cert_id}/bundle?pack=zip")
    assert odd.status_code == 400
    assert odd.json()["error"]["what"].startswith("pack: ")


async def test_unassigned_certificates_and_authorities_are_not_found(
    api: UpdatesApi, fleet: DeviceFleet, device: FleetDevice
) -> None:
    other = fleet.add_device()
    cert_id = await assigned(api, fleet, other)
    ca = fleet.add_authority()
    await api.call("POST", f"/devices/{other.id}/cas", {"ca_id": ca.id})
    responses = [
        await api.as_device(device, "GET", f"/certificates/{unassigned}{rest}")
        for unassigned in (cert_id, 999, 2**63)
        for rest in ("", "/bundle", "/deploy-materials")
    ]
    assert {response.status_code for response in responses} == {404}
    for ca_id in (ca.id, 999):
        assert (await api.as_device(device, "GET", f"/cas/{ca_id}/bundle")).status_code == 404
    assert (await api.as_device(device, "GET", "/certificates/x/bundle")).status_code == 400


async def test_device_fetches_an_authority(api: UpdatesApi, fleet: DeviceFleet, device: FleetDevice) -> None:
    ca = fleet.add_authority()
    await api.call("POST", f"/devices/{device.id}/cas", {"ca_id": ca.id})
    data = (await api.as_device(device, "GET", f"/cas/{ca.id}/bundle")).json()["data"]
    assert data.keys() == {
        "id",
        "name",
        "serial_number",
        "status",
        "algorithm",
        "key_size",
        "valid_days",
        "ca_certificate_pem",
        "ca_certificate_der_b64",
    }
    await api.call("DELETE", f"/devices/{device.id}/cas/{ca.id}")
    assert (await api.as_device(device, "GET", f"/cas/{ca.id}/bundle")).status_code == 404


async def test_authority_is_downloaded_as_a_file(api: UpdatesApi, fleet: DeviceFleet, device: FleetDevice) -> None:
    ca = fleet.add_authority()
    await api.call("POST", f"/devices/{device.id}/cas", {"ca_id": ca.id})
    plain = await api.as_device(device, "GET", f"/cas/{ca.id}/bundle")
    packed = await api.as_device(device, "GET", f"/cas/{ca.id}/bundle?pack=download")
    assert packed.content == plain.content
    assert packed.headers["content-disposition"] == f'attachment; filename="authority-{ca.id}.json"'
    assert "content-disposition" not in plain.headers
    assert (await api.as_device(device, "GET", f"/cas/{ca.id}/bundle?pack=zip")).status_code == 400


async def test_report_is_stored(api: UpdatesApi, fleet: DeviceFleet, device: FleetDevice) -> None:
    body = {
        "schema": "certctrl.device.notify.v1",
        "events": [{"type": "started", "agent_version": "2.1.0"}],
        "sent_by": "an agent that sends unknown fields",
    }
    response = await api.as_device(device, "POST", "/notify", body)
    assert (response.status_code, response.content) == (204, b"")
    row = fleet.query("SELECT * FROM user_devices WHERE id = :id", id=device.id)[0]
    assert (row["agent_version"], row["agent_reported_at"]) == ("2.1.0", START_MS)
    assert json.loads(row["agent_events"]) == body["events"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"schema": "certctrl.device.notify.v2", "events": []}, "schema"),
        ({"events": []}, "schema"),
        ({"schema": "certctrl.device.notify.v1"}, "events"),
        ({"schema": "certctrl.device.notify.v1", "events": {}}, "events"),
    ],
)
async def test_bad_report_is_refused(
    api: UpdatesApi, fleet: DeviceFleet, device: FleetDevice, body: dict[str, Any], field: str
) -> None:
    response = await api.as_device(device, "POST", "/notify", body)
    assert response.status_code == 400
    assert response.json()["error"]["what"].startswith(f"{field}: ")
    row = fleet.query("SELECT * FROM user_devices WHERE id = :id", id=device.id)[0]
    assert row["agent_reported_at"] is None


async def test_api_key_is_refused_on_device_routes(api: UpdatesApi) -> None:
    assert (await api.call("GET", "/apiv1/devices/self/install-config")).status_code == 401
