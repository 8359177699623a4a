from functools import partial

import msgspec
import pytest

from restante.core.errors import Conflict, NotFound
from restante.core.iso_time import iso_precise
from restante.database.paging import PageRequest
from restante.updates.pki import assignments, certificates
from restante.updates.pki.assignments import WrapsPending
from restante.updates.pki.wrapping import pending_batch, store_wraps, wrap_batch
from tests.conftest import START_MS
from tests.updates.updates_fixture import DeviceFleet, EmitRefused, FleetDevice, decrypt_as_device, refuse_to_emit

ALL = PageRequest(500, 0)


def assign(fleet: DeviceFleet, device: FleetDevice, cert_id: int) -> assignments.CertificateAssignment:
    return fleet.database.write_now(assignments.assign, fleet.user_id, device.id, cert_id)


def wrap_all(fleet: DeviceFleet) -> int:
    wraps = wrap_batch(fleet.database.read_now(pending_batch, 0, 0), fleet.master_key)
    return fleet.database.write_now(store_wraps, fleet.emit, wraps)


def test_assignment_stores_the_sentinel_and_wakes_the_wrap_worker(fleet: DeviceFleet) -> None:
    commit_events: list[object] = []
    fleet.database.on_commit(commit_events.extend)
    device, certificate = fleet.add_device(), fleet.add_certificate()
    assigned = assign(fleet, device, certificate.id)
    assert (assigned.wrap_status, assigned.wrap_alg) == ("pending", "x25519")
    assert assigned.assigned_at == iso_precise(START_MS)
    row = fleet.query("SELECT * FROM cert_record_devices")[0]
    assert (row["enc_data_key"], row["device_keyfp"], row["wrap_alg"]) == (bytes(48), device.keyfp, "x25519")
    assert WrapsPending() in commit_events
    assert fleet.signals(device) == []


def test_second_assignment_keeps_the_wrap_and_sends_no_signal(fleet: DeviceFleet) -> None:
    device, certificate = fleet.add_device(), fleet.add_certificate()
    assign(fleet, device, certificate.id)
    fleet.issue(certificate.id)
    wrap_all(fleet)
    assert assign(fleet, device, certificate.id).wrap_status == "ready"
    assert fleet.signal_types(device) == ["cert.wrap_ready", "cert.updated"]


def test_foreign_device_or_certificate_is_not_found(fleet: DeviceFleet) -> None:
    device, certificate = fleet.add_device(), fleet.add_certificate()
    with pytest.raises(NotFound):
        assign(fleet, fleet.add_device(fleet.other_id), certificate.id)
    messages = set()
    for cert_id in (fleet.add_certificate(user_id=fleet.other_id).id, 999):
        with pytest.raises(NotFound) as caught:
            assign(fleet, device, cert_id)
        messages.add(caught.value.message)
        with pytest.raises(NotFound) as caught:
            fleet.database.write_now(assignments.unassign, fleet.emit, fleet.user_id, device.id, cert_id)
        messages.add(caught.value.message)
    assert len(messages) == 1


def test_assignment_to_revoked_device_is_refused(fleet: DeviceFleet) -> None:
    device, certificate = fleet.add_device(), fleet.add_certificate()
    assign(fleet, device, certificate.id)
    fleet.revoke_device(device)
    with pytest.raises(Conflict):
        assign(fleet, device, certificate.id)
    with pytest.raises(Conflict):
        fleet.database.write_now(assignments.unassign, fleet.emit, fleet.user_id, device.id, certificate.id)
    assert fleet.signals(device) == []


def test_revoked_certificate_is_not_assigned(fleet: DeviceFleet) -> None:
    device, certificate = fleet.add_device(), fleet.add_certificate()
    fleet.database.write_now(certificates.revoke, fleet.emit, fleet.user_id, certificate.id)
    with pytest.raises(Conflict, match="revoked"):
        assign(fleet, device, certificate.id)


def test_unassignment_sends_a_signal(fleet: DeviceFleet) -> None:
    device, certificate = fleet.add_device(), fleet.add_certificate()
    assign(fleet, device, certificate.id)
    unassign = partial(assignments.unassign, user_id=fleet.user_id, device_id=device.id)
    with pytest.raises(EmitRefused):
        fleet.database.write_now(unassign, emit=refuse_to_emit, cert_id=certificate.id)
    assert fleet.database.read_now(assignments.active_holders, certificate.id) == [device.id]
    fleet.database.write_now(unassign, emit=fleet.emit, cert_id=certificate.id)
    ref = {"cert_id": certificate.id}
    assert fleet.signals(device) == [{"type": "cert.revoked", "ref": ref}, {"type": "cert.unassigned", "ref": ref}]
    assert fleet.database.read_now(assignments.active_holders, certificate.id) == []
    with pytest.raises(NotFound):
        fleet.database.write_now(unassign, emit=fleet.emit, cert_id=certificate.id)


def test_certificates_of_a_device_are_listed_in_pages(fleet: DeviceFleet) -> None:
    device, account = fleet.add_device(), fleet.add_account(None)
    ids = [fleet.add_certificate(account.id).id for _ in range(3)]
    for cert_id in ids:
        assign(fleet, device, cert_id)
    page = fleet.database.read_now(assignments.list_of_device, fleet.user_id, device.id, PageRequest(2, 0))
    assert ([item.cert_id for item in page.items], page.next) == (ids[:2], ids[1])
    with pytest.raises(NotFound):
        fleet.database.read_now(assignments.list_of_device, fleet.other_id, device.id, ALL)


def test_bundle_is_ready_after_issue_and_wrap(fleet: DeviceFleet) -> None:
    device, certificate = fleet.add_device(), fleet.add_certificate()
    assign(fleet, device, certificate.id)
    for read in (assignments.bundle, assignments.device_certificate):
        with pytest.raises(Conflict, match="not issued yet"):
            fleet.database.read_now(read, device.id, certificate.id)
    issued = fleet.issue(certificate.id)
    with pytest.raises(Conflict, match="WRAP_PENDING"):
        fleet.database.read_now(assignments.bundle, device.id, certificate.id)
    seen = fleet.database.read_now(assignments.device_certificate, device.id, certificate.id)
    assert seen.certificate_pem == issued.certificate_pem
    assert (seen.status, seen.serial, seen.issuer) == ("issued", issued.serial, issued.issuer)
    assert seen.fullchain_pem == seen.certificate_pem + seen.chain_pem
    wrap_all(fleet)
    bundle = fleet.database.read_now(assignments.bundle, device.id, certificate.id)
    assert (bundle.wrap_alg, bundle.enc_scheme) == ("x25519", "aes256gcm")
    assert decrypt_as_device(msgspec.to_builtins(bundle), device.private_key)


def test_unassigned_and_missing_certificate_give_the_same_error(fleet: DeviceFleet) -> None:
    device, other, certificate = fleet.add_device(), fleet.add_device(), fleet.add_certificate()
    assign(fleet, device, certificate.id)
    fleet.issue(certificate.id)
    messages = set()
    for device_id, cert_id in ((other.id, certificate.id), (device.id, 999)):
        for read in (assignments.bundle, assignments.device_certificate):
            with pytest.raises(NotFound) as caught:
                fleet.database.read_now(read, device_id, cert_id)
            messages.add(caught.value.message)
    assert len(messages) == 1
