from base64 import b64decode
from functools import partial

import pytest
from cryptography import x509

from restante.core.errors import Conflict, NotFound
from restante.database.database import Database
from restante.updates import authorities
from restante.updates.sealing import AUTHORITY_KEY_PURPOSE
from restante.web.paging import Window
from tests.conftest import START_MS, ManualClock
from tests.updates.world import Told, World, refuse_to_emit

ALL = Window(500, 0)


@pytest.fixture
def world(database: Database) -> World:
    return World(database)


def assign(world: World, device_id: int, ca_id: int) -> authorities.AuthorityAssignment:
    return world.database.write_now(authorities.assign, world.emit, world.user_id, device_id, ca_id)


def test_an_authority_is_shown_as_it_is(world: World) -> None:
    ca = world.add_authority(valid_days=7, curve_name="P-384", common_name="Root")
    assert (ca.status, ca.algorithm, ca.key_size, ca.curve_name) == ("active", "ECDSA", 384, "P-384")
    assert (ca.valid_days, ca.common_name, ca.devices_count) == (7, "Root", 0)
    assert (ca.not_before, ca.not_after) == (START_MS // 1000, START_MS // 1000 + 7 * 86400)
    certificate = x509.load_pem_x509_certificate(ca.ca_certificate_pem.encode())
    assert int(ca.serial_number.replace(":", ""), 16) == certificate.serial_number
    assert world.database.read_now(authorities.get, world.user_id, ca.id) == ca
    rsa = world.add_authority(algorithm="RSA", key_size=2048)
    assert (rsa.algorithm, rsa.key_size, rsa.curve_name) == ("RSA", 2048, None)


def test_the_key_lies_sealed(world: World) -> None:
    world.add_authority()
    sealed = world.query("SELECT sealed_key FROM certificate_authorities")[0]["sealed_key"]
    plain = world.master_key.open(sealed, AUTHORITY_KEY_PURPOSE)
    assert plain not in sealed
    assert len(plain) > 100


def test_lists_are_the_user_s_own_in_pages(world: World) -> None:
    ids = [world.add_authority().id for _ in range(3)]
    world.add_authority(world.other_id)
    page = world.database.read_now(authorities.list_of_user, world.user_id, Window(2, 0))
    assert ([ca.id for ca in page.items], page.next) == (ids[:2], ids[1])
    rest = world.database.read_now(authorities.list_of_user, world.user_id, Window(2, ids[1]))
    assert ([ca.id for ca in rest.items], rest.next) == (ids[2:], None)


def test_foreign_and_absent_look_the_same(world: World) -> None:
    device, foreign = world.add_device(), world.add_authority(world.other_id)
    messages = set()
    for ca_id in (foreign.id, 999):
        with pytest.raises(NotFound) as caught:
            world.database.read_now(authorities.get, world.user_id, ca_id)
        messages.add(caught.value.message)
        with pytest.raises(NotFound) as caught:
            assign(world, device.id, ca_id)
        messages.add(caught.value.message)
        with pytest.raises(NotFound) as caught:
            world.database.write_now(authorities.revoke, world.emit, world.user_id, ca_id)
        messages.add(caught.value.message)
    assert len(messages) == 1
    with pytest.raises(NotFound):
        world.database.read_now(authorities.list_of_user, 999, ALL)


def test_assigning_tells_the_device_once(world: World) -> None:
    device, ca = world.add_device(), world.add_authority()
    first = assign(world, device.id, ca.id)
    assert assign(world, device.id, ca.id) == first
    ref = {"ca_id": ca.id, "serial": ca.serial_number, "ca_name": "Workshop CA"}
    assert world.signals(device) == [{"type": "ca.assigned", "ref": ref}]
    assert world.database.read_now(authorities.get, world.user_id, ca.id).devices_count == 1


def test_unassigning_tells_the_device(world: World) -> None:
    device, ca = world.add_device(), world.add_authority()
    assign(world, device.id, ca.id)
    unassign = partial(authorities.unassign, emit=world.emit, user_id=world.user_id, device_id=device.id)
    world.database.write_now(unassign, ca_id=ca.id)
    ref = {"ca_id": ca.id, "serial": ca.serial_number, "ca_name": "Workshop CA"}
    assert world.signals(device)[1:] == [{"type": "ca.unassigned", "ref": ref}]
    with pytest.raises(NotFound):
        world.database.write_now(unassign, ca_id=ca.id)
    assert len(world.signals(device)) == 2


def test_telling_and_changing_are_one(world: World) -> None:
    device, ca, database, user_id = world.add_device(), world.add_authority(), world.database, world.user_id
    with pytest.raises(Told):
        database.write_now(authorities.assign, refuse_to_emit, user_id, device.id, ca.id)
    assert not database.read_now(authorities.list_of_device, user_id, device.id, ALL).items
    assign(world, device.id, ca.id)
    with pytest.raises(Told):
        database.write_now(authorities.unassign, refuse_to_emit, user_id, device.id, ca.id)
    with pytest.raises(Told):
        database.write_now(authorities.revoke, refuse_to_emit, user_id, ca.id)
    assert database.read_now(authorities.list_of_device, user_id, device.id, ALL).items
    assert database.read_now(authorities.get, user_id, ca.id).status == "active"


def test_a_revoked_device_gets_nothing(world: World) -> None:
    device, ca = world.add_device(), world.add_authority()
    world.revoke_device(device)
    with pytest.raises(Conflict):
        assign(world, device.id, ca.id)
    with pytest.raises(Conflict):
        world.database.write_now(authorities.unassign, world.emit, world.user_id, device.id, ca.id)
    assert world.signals(device) == []


def test_a_foreign_device_is_not_found(world: World) -> None:
    device, ca = world.add_device(world.other_id), world.add_authority()
    with pytest.raises(NotFound):
        assign(world, device.id, ca.id)
    with pytest.raises(NotFound):
        world.database.read_now(authorities.list_of_device, world.user_id, device.id, ALL)


def test_revoking_takes_it_from_every_device(world: World) -> None:
    one, two, gone, never = (world.add_device() for _ in range(4))
    ca = world.add_authority()
    for device in (one, two, gone):
        assign(world, device.id, ca.id)
    world.revoke_device(gone)
    revoked = world.database.write_now(authorities.revoke, world.emit, world.user_id, ca.id)
    assert (revoked.status, revoked.revoked_at, revoked.devices_count) == ("revoked", START_MS // 1000, 0)
    told = [world.signal_types(device) for device in (one, two, gone, never)]
    assert told == [["ca.assigned", "ca.unassigned"]] * 2 + [["ca.assigned"], []]
    with pytest.raises(NotFound):
        world.database.read_now(authorities.bundle, one.id, ca.id)


def test_revoking_is_for_good(world: World, clock: ManualClock) -> None:
    device, ca = world.add_device(), world.add_authority()
    once = world.database.write_now(authorities.revoke, world.emit, world.user_id, ca.id)
    clock.advance(60)
    assert world.database.write_now(authorities.revoke, world.emit, world.user_id, ca.id) == once
    with pytest.raises(Conflict, match="revoked"):
        assign(world, device.id, ca.id)
    assert world.query("SELECT sealed_key FROM certificate_authorities")[0]["sealed_key"] is None


def test_a_bundle_is_for_the_devices_that_have_it(world: World) -> None:
    device, other = world.add_device(), world.add_device()
    ca = world.add_authority()
    assign(world, device.id, ca.id)
    bundle = world.database.read_now(authorities.bundle, device.id, ca.id)
    certificate = x509.load_der_x509_certificate(b64decode(bundle.ca_certificate_der_b64))
    assert certificate == x509.load_pem_x509_certificate(bundle.ca_certificate_pem.encode())
    assert (bundle.id, bundle.name, bundle.status) == (ca.id, "Workshop CA", "active")
    assert (bundle.serial_number, bundle.valid_days) == (ca.serial_number, 3650)
    messages = set()
    for device_id, ca_id in ((other.id, ca.id), (device.id, 999)):
        with pytest.raises(NotFound) as caught:
            world.database.read_now(authorities.bundle, device_id, ca_id)
        messages.add(caught.value.message)
    assert len(messages) == 1


def test_a_device_s_authorities_in_pages(world: World) -> None:
    device = world.add_device()
    ids = [world.add_authority().id for _ in range(3)]
    for ca_id in ids:
        assign(world, device.id, ca_id)
    page = world.database.read_now(authorities.list_of_device, world.user_id, device.id, Window(2, 0))
    assert ([item.ca_id for item in page.items], page.next) == (ids[:2], ids[1])
