import asyncio

import msgspec
import pytest

from restante.core.errors import Conflict
from restante.core.iso_time import iso_precise, parse_iso
from restante.updates.pki import accounts, assignments, certificates
from restante.updates.pki.issuing import IssueRules
from restante.updates.pki.renewal import calendar
from restante.updates.pki.renewal.calendar import LEASE_SECONDS, RenewalCalendar
from tests.conftest import ManualClock
from tests.updates.updates_fixture import RULES, DeviceFleet

LIFE = 90 * 86_400
TWO_THIRDS = LIFE * 66 // 100


def calendar_of(fleet: DeviceFleet, rules: IssueRules = RULES) -> RenewalCalendar:
    return RenewalCalendar(fleet.database, fleet.master_key, fleet.emit, rules)


def state(fleet: DeviceFleet, cert_id: int) -> tuple[int, str | None, int | None]:
    [row] = fleet.query("SELECT renewal_failures, renewal_error, renew_at FROM cert_records WHERE id = :id", id=cert_id)
    return row["renewal_failures"], row["renewal_error"], row["renew_at"]


def audited(fleet: DeviceFleet, event: str) -> list[dict[str, object]]:
    rows = fleet.query("SELECT actor, detail FROM access_audit WHERE event = :event ORDER BY id", event=event)
    assert {row["actor"] for row in rows} <= {"system"}
    return [msgspec.json.decode(row["detail"]) for row in rows]


async def test_certificate_is_renewed_after_two_thirds_of_its_life(fleet: DeviceFleet, clock: ManualClock) -> None:
    certificate, device = fleet.add_certificate(), fleet.add_device()
    fleet.database.write_now(assignments.assign, fleet.user_id, device.id, certificate.id)
    first = fleet.issue(certificate.id, LIFE)
    clock.advance(TWO_THIRDS - 1)
    assert await calendar_of(fleet).run_once() == 0
    clock.advance(1)
    assert await calendar_of(fleet).run_once() == 1
    renewed = fleet.database.read_now(certificates.get, fleet.user_id, certificate.id)
    assert renewed.serial != first.serial
    assert renewed.not_before is not None
    assert renewed.not_after == iso_precise(parse_iso(renewed.not_before, "not_before") + LIFE * 1000)
    assert fleet.signals(device) == [
        {"type": "cert.renewed", "ref": {"cert_id": certificate.id, "serial": renewed.serial}}
    ]
    assert [each["serial"] for each in audited(fleet, "certificate.renewed")] == [renewed.serial]
    assert state(fleet, certificate.id) == (0, None, clock.now_ms + TWO_THIRDS * 1000)
    assert await calendar_of(fleet).run_once() == 0


async def test_of_several_nodes_one_renews_a_certificate(fleet: DeviceFleet, clock: ManualClock) -> None:
    account = fleet.add_account(fleet.add_authority().id)
    ids = [fleet.add_certificate(account.id, f"{name}.example").id for name in "abcdefghijkl"]
    for cert_id in ids:
        fleet.issue(cert_id, LIFE)
    clock.advance(TWO_THIRDS)
    renewed = await asyncio.gather(*(calendar_of(fleet).run_once() for _ in range(3)))
    assert sum(renewed) == len(ids)
    assert len(audited(fleet, "certificate.renewed")) == len(ids)
    assert fleet.query("SELECT issue_number FROM cert_records GROUP BY issue_number")[0]["issue_number"] == 2


async def test_renewal_of_a_node_that_ended_is_done_after_its_lease(fleet: DeviceFleet, clock: ManualClock) -> None:
    certificate = fleet.add_certificate()
    fleet.issue(certificate.id, LIFE)
    clock.advance(TWO_THIRDS)
    [leased] = fleet.database.write_now(calendar.lease_due, RULES)
    assert leased.cert_id == certificate.id
    assert await calendar_of(fleet).run_once() == 0
    clock.advance(LEASE_SECONDS)
    assert await calendar_of(fleet).run_once() == 1
    issued = calendar.make(leased, fleet.master_key)
    with pytest.raises(Conflict, match="another request"):
        fleet.database.write_now(calendar.store, fleet.emit, leased, issued)


