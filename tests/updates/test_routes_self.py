import json
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.x509.verification import PolicyBuilder, Store

from restante.database.database import Database
from restante.updates.wrapping import WrapWorker
from restante.updates.x509 import at_moment
from tests.conftest import START_MS
from tests.updates.world import OwnedDevice, Site, World, decrypt_as_device, open_site

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


@pytest.fixture
def world(database: Database) -> World:
    return World(database)


@pytest.fixture
async def site(world: World) -> Site:
    return await open_site(world)


@pytest.fixture
def device(world: World) -> OwnedDevice:
    return world.add_device()


async def assigned(site: Site, world: World, device: OwnedDevice) -> int:
    certificate = world.add_certificate()
    await site.call("POST", f"/devices/{device.id}/certificates", {"cert_id": certificate.id})
    return certificate.id


async def wrap(world: World) -> None:
    assert await WrapWorker(world.database, world.master_key, world.emit).run_once() == 1


async def test_install_config(site: Site, world: World, device: OwnedDevice) -> None:
    assert (await site.as_device(device, "GET", "/install-config")).status_code == 404
    body = {"installs": [{"id": "a", "type": "exec"}], "after_update_script": "echo done"}
    await site.call("PUT", f"/devices/{device.id}/install-config", body)
    answer = await site.as_device(device, "GET", "/install-config")
    assert (answer.status_code, answer.headers["etag"]) == (200, '"1"')
    data = answer.json()["data"]
    assert data["installs"] == json.loads(data["installs_json"])
    assert data["installs_hash"] == world.signals(device)[0]["ref"]["installs_hash_b64"]
    assert (data["user_device_id"], data["version"], data["updated_by"]) == (device.id, 1, "key:tests")
    assert data["after_update_script"] == "echo done"
    assert data["created_at"] == data["updated_at"] == START_MS // 1000


@pytest.mark.parametrize("tag", ["1", '"1"', 'W/"1"'])
async def test_a_known_install_config_is_not_sent_again(site: Site, device: OwnedDevice, tag: str) -> None:
    path = f"/devices/{device.id}/install-config"
    await site.call("PUT", path, {"installs": []})
    same = await site.as_device(device, "GET", "/install-config", if_none_match=tag)
    assert (same.status_code, same.headers["etag"], same.content) == (304, '"1"', b"")
    await site.call("PUT", path, {"installs": []})
    newer = await site.as_device(device, "GET", "/install-config", if_none_match=tag)
    assert (newer.status_code, newer.headers["etag"]) == (200, '"2"')


async def test_the_way_of_a_certificate_to_its_device(site: Site, world: World, device: OwnedDevice) -> None:
    cert_id = await assigned(site, world, device)
    at = f"/certificates/{cert_id}"
    for path in (at, at + "/bundle", at + "/deploy-materials"):
        early = await site.as_device(device, "GET", path)
        assert early.status_code == 409
        assert "not issued yet" in early.json()["error"]["what"]
    await site.call("POST", at + "/issues")
    for path in (at + "/bundle", at + "/deploy-materials"):
        pending = await site.as_device(device, "GET", path)
        assert pending.status_code == 409
        assert "WRAP_PENDING" in pending.json()["error"]["what"]
    assert (await site.as_device(device, "GET", at)).status_code == 200
    await wrap(world)
    for path in (at + "/bundle", at + "/deploy-materials"):
        ready = await site.as_device(device, "GET", path)
        assert ready.status_code == 200
        assert ready.json()["data"].keys() >= BUNDLE_FIELDS
        check_bundle(ready.json()["data"], device)
    renewed = (await site.call("POST", at + "/issues")).json()["data"]
    assert (await site.as_device(device, "GET", at + "/bundle")).status_code == 409
    await wrap(world)
    last = (await site.as_device(device, "GET", at + "/bundle")).json()["data"]
    assert last["serial"] == renewed["serial"]
    check_bundle(last, device)
    await site.call("DELETE", at)
    for path in (at, at + "/bundle", at + "/deploy-materials"):
        assert (await site.as_device(device, "GET", path)).status_code == 404
    assert world.signal_types(device) == [
        "cert.wrap_ready",
        "cert.renewed",
        "cert.wrap_ready",
        "cert.revoked",
    ]


