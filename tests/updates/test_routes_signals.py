from typing import Any

import pytest

from restante.database.database import Database
from restante.updates.routes_signals import OwnSignal, send
from tests.conftest import START_MS
from tests.updates.world import Site, Told, World, open_site, refuse_to_emit


@pytest.fixture
def world(database: Database) -> World:
    return World(database)


@pytest.fixture
async def site(world: World) -> Site:
    return await open_site(world)


async def test_an_application_sends_its_own(site: Site, world: World) -> None:
    device = world.add_device()
    answer = await site.call("POST", f"/devices/{device.id}/signals", {"type": "my.app", "ref": {"n": 1}})
    assert answer.status_code == 202
    assert answer.json() == {"data": {"device_id": device.id, "type": "my.app", "ts_ms": START_MS}}
    assert world.signals(device) == [{"type": "my.app", "ref": {"n": 1}}]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"ref": {}}, "type"),
        ({"type": "", "ref": {}}, "type"),
        ({"type": "x" * 129, "ref": {}}, "type"),
        ({"type": "a\nb", "ref": {}}, "type"),
        ({"type": "a"}, "ref"),
        ({"type": "a", "ref": []}, "ref"),
        ({"type": "a", "ref": {"pad": "x" * 4096}}, "ref"),
        ({"type": "a", "ref": {}, "ts_ms": 1}, "ts_ms"),
    ],
)
async def test_bad_signals_are_refused(site: Site, world: World, body: dict[str, Any], field: str) -> None:
    device = world.add_device()
    answer = await site.call("POST", f"/devices/{device.id}/signals", body)
    assert answer.status_code == 400
    assert answer.json()["error"]["what"].startswith(f"{field}: ")
    assert world.signals(device) == []


async def test_only_to_active_devices_of_the_user(site: Site, world: World) -> None:
    foreign, revoked = world.add_device(world.other_id), world.add_device()
    world.revoke_device(revoked)
    body = {"type": "my.app", "ref": {}}
    assert (await site.call("POST", f"/devices/{foreign.id}/signals", body)).status_code == 404
    assert (await site.call("POST", "/devices/999/signals", body)).status_code == 404
    assert (await site.call("POST", f"/devices/{revoked.id}/signals", body)).status_code == 409
    assert world.signals(foreign) == world.signals(revoked) == []


def test_sending_is_emitting(world: World) -> None:
    device = world.add_device()
    with pytest.raises(Told):
        world.database.write_now(send, refuse_to_emit, world.user_id, device.id, OwnSignal("a", {}))
