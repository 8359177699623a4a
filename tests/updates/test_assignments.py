from functools import partial

import msgspec
import pytest

from restante.core.errors import Conflict, NotFound
from restante.database.database import Database
from restante.updates import assignments, certificates
from restante.updates.assignments import WrapsPending
from restante.updates.wrapping import pending_batch, store_wraps, wrap_batch
from restante.web.paging import Window
from tests.conftest import START_MS
from tests.updates.world import OwnedDevice, Told, World, decrypt_as_device, refuse_to_emit

ALL = Window(500, 0)


@pytest.fixture
def world(database: Database) -> World:
    return World(database)


def assign(world: World, device: OwnedDevice, cert_id: int) -> assignments.CertificateAssignment:
    return world.database.write_now(assignments.assign, world.user_id, device.id, cert_id)


def wrap_all(world: World) -> int:
    wraps = wrap_batch(world.database.read_now(pending_batch, 0, 0), world.master_key)
    return world.database.write_now(store_wraps, world.emit, wraps)


def test_assigning_writes_the_sentinel_and_rings(world: World) -> None:
    announced: list[object] = []
    world.database.on_commit(announced.extend)
    device, certificate = world.add_device(), world.add_certificate()
    assigned = assign(world, device, certificate.id)
    assert (assigned.wrap_status, assigned.wrap_alg) == ("pending", "x25519")
    assert assigned.assigned_at == START_MS // 1000
    row = world.query("SELECT * FROM cert_record_devices")[0]
    assert (row["enc_data_key"], row["device_keyfp"], row["wrap_alg"]) == (bytes(48), device.keyfp, "x25519")
    assert WrapsPending() in announced
    assert world.signals(device) == []


def test_assigning_again_keeps_the_wrap_and_tells_nobody(world: World) -> None:
    device, certificate = world.add_device(), world.add_certificate()
    assign(world, device, certificate.id)
    world.issue(certificate.id)
    wrap_all(world)
    assert assign(world, device, certificate.id).wrap_status == "ready"
    assert world.signal_types(device) == ["cert.wrap_ready"]


def test_only_one_s_own_certificates_to_one_s_own_devices(world: World) -> None:
    device, certificate = world.add_device(), world.add_certificate()
    with pytest.raises(NotFound):
        assign(world, world.add_device(world.other_id), certificate.id)
    messages = set()
    for cert_id in (world.add_certificate(user_id=world.other_id).id, 999):
        with pytest.raises(NotFound) as caught:
            assign(world, device, cert_id)
        messages.add(caught.value.message)
        with pytest.raises(NotFound) as caught:
            world.database.write_now(assignments.unassign, world.emit, world.user_id, device.id, cert_id)
        messages.add(caught.value.message)
    assert len(messages) == 1


def test_nothing_to_a_revoked_device(world: World) -> None:
    device, certificate = world.add_device(), world.add_certificate()
    assign(world, device, certificate.id)
    world.revoke_device(device)
    with pytest.raises(Conflict):
        assign(world, device, certificate.id)
    with pytest.raises(Conflict):
        world.database.write_now(assignments.unassign, world.emit, world.user_id, device.id, certificate.id)
    assert world.signals(device) == []


def test_a_revoked_certificate_is_not_assigned(world: World) -> None:
    device, certificate = world.add_device(), world.add_certificate()
    world.database.write_now(certificates.revoke, world.emit, world.user_id, certificate.id)
    with pytest.raises(Conflict, match="revoked"):
        assign(world, device, certificate.id)


def test_unassigning_tells_the_device(world: World) -> None:
    device, certificate = world.add_device(), world.add_certificate()
    assign(world, device, certificate.id)
    unassign = partial(assignments.unassign, user_id=world.user_id, device_id=device.id)
    with pytest.raises(Told):
        world.database.write_now(unassign, emit=refuse_to_emit, cert_id=certificate.id)
    assert world.database.read_now(assignments.active_holders, certificate.id) == [device.id]
    world.database.write_now(unassign, emit=world.emit, cert_id=certificate.id)
    assert world.signals(device) == [{"type": "cert.revoked", "ref": {"cert_id": certificate.id}}]
    assert world.database.read_now(assignments.active_holders, certificate.id) == []
    with pytest.raises(NotFound):
        world.database.write_now(unassign, emit=world.emit, cert_id=certificate.id)


def test_a_device_s_certificates_in_pages(world: World) -> None:
    device, account = world.add_device(), world.add_account(None)
    ids = [world.add_certificate(account.id).id for _ in range(3)]
    for cert_id in ids:
        assign(world, device, cert_id)
    page = world.database.read_now(assignments.list_of_device, world.user_id, device.id, Window(2, 0))
    assert ([item.cert_id for item in page.items], page.next) == (ids[:2], ids[1])
    with pytest.raises(NotFound):
        world.database.read_now(assignments.list_of_device, world.other_id, device.id, ALL)


def test_a_bundle_goes_from_not_issued_over_pending_to_ready(world: World) -> None:
    device, certificate = world.add_device(), world.add_certificate()
    assign(world, device, certificate.id)
    for read in (assignments.bundle, assignments.device_certificate):
        with pytest.raises(Conflict, match="not issued yet"):
            world.database.read_now(read, device.id, certificate.id)
    issued = world.issue(certificate.id)
    with pytest.raises(Conflict, match="WRAP_PENDING"):
        world.database.read_now(assignments.bundle, device.id, certificate.id)
    seen = world.database.read_now(assignments.device_certificate, device.id, certificate.id)
    assert seen.certificate_pem == issued.certificate_pem
    assert (seen.status, seen.serial, seen.issuer) == ("issued", issued.serial, issued.issuer)
    assert seen.fullchain_pem == seen.certificate_pem + seen.chain_pem
    wrap_all(world)
    bundle = world.database.read_now(assignments.bundle, device.id, certificate.id)
    assert (bundle.wrap_alg, bundle.enc_scheme) == ("x25519", "aes256gcm")
    assert decrypt_as_device(msgspec.to_builtins(bundle), device.private_key)


def test_a_certificate_is_for_the_devices_that_have_it(world: World) -> None:
    device, other, certificate = world.add_device(), world.add_device(), world.add_certificate()
    assign(world, device, certificate.id)
    world.issue(certificate.id)
    messages = set()
    for device_id, cert_id in ((other.id, certificate.id), (device.id, 999)):
        for read in (assignments.bundle, assignments.device_certificate):
            with pytest.raises(NotFound) as caught:
                world.database.read_now(read, device_id, cert_id)
            messages.add(caught.value.message)
    assert len(messages) == 1
