from base64 import b64decode
from functools import partial

import pytest
from cryptography import x509

from restante.core.errors import Conflict, NotFound
from restante.core.iso_time import iso_precise
from restante.database.paging import PageRequest
from restante.updates.pki import authorities
from restante.updates.pki.crypto.sealing import AUTHORITY_KEY_PURPOSE
from tests.conftest import START_MS, ManualClock
from tests.updates.updates_fixture import DeviceFleet, EmitRefused, refuse_to_emit

ALL = PageRequest(500, 0)


def assign(fleet: DeviceFleet, device_id: int, ca_id: int) -> authorities.AuthorityAssignment:
    return fleet.database.write_now(authorities.assign, fleet.emit, fleet.user_id, device_id, ca_id)


def test_authority_is_shown_with_its_facts(fleet: DeviceFleet) -> None:
    ca = fleet.add_authority(valid_days=7, curve_name="P-384", common_name="Root")
    assert (ca.status, ca.algorithm, ca.key_size, ca.curve_name) == ("active", "ECDSA", 384, "P-384")
    assert (ca.valid_days, ca.common_name, ca.devices_count) == (7, "Root", 0)
    assert (ca.not_before, ca.not_after) == (iso_precise(START_MS), iso_precise(START_MS + 7 * 86_400_000))
    certificate = x509.load_pem_x509_certificate(ca.ca_certificate_pem.encode())
    assert int(ca.serial_number.replace(":", ""), 16) == certificate.serial_number
    assert fleet.database.read_now(authorities.get, fleet.user_id, ca.id) == ca
    rsa = fleet.add_authority(algorithm="RSA", key_size=2048)
    assert (rsa.algorithm, rsa.key_size, rsa.curve_name) == ("RSA", 2048, None)


def test_private_key_is_stored_sealed(fleet: DeviceFleet) -> None:
    fleet.add_authority()
    sealed = fleet.query("SELECT sealed_key FROM certificate_authorities")[0]["sealed_key"]
    plain = fleet.master_key.open(sealed, AUTHORITY_KEY_PURPOSE)
    assert plain not in sealed
    assert len(plain) > 100


def test_authorities_of_a_user_are_listed_in_pages(fleet: DeviceFleet) -> None:
    ids = [fleet.add_authority().id for _ in range(3)]
    fleet.add_authority(fleet.other_id)
    page = fleet.database.read_now(authorities.list_of_user, fleet.user_id, PageRequest(2, 0))
    assert ([ca.id for ca in page.items], page.next) == (ids[:2], ids[1])
    rest = fleet.database.read_now(authorities.list_of_user, fleet.user_id, PageRequest(2, ids[1]))
    assert ([ca.id for ca in rest.items], rest.next) == (ids[2:], None)


def test_foreign_and_missing_authority_give_the_same_error(fleet: DeviceFleet) -> None:
    device, foreign = fleet.add_device(), fleet.add_authority(fleet.other_id)
    messages = set()
    for ca_id in (foreign.id, 999):
        with pytest.raises(NotFound) as caught:
            fleet.database.read_now(authorities.get, fleet.user_id, ca_id)
        messages.add(caught.value.message)
        with pytest.raises(NotFound) as caught:
            assign(fleet, device.id, ca_id)
        messages.add(caught.value.message)
        with pytest.raises(NotFound) as caught:
            fleet.database.write_now(authorities.revoke, fleet.emit, fleet.user_id, ca_id)
        messages.add(caught.value.message)
    assert len(messages) == 1
    with pytest.raises(NotFound):
        fleet.database.read_now(authorities.list_of_user, 999, ALL)


def test_assignment_sends_one_signal(fleet: DeviceFleet) -> None:
    device, ca = fleet.add_device(), fleet.add_authority()
    first = assign(fleet, device.id, ca.id)
    assert assign(fleet, device.id, ca.id) == first
    ref = {"ca_id": ca.id, "serial": ca.serial_number, "ca_name": "Workshop CA"}
    assert fleet.signals(device) == [{"type": "ca.assigned", "ref": ref}]
    assert fleet.database.read_now(authorities.get, fleet.user_id, ca.id).devices_count == 1


def test_unassignment_sends_a_signal(fleet: DeviceFleet) -> None:
    device, ca = fleet.add_device(), fleet.add_authority()
    assign(fleet, device.id, ca.id)
    unassign = partial(authorities.unassign, emit=fleet.emit, user_id=fleet.user_id, device_id=device.id)
    fleet.database.write_now(unassign, ca_id=ca.id)
    ref = {"ca_id": ca.id, "serial": ca.serial_number, "ca_name": "Workshop CA"}
    assert fleet.signals(device)[1:] == [{"type": "ca.unassigned", "ref": ref}]
    with pytest.raises(NotFound):
        fleet.database.write_now(unassign, ca_id=ca.id)
    assert len(fleet.signals(device)) == 2


