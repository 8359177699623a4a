import pytest

from restante.core.errors import BadInput, NotFound
from restante.database.paging import PageRequest
from restante.updates.pki import accounts, authorities, certificates
from tests.updates.updates_fixture import DeviceFleet


def test_account_with_and_without_an_authority(fleet: DeviceFleet) -> None:
    ca = fleet.add_authority()
    bound, free = fleet.add_account(ca.id), fleet.add_account(None)
    assert (bound.ca_id, free.ca_id) == (ca.id, None)
    assert (bound.name, bound.email, bound.provider) == ("account", "ops@example.com", "self")
    assert fleet.database.read_now(accounts.get, fleet.user_id, bound.id) == bound


def test_authority_must_be_active_and_belong_to_the_user(fleet: DeviceFleet) -> None:
    foreign, revoked = fleet.add_authority(fleet.other_id), fleet.add_authority()
    fleet.database.write_now(authorities.revoke, fleet.emit, fleet.user_id, revoked.id)
    for ca_id in (foreign.id, revoked.id, 999):
        with pytest.raises(BadInput, match=r"^ca_id: "):
            fleet.add_account(ca_id)


def test_invalid_email_is_refused(fleet: DeviceFleet) -> None:
    with pytest.raises(BadInput, match=r"^email: "):
        fleet.database.write_now(accounts.add, fleet.user_id, "a", "nobody", "self", None)


def test_foreign_and_missing_accounts_are_not_found(fleet: DeviceFleet) -> None:
    foreign = fleet.add_account(None, fleet.other_id)
    for acct_id in (foreign.id, 999):
        with pytest.raises(NotFound):
            fleet.database.read_now(accounts.get, fleet.user_id, acct_id)
        with pytest.raises(NotFound):
            fleet.database.write_now(accounts.delete, fleet.user_id, acct_id)
    with pytest.raises(NotFound):
        fleet.database.read_now(accounts.list_of_user, 999, PageRequest(1, 0))
    with pytest.raises(NotFound):
        fleet.add_account(None, 999)


def test_accounts_are_listed_in_pages(fleet: DeviceFleet) -> None:
    ids = [fleet.add_account(None).id for _ in range(3)]
    page = fleet.database.read_now(accounts.list_of_user, fleet.user_id, PageRequest(2, 0))
    assert ([account.id for account in page.items], page.next) == (ids[:2], ids[1])


def test_deleted_account_leaves_its_certificates(fleet: DeviceFleet) -> None:
    account = fleet.add_account(None)
    certificate = fleet.add_certificate(account.id)
    fleet.database.write_now(accounts.delete, fleet.user_id, account.id)
    with pytest.raises(NotFound):
        fleet.database.read_now(accounts.get, fleet.user_id, account.id)
    kept = fleet.database.read_now(certificates.get, fleet.user_id, certificate.id)
    assert kept.acct_id is None
