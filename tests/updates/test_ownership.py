import pytest

from restante.core.errors import Conflict, NotFound
from restante.database.database import Database
from restante.updates.ownership import require_active_device, require_device, require_user
from tests.conftest import START_MS
from tests.updates.world import World


@pytest.fixture
def world(database: Database) -> World:
    return World(database)


def test_a_user_there_is(world: World) -> None:
    assert world.database.read_now(require_user, world.user_id) == START_MS
    with pytest.raises(NotFound):
        world.database.read_now(require_user, 999)


def test_a_device_of_the_user(world: World) -> None:
    device, foreign = world.add_device(), world.add_device(world.other_id)
    assert world.database.read_now(require_device, world.user_id, device.id).device_keyfp == device.keyfp
    messages = set()
    for device_id in (foreign.id, 999):
        for require in (require_device, require_active_device):
            with pytest.raises(NotFound) as caught:
                world.database.read_now(require, world.user_id, device_id)
            messages.add(caught.value.message)
    assert len(messages) == 1


def test_a_revoked_device_can_be_looked_at_but_not_told(world: World) -> None:
    device = world.add_device()
    assert world.database.read_now(require_active_device, world.user_id, device.id).id == device.id
    world.revoke_device(device)
    assert world.database.read_now(require_device, world.user_id, device.id).id == device.id
    with pytest.raises(Conflict, match="revoked"):
        world.database.read_now(require_active_device, world.user_id, device.id)
