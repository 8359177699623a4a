"""Devices by the end of their certificates: kept on the device's row by every change of a certificate."""

from restante.updates.pki import assignments, certificates
from tests.updates.fleet.fleet_fixture import DescribedFleet

DAY = 86_400


def expiring(fleet: DescribedFleet) -> list[int]:
    return fleet.ids(certificate_expires_before="10d")


def test_expiry_follows_issue_assignment_and_revocation(fleet: DescribedFleet) -> None:
    database = fleet.database
    device, other = fleet.add("a"), fleet.add("b")
    soon, late = fleet.add_certificate(), fleet.add_certificate()
    fleet.issue(soon.id, 5 * DAY)
    fleet.issue(late.id, 50 * DAY)
    for certificate in (soon, late):
        database.write_now(assignments.assign, fleet.user_id, device, certificate.id)
    database.write_now(assignments.assign, fleet.user_id, other, late.id)
    assert expiring(fleet) == [device]
    assert fleet.ids(certificate_expires_before="60d") == [device, other]
    database.write_now(assignments.unassign, fleet.emit, fleet.user_id, device, soon.id)
    assert expiring(fleet) == []
    database.write_now(assignments.assign, fleet.user_id, other, soon.id)
    assert expiring(fleet) == [other]
    fleet.issue(soon.id, 40 * DAY)
    assert expiring(fleet) == []
    fleet.issue(late.id, 3 * DAY)
    assert expiring(fleet) == [device, other]
    database.write_now(certificates.revoke, fleet.emit, fleet.user_id, late.id)
    assert expiring(fleet) == []
    assert [row.certificate_expires_at is None for row in fleet.page().items] == [True, False]