async def test_failed_renewal_is_tried_again_with_growing_delays(fleet: DeviceFleet, clock: ManualClock) -> None:
    certificate = fleet.add_certificate()
    fleet.issue(certificate.id, LIFE)
    assert certificate.acct_id is not None
    fleet.database.write_now(accounts.delete, fleet.user_id, certificate.acct_id)
    clock.advance(TWO_THIRDS)
    delays = []
    for _ in range(8):
        assert await calendar_of(fleet).run_once() == 0
        failures, error, renew_at = state(fleet, certificate.id)
        assert renew_at is not None
        assert error is not None
        delays.append((renew_at - clock.now_ms) // 1000)
        clock.advance(delays[-1])
    assert delays == [600, 1200, 2400, 4800, 9600, 19200, 21600, 21600]
    assert failures == 8
    assert error is not None
    assert "account was deleted" in error
    assert len(audited(fleet, "certificate.renewal_failed")) == 1, "the same error again adds no row"


async def test_certificate_that_ends_with_its_authority_is_not_renewed(fleet: DeviceFleet, clock: ManualClock) -> None:
    account = fleet.add_account(fleet.add_authority(valid_days=30).id)
    certificate = fleet.add_certificate(account.id)
    first = fleet.issue(certificate.id, LIFE)
    clock.advance(20 * 86_400)
    assert await calendar_of(fleet).run_once() == 0
    failures, error, _ = state(fleet, certificate.id)
    assert failures == 1
    assert error is not None
    assert "replace the authority" in error
    assert fleet.database.read_now(certificates.get, fleet.user_id, certificate.id).serial == first.serial


async def test_renewal_by_hand_clears_the_failure(fleet: DeviceFleet, clock: ManualClock) -> None:
    certificate = fleet.add_certificate()
    fleet.issue(certificate.id, LIFE)
    clock.advance(TWO_THIRDS)
    [due] = fleet.database.write_now(calendar.lease_due, RULES)
    fleet.database.write_now(calendar.record_failure, due, "no")
    assert state(fleet, certificate.id)[:2] == (1, "no")
    fleet.issue(certificate.id, LIFE)
    assert state(fleet, certificate.id) == (0, None, clock.now_ms + TWO_THIRDS * 1000)


async def test_certificate_that_is_not_renewed_by_itself_is_left_alone(fleet: DeviceFleet, clock: ManualClock) -> None:
    certificate, other = fleet.add_certificate(), fleet.add_certificate()
    for each in (certificate, other):
        fleet.issue(each.id, LIFE)
    off = fleet.database.write_now(certificates.set_auto_renew, fleet.user_id, certificate.id, False, 66)
    assert off.auto_renew is False
    assert state(fleet, certificate.id)[2] is None
    fleet.issue(certificate.id, LIFE)
    assert state(fleet, certificate.id)[2] is None, "a renewal by hand does not turn it on"
    fleet.database.write_now(certificates.revoke, fleet.emit, fleet.user_id, other.id)
    clock.advance(LIFE - 1)
    assert await calendar_of(fleet).run_once() == 0
    fleet.database.write_now(certificates.set_auto_renew, fleet.user_id, certificate.id, True, 66)
    assert await calendar_of(fleet).run_once() == 1


async def test_calendar_without_a_share_of_life_does_nothing(fleet: DeviceFleet, clock: ManualClock) -> None:
    certificate = fleet.add_certificate()
    fleet.issue(certificate.id, LIFE)
    clock.advance(LIFE)
    await calendar_of(fleet, IssueRules(None, 0)).run()
    assert state(fleet, certificate.id)[0] == 0


async def test_authority_whose_key_cannot_be_opened_is_a_failure(fleet: DeviceFleet, clock: ManualClock) -> None:
    certificate = fleet.add_certificate()
    fleet.issue(certificate.id, LIFE)
    fleet.query("UPDATE certificate_authorities SET sealed_key = :sealed", sealed=b"\x01" + bytes(40))
    clock.advance(TWO_THIRDS)
    assert await calendar_of(fleet).run_once() == 0
    assert "cannot be opened" in str(state(fleet, certificate.id)[1])
