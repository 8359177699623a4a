import pytest

from restante.core.errors import BadInput, NotFound
from restante.database.database import Database
from restante.updates import assignments, certificates
from restante.web.paging import Window
from tests.conftest import START_MS, ManualClock
from tests.updates.world import Told, World, refuse_to_emit


@pytest.fixture
def world(database: Database) -> World:
    return World(database)


def test_a_new_record_is_pending(world: World) -> None:
    account = world.add_account(None)
    made = world.add_certificate(account.id, "a.example", "b.example")
    assert (made.status, made.domain_name, made.sans) == ("pending", "a.example", ["a.example", "b.example"])
    assert (made.acct_id, made.serial, made.issuer, made.not_after) == (account.id, None, None, None)
    assert (made.certificate_pem, made.devices_count, made.created_at) == (None, 0, START_MS // 1000)


def test_the_account_must_be_the_user_s(world: World) -> None:
    foreign = world.add_account(None, world.other_id)
    for acct_id in (foreign.id, 999):
        with pytest.raises(BadInput, match=r"^acct_id: "):
            world.add_certificate(acct_id)


def test_records_are_the_user_s_own(world: World) -> None:
    foreign = world.add_certificate(user_id=world.other_id)
    messages = set()
    for cert_id in (foreign.id, 999):
        with pytest.raises(NotFound) as caught:
            world.database.read_now(certificates.get, world.user_id, cert_id)
        messages.add(caught.value.message)
        with pytest.raises(NotFound) as caught:
            world.database.write_now(certificates.revoke, world.emit, world.user_id, cert_id)
        messages.add(caught.value.message)
    assert len(messages) == 1
    with pytest.raises(NotFound):
        world.database.read_now(certificates.list_of_user, 999, Window(1, 0))


def test_lists_show_how_things_stand_in_pages(world: World) -> None:
    account = world.add_account(world.add_authority().id)
    ids = [world.add_certificate(account.id).id for _ in range(3)]
    world.add_certificate(user_id=world.other_id)
    world.issue(ids[0])
    world.database.write_now(assignments.assign, world.user_id, world.add_device().id, ids[0])
    world.database.write_now(certificates.revoke, world.emit, world.user_id, ids[1])
    page = world.database.read_now(certificates.list_of_user, world.user_id, Window(2, 0))
    seen = [(item.id, item.status, item.devices_count) for item in page.items]
    assert seen == [(ids[0], "issued", 1), (ids[1], "revoked", 0)]
    assert page.next == ids[1]
    assert page.items[0].issuer == "CN=Workshop CA"
    assert page.items[0].not_before == START_MS // 1000


def test_a_revoked_device_is_not_counted(world: World) -> None:
    certificate, device = world.add_certificate(), world.add_device()
    world.database.write_now(assignments.assign, world.user_id, device.id, certificate.id)
    world.revoke_device(device)
    assert world.database.read_now(certificates.get, world.user_id, certificate.id).devices_count == 0


def test_revoking_tells_every_active_device_and_drops_the_keys(world: World) -> None:
    one, two, gone, never = (world.add_device() for _ in range(4))
    certificate = world.add_certificate()
    world.issue(certificate.id)
    for device in (one, two, gone):
        world.database.write_now(assignments.assign, world.user_id, device.id, certificate.id)
    world.revoke_device(gone)
    revoked = world.database.write_now(certificates.revoke, world.emit, world.user_id, certificate.id)
    assert (revoked.status, revoked.revoked_at, revoked.devices_count) == ("revoked", START_MS // 1000, 0)
    for device in (one, two):
        assert world.signals(device) == [{"type": "cert.revoked", "ref": {"cert_id": certificate.id}}]
    assert world.signals(gone) == world.signals(never) == []
    row = world.query("SELECT * FROM cert_records")[0]
    assert row["enc_privkey"] is row["sealed_data_key"] is row["privkey_nonce"] is row["privkey_tag"] is None
    with pytest.raises(NotFound):
        world.database.read_now(assignments.bundle, one.id, certificate.id)


def test_revoking_again_changes_nothing(world: World, clock: ManualClock) -> None:
    certificate = world.add_certificate()
    once = world.database.write_now(certificates.revoke, world.emit, world.user_id, certificate.id)
    clock.advance(60)
    assert world.database.write_now(certificates.revoke, world.emit, world.user_id, certificate.id) == once


def test_telling_and_revoking_are_one(world: World) -> None:
    certificate, device = world.add_certificate(), world.add_device()
    world.database.write_now(assignments.assign, world.user_id, device.id, certificate.id)
    with pytest.raises(Told):
        world.database.write_now(certificates.revoke, refuse_to_emit, world.user_id, certificate.id)
    assert world.database.read_now(certificates.get, world.user_id, certificate.id).devices_count == 1
    assert world.database.read_now(certificates.get, world.user_id, certificate.id).status == "pending"
