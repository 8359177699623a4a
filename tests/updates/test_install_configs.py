import hashlib
from base64 import b64encode
from typing import Any

import msgspec
import pytest

from restante.core.errors import BadInput, Conflict, NotFound
from restante.database.database import Database
from restante.updates import install_configs
from restante.updates.install_configs import Edit, InstallConfig
from restante.updates.install_items import checked_installs
from restante.web.paging import Window
from tests.conftest import START_MS, ManualClock
from tests.updates.world import OwnedDevice, Told, World, refuse_to_emit

ALL = Window(500, 0)


@pytest.fixture
def world(database: Database) -> World:
    return World(database)


@pytest.fixture
def device(world: World) -> OwnedDevice:
    return world.add_device()


def put(world: World, device: OwnedDevice, *ids: str, **edit: Any) -> InstallConfig:
    checked = checked_installs([{"id": id, "type": "exec"} for id in ids])
    made = Edit(world.user_id, device.id, "ann", **edit)
    return world.database.write_now(install_configs.put, world.emit, made, checked, f"after {ids}")


def test_there_is_none_at_first(world: World, device: OwnedDevice) -> None:
    with pytest.raises(NotFound):
        world.database.read_now(install_configs.current, device.id)


def test_each_put_is_the_next_version(world: World, device: OwnedDevice, clock: ManualClock) -> None:
    first = put(world, device, "a")
    clock.advance(10)
    second = put(world, device, "b")
    assert (first.version, second.version) == (1, 2)
    assert first.id == second.id
    assert world.database.read_now(install_configs.current, device.id) == second
    assert (second.created_at, second.updated_at) == (START_MS // 1000, START_MS // 1000 + 10)
    assert (second.user_device_id, second.updated_by) == (device.id, "ann")


def test_the_hash_is_of_the_very_bytes(world: World, device: OwnedDevice) -> None:
    config = put(world, device, "a")
    digest = hashlib.sha256(config.installs_json.encode()).digest()
    assert config.installs_hash == b64encode(digest).decode()
    assert bytes(config.installs) == config.installs_json.encode()
    assert world.query("SELECT installs_hash FROM device_install_configs")[0]["installs_hash"] == digest


def test_the_device_is_told(world: World, device: OwnedDevice) -> None:
    config = put(world, device, "a")
    ref = {"config_id": config.id, "version": 1, "installs_hash_b64": config.installs_hash}
    assert world.signals(device) == [{"type": "install.updated", "ref": ref}]


def test_telling_and_changing_are_one(world: World, device: OwnedDevice) -> None:
    put(world, device, "a")
    edit = Edit(world.user_id, device.id, "ann")
    with pytest.raises(Told):
        world.database.write_now(install_configs.put, refuse_to_emit, edit, checked_installs([]), None)
    with pytest.raises(Told):
        world.database.write_now(install_configs.restore, refuse_to_emit, edit, 1)
    assert world.database.read_now(install_configs.current, device.id).version == 1
    assert len(world.database.read_now(install_configs.history, world.user_id, device.id, ALL).items) == 1


def test_a_foreign_or_absent_device_is_not_found_and_a_revoked_one_refused(world: World) -> None:
    foreign, revoked = world.add_device(world.other_id), world.add_device()
    world.revoke_device(revoked)
    absent = foreign._replace(id=999)
    messages = set()
    for device in (foreign, absent):
        with pytest.raises(NotFound) as caught:
            put(world, device, "a")
        messages.add(caught.value.message)
    assert len(messages) == 1
    with pytest.raises(Conflict):
        put(world, revoked, "a")
    assert world.signals(foreign) == world.signals(revoked) == []


def test_the_expected_version_is_checked(world: World, device: OwnedDevice) -> None:
    with pytest.raises(Conflict, match="at version 0"):
        put(world, device, "a", expected_version=1)
    put(world, device, "a", expected_version=0)
    put(world, device, "b", expected_version=1)
    with pytest.raises(Conflict, match="at version 2"):
        put(world, device, "c", expected_version=1)
    edit = Edit(world.user_id, device.id, "ann", expected_version=1)
    with pytest.raises(Conflict, match="at version 2"):
        world.database.write_now(install_configs.restore, world.emit, edit, 1)
    assert world.signal_types(device) == ["install.updated"] * 2


@pytest.mark.parametrize("ob_type", ["cert", "ca"])
def test_an_object_must_be_the_user_s(world: World, device: OwnedDevice, ob_type: str) -> None:
    if ob_type == "cert":
        own, foreign = world.add_certificate().id, world.add_certificate(user_id=world.other_id).id
    else:
        own, foreign = world.add_authority().id, world.add_authority(world.other_id).id
    edit = Edit(world.user_id, device.id, "ann")

    def put_reference(ob_id: int) -> None:
        checked = checked_installs([{"id": "a", "type": "copy", "ob_type": ob_type, "ob_id": ob_id}])
        world.database.write_now(install_configs.put, world.emit, edit, checked, None)

    put_reference(own)
    messages = set()
    for ob_id in (foreign, 999):
        with pytest.raises(BadInput) as caught:
            put_reference(ob_id)
        assert caught.value.field == "installs[0].ob_id"
        messages.add(caught.value.message)
    assert len(messages) == 1
    assert world.database.read_now(install_configs.current, device.id).version == 1


def test_history_keeps_every_version(world: World, device: OwnedDevice, clock: ManualClock) -> None:
    put(world, device, "a", change_note="begin")
    clock.advance(5)
    second = put(world, device, "b")
    page = world.database.read_now(install_configs.history, world.user_id, device.id, ALL)
    assert [(past.version, past.change_note, past.changed_by) for past in page.items] == [
        (1, "begin", "ann"),
        (2, None, "ann"),
    ]
    assert [past.created_at for past in page.items] == [START_MS // 1000, START_MS // 1000 + 5]
    assert page.items[1].installs_hash == second.installs_hash


def test_history_comes_in_pages(world: World, device: OwnedDevice) -> None:
    for name in "abc":
        put(world, device, name)
    page = world.database.read_now(install_configs.history, world.user_id, device.id, Window(2, 0))
    assert ([past.version for past in page.items], page.next) == ([1, 2], 2)
    rest = world.database.read_now(install_configs.history, world.user_id, device.id, Window(2, 2))
    assert ([past.version for past in rest.items], rest.next) == ([3], None)


def test_restoring_is_a_new_version_with_the_old_content(world: World, device: OwnedDevice) -> None:
    first = put(world, device, "a")
    put(world, device, "b")
    edit = Edit(world.user_id, device.id, "bob")
    third = world.database.write_now(install_configs.restore, world.emit, edit, 1)
    assert (third.version, third.updated_by) == (3, "bob")
    assert third.installs_json == first.installs_json
    assert third.installs_hash == first.installs_hash
    assert third.after_update_script == first.after_update_script
    assert world.signals(device)[-1]["ref"]["version"] == 3
    page = world.database.read_now(install_configs.history, world.user_id, device.id, ALL)
    assert page.items[-1].change_note == "restored version 1"


def test_a_version_that_never_was_cannot_be_restored(world: World, device: OwnedDevice) -> None:
    other = world.add_device()
    put(world, device, "a")
    put(world, other, "a")
    put(world, other, "b")
    with pytest.raises(NotFound):
        world.database.write_now(install_configs.restore, world.emit, Edit(world.user_id, device.id, "ann"), 2)


def test_an_old_version_can_be_looked_at(world: World, device: OwnedDevice) -> None:
    put(world, device, "a")
    put(world, device, "b")
    past = world.database.read_now(install_configs.past_content, world.user_id, device.id, 1)
    assert msgspec.json.decode(past.installs)[0]["id"] == "a"
    with pytest.raises(NotFound):
        world.database.read_now(install_configs.past_content, world.user_id, device.id, 3)


def test_looking_is_for_the_owner(world: World, device: OwnedDevice) -> None:
    put(world, device, "a")
    database, stranger = world.database, world.other_id
    with pytest.raises(NotFound):
        database.read_now(install_configs.current_of_user, stranger, device.id)
    with pytest.raises(NotFound):
        database.read_now(install_configs.history, stranger, device.id, ALL)
    with pytest.raises(NotFound):
        database.read_now(install_configs.past_content, stranger, device.id, 1)
