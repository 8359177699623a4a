import hashlib
from base64 import b64encode
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from restante.core.errors import BadInput, Conflict, NotFound
from restante.core.iso_time import iso_precise
from restante.database.paging import PageRequest
from restante.updates.install import install_configs
from restante.updates.install.install_configs import ConfigEdit, InstallConfigView
from restante.updates.install.install_items import checked_installs
from tests.conftest import START_MS, ManualClock
from tests.updates.updates_fixture import DeviceFleet, EmitRefused, FleetDevice, refuse_to_emit

ALL = PageRequest(500, 0)


def put(fleet: DeviceFleet, device: FleetDevice, *ids: str, **edit: Any) -> InstallConfigView:
    checked = checked_installs([{"id": id, "type": "exec"} for id in ids])
    config_edit = ConfigEdit(fleet.user_id, device.id, "ann", **edit)
    return fleet.database.write_now(install_configs.put, fleet.emit, config_edit, checked, f"after {ids}")


def test_device_without_config_is_not_found(fleet: DeviceFleet, device: FleetDevice) -> None:
    with pytest.raises(NotFound):
        fleet.database.read_now(install_configs.current, device.id)


def test_each_put_creates_the_next_version(fleet: DeviceFleet, device: FleetDevice, clock: ManualClock) -> None:
    first = put(fleet, device, "a")
    clock.advance(10)
    second = put(fleet, device, "b")
    assert (first.version, second.version) == (1, 2)
    assert first.id == second.id
    assert fleet.database.read_now(install_configs.current, device.id) == second
    assert (second.created_at, second.updated_at) == (iso_precise(START_MS), iso_precise(START_MS + 10_000))
    assert (second.user_device_id, second.updated_by) == (device.id, "ann")


def test_hash_covers_the_stored_bytes(fleet: DeviceFleet, device: FleetDevice) -> None:
    config = put(fleet, device, "a")
    digest = hashlib.sha256(config.installs_json.encode()).digest()
    assert config.installs_hash == b64encode(digest).decode()
    assert bytes(config.installs) == config.installs_json.encode()
    assert fleet.query("SELECT installs_hash FROM device_install_configs")[0]["installs_hash"] == digest


def test_change_sends_a_signal(fleet: DeviceFleet, device: FleetDevice) -> None:
    config = put(fleet, device, "a")
    ref = {"config_id": config.id, "version": 1, "installs_hash_b64": config.installs_hash}
    assert fleet.signals(device) == [{"type": "install.updated", "ref": ref}]


def test_refused_signal_rolls_back_the_change(fleet: DeviceFleet, device: FleetDevice) -> None:
    put(fleet, device, "a")
    edit = ConfigEdit(fleet.user_id, device.id, "ann")
    with pytest.raises(EmitRefused):
        fleet.database.write_now(install_configs.put, refuse_to_emit, edit, checked_installs([]), None)
    with pytest.raises(EmitRefused):
        fleet.database.write_now(install_configs.restore, refuse_to_emit, edit, 1)
    assert fleet.database.read_now(install_configs.current, device.id).version == 1
    assert len(fleet.database.read_now(install_configs.history, fleet.user_id, device.id, ALL).items) == 1


def test_foreign_missing_and_revoked_devices_are_refused(fleet: DeviceFleet) -> None:
    foreign, revoked = fleet.add_device(fleet.other_id), fleet.add_device()
    fleet.revoke_device(revoked)
    missing = replace(foreign, id=999)
    messages = set()
    for device in (foreign, missing):
        with pytest.raises(NotFound) as caught:
            put(fleet, device, "a")
        messages.add(caught.value.message)
    assert len(messages) == 1
    with pytest.raises(Conflict):
        put(fleet, revoked, "a")
    assert fleet.signals(foreign) == fleet.signals(revoked) == []


def test_expected_version_is_checked(fleet: DeviceFleet, device: FleetDevice) -> None:
    with pytest.raises(Conflict, match="at version 0"):
        put(fleet, device, "a", expected_version=1)
    put(fleet, device, "a", expected_version=0)
    put(fleet, device, "b", expected_version=1)
    with pytest.raises(Conflict, match="at version 2"):
        put(fleet, device, "c", expected_version=1)
    edit = ConfigEdit(fleet.user_id, device.id, "ann", expected_version=1)
    with pytest.raises(Conflict, match="at version 2"):
        fleet.database.write_now(install_configs.restore, fleet.emit, edit, 1)
    assert fleet.signal_types(device) == ["install.updated"] * 2


