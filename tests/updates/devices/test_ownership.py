import pytest

from restante.core.errors import Conflict, NotFound
from restante.updates.devices.ownership import check_user, get_active_device, get_owned_device
from tests.conftest import START_MS
from tests.updates.updates_fixture import DeviceFleet


def test_unknown_user_is_not_found(fleet: DeviceFleet) -> None:
    assert fleet.database.read_now(check_user, fleet.user_id) == START_MS
    with pytest.raises(NotFound):
        fleet.database.read_now(check_user, 999)


def test_missing_and_foreign_device_give_the_same_error(fleet: DeviceFleet) -> None:
    device, foreign = fleet.add_device(), fleet.add_device(fleet.other_id)
    assert fleet.database.read_now(get_owned_device, fleet.user_id, device.id).device_keyfp == device.keyfp
    messages = set()
    for device_id in (foreign.id, 999):
        for get in (get_owned_device, get_active_device):
            with pytest.raises(NotFound) as caught:
                fleet.database.read_now(get, fleet.user_id, device_id)
            messages.add(caught.value.message)
    assert len(messages) == 1


def test_revoked_device_is_readable_but_not_active(fleet: DeviceFleet) -> None:
    device = fleet.add_device()
    assert fleet.database.read_now(get_active_device, fleet.user_id, device.id).id == device.id
    fleet.revoke_device(device)
    assert fleet.database.read_now(get_owned_device, fleet.user_id, device.id).id == device.id
    with pytest.raises(Conflict, match="revoked"):
        fleet.database.read_now(get_active_device, fleet.user_id, device.id)
