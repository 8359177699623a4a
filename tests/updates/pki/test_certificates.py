import pytest

from restante.core.errors import BadInput, NotFound
from restante.core.iso_time import iso_precise
from restante.database.paging import PageRequest
from restante.updates.pki import assignments, certificates
from tests.conftest import START_MS, ManualClock
from tests.updates.updates_fixture import DeviceFleet, EmitRefused, refuse_to_emit


def test_new_record_is_pending(fleet: DeviceFleet) -> None:
    account = fleet.add_account(None)
    made = fleet.add_certificate(account.id, "a.example", "b.example")
    assert (made.status, made.domain_name, made.sans) == ("pending", "a.example", ["a.example", "b.example"])
    assert (made.acct_id, made.serial, made.issuer, made.not_after) == (account.id, None, None, None)
    assert (made.certificate_pem, made.devices_count, made.created_at) == (None, 0, iso_precise(START_MS))


def test_account_must_belong_to_the_user(fleet: DeviceFleet) -> None:
    foreign = fleet.add_account(None, fleet.other_id)
    for acct_id in (foreign.id, 999):
        with pytest.raises(BadInput, match=r"^acct_id: "):
            fleet.add_certificate(acct_id)


def test_foreign_and_missing_certificate_give_the_same_error(fleet: DeviceFleet) -> None:
    foreign = fleet.add_certificate(user_id=fleet.other_id)
    messages = set()
    for cert_id in (foreign.id, 999):
        with pytest.raises(NotFound) as caught:
            fleet.database.read_now(certificates.get, fleet.user_id, cert_id)
        messages.add(caught.value.message)
        with pytest.raises(NotFound) as caught:
            fleet.database.write_now(certificates.revoke, fleet.emit, fleet.user_id, cert_id)
        messages.add(caught.value.message)
    assert len(messages) == 1
    with pytest.raises(NotFound):
        fleet.database.read_now(certificates.list_of_user, 999, PageRequest(1, 0))


def test_certificates_are_listed_in_pages_with_their_state(fleet: DeviceFleet) -> None:
    account = fleet.add_account(fleet.add_authority().id)
    ids = [fleet.add_certificate(account.id).id for _ in range(3)]
    fleet.add_certificate(user_id=fleet.other_id)
    fleet.issue(ids[0])
    fleet.database.write_now(assignments.assign, fleet.user_id, fleet.add_device().id, ids[0])
    fleet.database.write_now(certificates.revoke, fleet.emit, fleet.user_id, ids[1])
    page = fleet.database.read_now(certificates.list_of_user, fleet.user_id, PageRequest(2, 0))
    seen = [(item.id, item.status, item.devices_count) for item in page.items]
    assert seen == [(ids[0], "issued", 1), (ids[1], "revoked", 0)]
    assert page.next == ids[1]
    assert page.items[0].issuer == "CN=Workshop CA"
    assert page.items[0].not_before == iso_precise(START_MS)


def test_certificate_is_found_by_id_domain_and_serial(fleet: DeviceFleet) -> None:
    account = fleet.add_account(fleet.add_authority().id)
    own = fleet.add_certificate(account.id, "till.example.com")
    fleet.issue(own.id)
    device = fleet.add_device()
    fleet.database.write_now(assignments.assign, fleet.user_id, device.id, own.id)
    other = fleet.add_certificate(user_id=fleet.other_id)
    serial = fleet.database.read_now(certificates.get, fleet.user_id, own.id).serial
    assert serial is not None
    for text in (str(own.id), "till.example.com", serial):
        (found,) = fleet.database.read_now(certificates.find, text, 10)
        assert (found.id, found.user_id, found.device_id) == (own.id, fleet.user_id, device.id)
    (found,) = fleet.database.read_now(certificates.find, str(other.id), 10)
    assert (found.user_id, found.device_id) == (fleet.other_id, None)
    assert fleet.database.read_now(certificates.find, "nothing", 10) == []


def test_revoked_device_is_not_counted(fleet: DeviceFleet) -> None:
    certificate, device = fleet.add_certificate(), fleet.add_device()
    fleet.database.write_now(assignments.assign, fleet.user_id, device.id, certificate.id)
    fleet.revoke_device(device)
    assert fleet.database.read_now(certificates.get, fleet.user_id, certificate.id).devices_count == 0


def test_revocation_signals_active_devices_and_drops_the_keys(fleet: DeviceFleet) -> None:
    one, two, gone, never = (fleet.add_device() for _ in range(4))
    certificate = fleet.add_certificate()
    fleet.issue(certificate.id)
    for device in (one, two, gone):
        fleet.database.write_now(assignments.assign, fleet.user_id, device.id, certificate.id)
    fleet.revoke_device(gone)
    revoked = fleet.database.write_now(certificates.revoke, fleet.emit, fleet.user_id, certificate.id)
    assert (revoked.status, revoked.revoked_at, revoked.devices_count) == ("revoked", iso_precise(START_MS), 0)
    for device in (one, two):
        ref = {"cert_id": certificate.id}
        assert fleet.signals(device) == [
            {"type": "cert.revoked", "ref": ref},
            {"type": "cert.unassigned", "ref": ref},
        ]
    assert fleet.signals(gone) == fleet.signals(never) == []
    row = fleet.query("SELECT * FROM cert_records")[0]
    assert row["enc_privkey"] is row["sealed_data_key"] is row["privkey_nonce"] is row["privkey_tag"] is None
    with pytest.raises(NotFound):
        fleet.database.read_now(assignments.bundle, one.id, certificate.id)


def test_second_revocation_changes_nothing(fleet: DeviceFleet, clock: ManualClock) -> None:
    certificate = fleet.add_certificate()
    once = fleet.database.write_now(certificates.revoke, fleet.emit, fleet.user_id, certificate.id)
    clock.advance(60)
    assert fleet.database.write_now(certificates.revoke, fleet.emit, fleet.user_id, certificate.id) == once


def test_refused_signal_rolls_back_the_revocation(fleet: DeviceFleet) -> None:
    certificate, device = fleet.add_certificate(), fleet.add_device()
    fleet.database.write_now(assignments.assign, fleet.user_id, device.id, certificate.id)
    with pytest.raises(EmitRefused):
        fleet.database.write_now(certificates.revoke, refuse_to_emit, fleet.user_id, certificate.id)
    assert fleet.database.read_now(certificates.get, fleet.user_id, certificate.id).devices_count == 1
    assert fleet.database.read_now(certificates.get, fleet.user_id, certificate.id).status == "pending"
