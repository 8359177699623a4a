import pytest

from restante.core.errors import BadInput, NotFound
from restante.database.database import Database
from restante.updates import accounts, authorities, certificates
from restante.web.paging import Window
from tests.updates.world import World


@pytest.fixture
def world(database: Database) -> World:
    return World(database)


def test_an_account_with_and_without_an_authority(world: World) -> None:
    ca = world.add_authority()
    bound, free = world.add_account(ca.id), world.add_account(None)
    assert (bound.ca_id, free.ca_id) == (ca.id, None)
    assert (bound.name, bound.email, bound.provider) == ("account", "ops@example.com", "self")
    assert world.database.read_now(accounts.get, world.user_id, bound.id) == bound


def test_the_authority_must_be_the_user_s_and_active(world: World) -> None:
    foreign, revoked = world.add_authority(world.other_id), world.add_authority()
    world.database.write_now(authorities.revoke, world.emit, world.user_id, revoked.id)
    for ca_id in (foreign.id, revoked.id, 999):
        with pytest.raises(BadInput, match=r"^ca_id: "):
            world.add_account(ca_id)


def test_an_email_is_one(world: World) -> None:
    with pytest.raises(BadInput, match=r"^email: "):
        world.database.write_now(accounts.add, world.user_id, "a", "nobody", "self", None)


def test_accounts_are_the_user_s_own(world: World) -> None:
    foreign = world.add_account(None, world.other_id)
    for acct_id in (foreign.id, 999):
        with pytest.raises(NotFound):
            world.database.read_now(accounts.get, world.user_id, acct_id)
        with pytest.raises(NotFound):
            world.database.write_now(accounts.delete, world.user_id, acct_id)
    with pytest.raises(NotFound):
        world.database.read_now(accounts.list_of_user, 999, Window(1, 0))
    with pytest.raises(NotFound):
        world.add_account(None, 999)


def test_accounts_come_in_pages(world: World) -> None:
    ids = [world.add_account(None).id for _ in range(3)]
    page = world.database.read_now(accounts.list_of_user, world.user_id, Window(2, 0))
    assert ([account.id for account in page.items], page.next) == (ids[:2], ids[1])


def test_deleting_keeps_the_certificates(world: World) -> None:
    account = world.add_account(None)
    certificate = world.add_certificate(account.id)
    world.database.write_now(accounts.delete, world.user_id, account.id)
    with pytest.raises(NotFound):
        world.database.read_now(accounts.get, world.user_id, account.id)
    kept = world.database.read_now(certificates.get, world.user_id, certificate.id)
    assert kept.acct_id is None
