import pytest
from cryptography import x509

from restante.core.errors import Conflict, NotFound, Unprocessable
from restante.core.iso_time import iso_precise
from restante.updates.pki import accounts, assignments, authorities, certificates, issuing
from restante.updates.pki.crypto.sealing import DATA_KEY_PURPOSE
from tests.conftest import START_MS, ManualClock
from tests.updates.updates_fixture import DeviceFleet, EmitRefused, refuse_to_emit


def data_key(fleet: DeviceFleet) -> bytes:
    row = fleet.query("SELECT sealed_data_key FROM cert_records")[0]
    return fleet.master_key.open(row["sealed_data_key"], DATA_KEY_PURPOSE)


def test_first_issue_sends_no_signal(fleet: DeviceFleet) -> None:
    certificate, device = fleet.add_certificate(), fleet.add_device()
    fleet.database.write_now(assignments.assign, fleet.user_id, device.id, certificate.id)
    issued = fleet.issue(certificate.id, 3600)
    assert issued.status == "issued"
    assert (issued.not_before, issued.not_after) == (iso_precise(START_MS), iso_precise(START_MS + 3_600_000))
    assert issued.certificate_pem is not None
    leaf = x509.load_pem_x509_certificate(issued.certificate_pem.encode())
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["www.example.com"]
    assert fleet.signals(device) == []


def test_renewal_has_new_keys_and_signals_active_devices(fleet: DeviceFleet, clock: ManualClock) -> None:
    one, two, gone, never = (fleet.add_device() for _ in range(4))
    certificate = fleet.add_certificate()
    for device in (one, two, gone):
        fleet.database.write_now(assignments.assign, fleet.user_id, device.id, certificate.id)
    first, first_key = fleet.issue(certificate.id), data_key(fleet)
    fleet.revoke_device(gone)
    clock.advance(60)
    second = fleet.issue(certificate.id)
    assert second.serial != first.serial
    assert second.certificate_pem != first.certificate_pem
    assert data_key(fleet) != first_key
    assert second.not_before == iso_precise(START_MS + 60_000)
    ref = {"cert_id": certificate.id, "serial": second.serial}
    for device in (one, two):
        assert fleet.signals(device) == [{"type": "cert.renewed", "ref": ref}]
    assert fleet.signals(gone) == fleet.signals(never) == []


def test_renewal_resets_the_wraps(fleet: DeviceFleet) -> None:
    certificate, device = fleet.add_certificate(), fleet.add_device()
    fleet.database.write_now(assignments.assign, fleet.user_id, device.id, certificate.id)
    fleet.issue(certificate.id)
    fleet.query("UPDATE cert_record_devices SET enc_data_key = :key", key=b"w" * 80)
    fleet.issue(certificate.id)
    assert fleet.query("SELECT enc_data_key FROM cert_record_devices")[0]["enc_data_key"] == bytes(48)


def test_refused_signal_rolls_back_the_renewal(fleet: DeviceFleet) -> None:
    certificate, device = fleet.add_certificate(), fleet.add_device()
    fleet.database.write_now(assignments.assign, fleet.user_id, device.id, certificate.id)
    first = fleet.issue(certificate.id)
    plan = fleet.database.read_now(issuing.plan, fleet.user_id, certificate.id)
    issued = issuing.make_certificate(plan, fleet.master_key, 300)
    with pytest.raises(EmitRefused):
        fleet.database.write_now(issuing.store, refuse_to_emit, plan, issued)
    assert fleet.database.read_now(certificates.get, fleet.user_id, certificate.id).serial == first.serial


def test_one_of_two_concurrent_renewals_counts(fleet: DeviceFleet) -> None:
    certificate = fleet.add_certificate()
    plan = fleet.database.read_now(issuing.plan, fleet.user_id, certificate.id)
    one, two = (issuing.make_certificate(plan, fleet.master_key, 300) for _ in range(2))
    stored = fleet.database.write_now(issuing.store, fleet.emit, plan, one)
    with pytest.raises(Conflict, match="another request issued"):
        fleet.database.write_now(issuing.store, fleet.emit, plan, two)
    assert fleet.database.read_now(certificates.get, fleet.user_id, certificate.id) == stored


def test_foreign_and_missing_certificate_give_the_same_error(fleet: DeviceFleet) -> None:
    foreign = fleet.add_certificate(user_id=fleet.other_id)
    messages = set()
    for cert_id in (foreign.id, 999):
        with pytest.raises(NotFound) as caught:
            fleet.database.read_now(issuing.plan, fleet.user_id, cert_id)
        messages.add(caught.value.message)
    assert len(messages) == 1


def test_account_without_authority_is_refused_with_the_reason(fleet: DeviceFleet) -> None:
    certificate = fleet.add_certificate(fleet.add_account(None).id)
    with pytest.raises(Unprocessable, match="public ACME providers need a reachable domain"):
        fleet.database.read_now(issuing.plan, fleet.user_id, certificate.id)


def test_certificate_without_account_is_not_issued(fleet: DeviceFleet) -> None:
    account = fleet.add_account(fleet.add_authority().id)
    certificate = fleet.add_certificate(account.id)
    fleet.database.write_now(accounts.delete, fleet.user_id, account.id)
    with pytest.raises(Unprocessable, match="no account"):
        fleet.database.read_now(issuing.plan, fleet.user_id, certificate.id)


def test_revoked_authority_issues_nothing(fleet: DeviceFleet) -> None:
    ca = fleet.add_authority()
    certificate = fleet.add_certificate(fleet.add_account(ca.id).id)
    plan = fleet.database.read_now(issuing.plan, fleet.user_id, certificate.id)
    issued = issuing.make_certificate(plan, fleet.master_key, 300)
    fleet.database.write_now(authorities.revoke, fleet.emit, fleet.user_id, ca.id)
    with pytest.raises(Conflict, match="authority is revoked"):
        fleet.database.read_now(issuing.plan, fleet.user_id, certificate.id)
    with pytest.raises(Conflict, match="authority is revoked"):
        fleet.database.write_now(issuing.store, fleet.emit, plan, issued)


def test_revoked_certificate_is_not_issued(fleet: DeviceFleet) -> None:
    certificate = fleet.add_certificate()
    plan = fleet.database.read_now(issuing.plan, fleet.user_id, certificate.id)
    issued = issuing.make_certificate(plan, fleet.master_key, 300)
    fleet.database.write_now(certificates.revoke, fleet.emit, fleet.user_id, certificate.id)
    with pytest.raises(Conflict, match="certificate is revoked"):
        fleet.database.read_now(issuing.plan, fleet.user_id, certificate.id)
    with pytest.raises(Conflict, match="certificate is revoked"):
        fleet.database.write_now(issuing.store, fleet.emit, plan, issued)


def test_expired_authority_issues_nothing(fleet: DeviceFleet, clock: ManualClock) -> None:
    account = fleet.add_account(fleet.add_authority(valid_days=1).id)
    certificate = fleet.add_certificate(account.id)
    clock.advance(86400)
    plan = fleet.database.read_now(issuing.plan, fleet.user_id, certificate.id)
    with pytest.raises(Conflict, match="not valid now"):
        issuing.make_certificate(plan, fleet.master_key, 300)