def test_refused_signal_rolls_back_the_change(fleet: DeviceFleet) -> None:
    device, ca, database, user_id = fleet.add_device(), fleet.add_authority(), fleet.database, fleet.user_id
    with pytest.raises(EmitRefused):
        database.write_now(authorities.assign, refuse_to_emit, user_id, device.id, ca.id)
    assert not database.read_now(authorities.list_of_device, user_id, device.id, ALL).items
    assign(fleet, device.id, ca.id)
    with pytest.raises(EmitRefused):
        database.write_now(authorities.unassign, refuse_to_emit, user_id, device.id, ca.id)
    with pytest.raises(EmitRefused):
        database.write_now(authorities.revoke, refuse_to_emit, user_id, ca.id)
    assert database.read_now(authorities.list_of_device, user_id, device.id, ALL).items
    assert database.read_now(authorities.get, user_id, ca.id).status == "active"


def test_assignment_to_revoked_device_is_refused(fleet: DeviceFleet) -> None:
    device, ca = fleet.add_device(), fleet.add_authority()
    fleet.revoke_device(device)
    with pytest.raises(Conflict):
        assign(fleet, device.id, ca.id)
    with pytest.raises(Conflict):
        fleet.database.write_now(authorities.unassign, fleet.emit, fleet.user_id, device.id, ca.id)
    assert fleet.signals(device) == []


def test_foreign_device_is_not_found(fleet: DeviceFleet) -> None:
    device, ca = fleet.add_device(fleet.other_id), fleet.add_authority()
    with pytest.raises(NotFound):
        assign(fleet, device.id, ca.id)
    with pytest.raises(NotFound):
        fleet.database.read_now(authorities.list_of_device, fleet.user_id, device.id, ALL)


def test_revocation_unassigns_from_every_device(fleet: DeviceFleet) -> None:
    one, two, gone, never = (fleet.add_device() for _ in range(4))
    ca = fleet.add_authority()
    for device in (one, two, gone):
        assign(fleet, device.id, ca.id)
    fleet.revoke_device(gone)
    revoked = fleet.database.write_now(authorities.revoke, fleet.emit, fleet.user_id, ca.id)
    assert (revoked.status, revoked.revoked_at, revoked.devices_count) == ("revoked", iso_precise(START_MS), 0)
    signal_types = [fleet.signal_types(device) for device in (one, two, gone, never)]
    assert signal_types == [["ca.assigned", "ca.unassigned"]] * 2 + [["ca.assigned"], []]
    with pytest.raises(NotFound):
        fleet.database.read_now(authorities.bundle, one.id, ca.id)


def test_revocation_is_final(fleet: DeviceFleet, clock: ManualClock) -> None:
    device, ca = fleet.add_device(), fleet.add_authority()
    once = fleet.database.write_now(authorities.revoke, fleet.emit, fleet.user_id, ca.id)
    clock.advance(60)
    assert fleet.database.write_now(authorities.revoke, fleet.emit, fleet.user_id, ca.id) == once
    with pytest.raises(Conflict, match="revoked"):
        assign(fleet, device.id, ca.id)
    assert fleet.query("SELECT sealed_key FROM certificate_authorities")[0]["sealed_key"] is None


def test_bundle_is_for_assigned_devices_only(fleet: DeviceFleet) -> None:
    device, other = fleet.add_device(), fleet.add_device()
    ca = fleet.add_authority()
    assign(fleet, device.id, ca.id)
    bundle = fleet.database.read_now(authorities.bundle, device.id, ca.id)
    certificate = x509.load_der_x509_certificate(b64decode(bundle.ca_certificate_der_b64))
    assert certificate == x509.load_pem_x509_certificate(bundle.ca_certificate_pem.encode())
    assert (bundle.id, bundle.name, bundle.status) == (ca.id, "Workshop CA", "active")
    assert (bundle.serial_number, bundle.valid_days) == (ca.serial_number, 3650)
    messages = set()
    for device_id, ca_id in ((other.id, ca.id), (device.id, 999)):
        with pytest.raises(NotFound) as caught:
            fleet.database.read_now(authorities.bundle, device_id, ca_id)
        messages.add(caught.value.message)
    assert len(messages) == 1


def test_authorities_of_a_device_are_listed_in_pages(fleet: DeviceFleet) -> None:
    device = fleet.add_device()
    ids = [fleet.add_authority().id for _ in range(3)]
    for ca_id in ids:
        assign(fleet, device.id, ca_id)
    page = fleet.database.read_now(authorities.list_of_device, fleet.user_id, device.id, PageRequest(2, 0))
    assert ([item.ca_id for item in page.items], page.next) == (ids[:2], ids[1])