@pytest.mark.parametrize("ob_type", ["cert", "ca"])
def test_referenced_object_must_belong_to_the_user(fleet: DeviceFleet, device: FleetDevice, ob_type: str) -> None:
    if ob_type == "cert":
        own, foreign = fleet.add_certificate().id, fleet.add_certificate(user_id=fleet.other_id).id
    else:
        own, foreign = fleet.add_authority().id, fleet.add_authority(fleet.other_id).id
    edit = ConfigEdit(fleet.user_id, device.id, "ann")

    def put_reference(ob_id: int) -> None:
        checked = checked_installs([{"id": "a", "type": "copy", "ob_type": ob_type, "ob_id": ob_id}])
        fleet.database.write_now(install_configs.put, fleet.emit, edit, checked, None)

    put_reference(own)
    messages = set()
    for ob_id in (foreign, 999):
        with pytest.raises(BadInput) as caught:
            put_reference(ob_id)
        assert caught.value.field == "installs[0].ob_id"
        messages.add(caught.value.message)
    assert len(messages) == 1
    assert fleet.database.read_now(install_configs.current, device.id).version == 1


def test_history_has_every_version(fleet: DeviceFleet, device: FleetDevice, clock: ManualClock) -> None:
    put(fleet, device, "a", change_note="begin")
    clock.advance(5)
    second = put(fleet, device, "b")
    page = fleet.database.read_now(install_configs.history, fleet.user_id, device.id, ALL)
    assert [(entry.version, entry.change_note, entry.changed_by) for entry in page.items] == [
        (1, "begin", "ann"),
        (2, None, "ann"),
    ]
    assert [entry.created_at for entry in page.items] == [iso_precise(START_MS), iso_precise(START_MS + 5000)]
    assert page.items[1].installs_hash == second.installs_hash


def test_history_is_listed_in_pages(fleet: DeviceFleet, device: FleetDevice) -> None:
    for name in "abc":
        put(fleet, device, name)
    page = fleet.database.read_now(install_configs.history, fleet.user_id, device.id, PageRequest(2, 0))
    assert ([entry.version for entry in page.items], page.next) == ([1, 2], 2)
    rest = fleet.database.read_now(install_configs.history, fleet.user_id, device.id, PageRequest(2, 2))
    assert ([entry.version for entry in rest.items], rest.next) == ([3], None)


def test_restore_creates_a_new_version_with_the_old_content(fleet: DeviceFleet, device: FleetDevice) -> None:
    first = put(fleet, device, "a")
    put(fleet, device, "b")
    edit = ConfigEdit(fleet.user_id, device.id, "bob")
    third = fleet.database.write_now(install_configs.restore, fleet.emit, edit, 1)
    assert (third.version, third.updated_by) == (3, "bob")
    assert third.installs_json == first.installs_json
    assert third.installs_hash == first.installs_hash
    assert third.after_update_script == first.after_update_script
    assert fleet.signals(device)[-1]["ref"]["version"] == 3
    page = fleet.database.read_now(install_configs.history, fleet.user_id, device.id, ALL)
    assert page.items[-1].change_note == "restored version 1"


def test_restore_of_unknown_version_is_not_found(fleet: DeviceFleet, device: FleetDevice) -> None:
    other = fleet.add_device()
    put(fleet, device, "a")
    put(fleet, other, "a")
    put(fleet, other, "b")
    with pytest.raises(NotFound):
        fleet.database.write_now(install_configs.restore, fleet.emit, ConfigEdit(fleet.user_id, device.id, "ann"), 2)


def test_old_version_is_shown(fleet: DeviceFleet, device: FleetDevice) -> None:
    put(fleet, device, "a")
    put(fleet, device, "b")
    entry = fleet.database.read_now(install_configs.version_detail, fleet.user_id, device.id, 1)
    assert msgspec.json.decode(entry.installs)[0]["id"] == "a"
    with pytest.raises(NotFound):
        fleet.database.read_now(install_configs.version_detail, fleet.user_id, device.id, 3)


def test_reads_by_another_user_are_not_found(fleet: DeviceFleet, device: FleetDevice) -> None:
    put(fleet, device, "a")
    database, other_user = fleet.database, fleet.other_id
    with pytest.raises(NotFound):
        database.read_now(install_configs.current_of_user, other_user, device.id)
    with pytest.raises(NotFound):
        database.read_now(install_configs.history, other_user, device.id, ALL)
    with pytest.raises(NotFound):
        database.read_now(install_configs.version_detail, other_user, device.id, 1)