def check_bundle(bundle: dict[str, Any], device: OwnedDevice) -> None:
    """The key opens, fits the certificate, and the certificate holds under its authority."""
    key = serialization.load_der_private_key(decrypt_as_device(bundle, device.private_key), None)
    leaf, authority = x509.load_pem_x509_certificates(bundle["fullchain_pem"].encode())
    assert key.public_key() == leaf.public_key()
    policy = PolicyBuilder().store(Store([authority])).time(at_moment(START_MS))
    policy.build_server_verifier(x509.DNSName(bundle["domain_name"])).verify(leaf, [])
    assert (bundle["wrap_alg"], bundle["enc_scheme"]) == ("x25519", "aes256gcm")


async def test_an_imported_certificate_reaches_its_device(site: Site, world: World, device: OwnedDevice) -> None:
    source = await assigned(site, world, device)
    world.issue(source)
    await wrap(world)
    bundle = (await site.as_device(device, "GET", f"/certificates/{source}/bundle")).json()["data"]
    key = serialization.load_der_private_key(decrypt_as_device(bundle, device.private_key), None)
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, form, plain).decode()
    body = {"certificate_pem": bundle["fullchain_pem"], "private_key_pem": pem}
    cert_id = (await site.call("POST", "/certificates/import", body)).json()["data"]["id"]
    await site.call("POST", f"/devices/{device.id}/certificates", {"cert_id": cert_id})
    await wrap(world)
    imported = (await site.as_device(device, "GET", f"/certificates/{cert_id}/bundle")).json()["data"]
    assert imported["serial"] == bundle["serial"]
    check_bundle(imported, device)


async def test_the_download_is_the_same_as_a_file(site: Site, world: World, device: OwnedDevice) -> None:
    cert_id = await assigned(site, world, device)
    world.issue(cert_id)
    await wrap(world)
    plain = await site.as_device(device, "GET", f"/certificates/{cert_id}/bundle")
    packed = await site.as_device(device, "GET", f"/certificates/{cert_id}/bundle?pack=download")
    assert packed.content == plain.content
    assert packed.headers["content-disposition"] == f'attachment; filename="certificate-{cert_id}.json"'
    assert packed.headers["cache-control"] == "no-store"
    assert "content-disposition" not in plain.headers
    odd = await site.as_device(device, "GET", f"/certificates/{cert_id}/bundle?pack=zip")
    assert odd.status_code == 400
    assert odd.json()["error"]["what"].startswith("pack: ")


async def test_what_is_not_assigned_is_not_there(site: Site, world: World, device: OwnedDevice) -> None:
    other = world.add_device()
    cert_id = await assigned(site, world, other)
    ca = world.add_authority()
    await site.call("POST", f"/devices/{other.id}/cas", {"ca_id": ca.id})
    answers = [
        await site.as_device(device, "GET", f"/certificates/{wanted}{rest}")
        for wanted in (cert_id, 999, 2**63)
        for rest in ("", "/bundle", "/deploy-materials")
    ]
    assert {answer.status_code for answer in answers} == {404}
    for ca_id in (ca.id, 999):
        assert (await site.as_device(device, "GET", f"/cas/{ca_id}/bundle")).status_code == 404
    assert (await site.as_device(device, "GET", "/certificates/x/bundle")).status_code == 400


async def test_ca_bundle(site: Site, world: World, device: OwnedDevice) -> None:
    ca = world.add_authority()
    await site.call("POST", f"/devices/{device.id}/cas", {"ca_id": ca.id})
    data = (await site.as_device(device, "GET", f"/cas/{ca.id}/bundle")).json()["data"]
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
    await site.call("DELETE", f"/devices/{device.id}/cas/{ca.id}")
    assert (await site.as_device(device, "GET", f"/cas/{ca.id}/bundle")).status_code == 404


async def test_notify(site: Site, world: World, device: OwnedDevice) -> None:
    body = {
        "schema": "certctrl.device.notify.v1",
        "events": [{"type": "started", "agent_version": "2.1.0"}],
        "sent_by": "an agent that says more than we ask",
    }
    answer = await site.as_device(device, "POST", "/notify", body)
    assert (answer.status_code, answer.content) == (204, b"")
    row = world.query("SELECT * FROM user_devices WHERE id = :id", id=device.id)[0]
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
async def test_bad_notifications(
    site: Site, world: World, device: OwnedDevice, body: dict[str, Any], field: str
) -> None:
    answer = await site.as_device(device, "POST", "/notify", body)
    assert answer.status_code == 400
    assert answer.json()["error"]["what"].startswith(f"{field}: ")
    row = world.query("SELECT * FROM user_devices WHERE id = :id", id=device.id)[0]
    assert row["agent_reported_at"] is None


async def test_self_is_for_devices(site: Site) -> None:
    assert (await site.call("GET", "/apiv1/devices/self/install-config")).status_code == 401
