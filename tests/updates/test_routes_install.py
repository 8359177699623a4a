from typing import Any

import pytest

from restante.database.database import Database
from tests.updates.world import OwnedDevice, Site, World, open_site

ITEM = {"id": "a", "type": "copy", "from": ["x"], "to": ["/y"]}


@pytest.fixture
def world(database: Database) -> World:
    return World(database)


@pytest.fixture
async def site(world: World) -> Site:
    return await open_site(world)


@pytest.fixture
def device(world: World) -> OwnedDevice:
    return world.add_device()


def path(device: OwnedDevice) -> str:
    return f"/devices/{device.id}/install-config"


async def test_put_get_and_restore(site: Site, device: OwnedDevice) -> None:
    assert (await site.call("GET", path(device))).status_code == 404
    put = await site.call("PUT", path(device), {"installs": [ITEM], "change_note": "first"})
    assert (put.status_code, put.headers["etag"]) == (200, '"1"')
    data = put.json()["data"]
    assert data["installs"] == [{**ITEM, "enabled": True}]
    assert data["updated_by"] == "key:tests"
    assert (await site.call("GET", path(device))).json() == put.json()
    await site.call("PUT", path(device), {"installs": [], "after_update_script": "echo"})
    restored = await site.call("POST", path(device) + "/restore", {"version": 1})
    assert (restored.status_code, restored.headers["etag"]) == (200, '"3"')
    assert restored.json()["data"]["installs"] == data["installs"]
    assert restored.json()["data"]["after_update_script"] is None


async def test_history(site: Site, device: OwnedDevice) -> None:
    for note in ("one", "two", "three"):
        await site.call("PUT", path(device), {"installs": [ITEM], "change_note": note})
    page = (await site.call("GET", path(device) + "/history?limit=2")).json()["data"]
    assert [(past["version"], past["change_note"]) for past in page["items"]] == [(1, "one"), (2, "two")]
    rest = (await site.call("GET", path(device) + f"/history?after={page['next']}")).json()["data"]
    assert ([past["version"] for past in rest["items"]], rest["next"]) == ([3], None)
    past = (await site.call("GET", path(device) + "/history/2")).json()["data"]
    assert (past["change_note"], past["changed_by"]) == ("two", "key:tests")
    assert past["installs"] == [{**ITEM, "enabled": True}]
    assert (await site.call("GET", path(device) + "/history/9")).status_code == 404
    assert (await site.call("GET", path(device) + "/history?limit=0")).status_code == 400


async def test_if_match(site: Site, device: OwnedDevice, world: World) -> None:
    body: dict[str, Any] = {"installs": []}
    assert (await site.call("PUT", path(device), body, if_match="0")).status_code == 200
    assert (await site.call("PUT", path(device), body, if_match='"1"')).status_code == 200
    stale = await site.call("PUT", path(device), body, if_match='"1"')
    assert (stale.status_code, stale.json()["error"]["code"]) == (409, 40900)
    restore = path(device) + "/restore"
    assert (await site.call("POST", restore, {"version": 1}, if_match="1")).status_code == 409
    assert (await site.call("POST", restore, {"version": 1}, if_match="2")).status_code == 200
    assert (await site.call("PUT", path(device), body, if_match="x")).status_code == 400
    assert len(world.signals(device)) == 3


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "installs"),
        ({"installs": {}}, "installs"),
        ({"installs": [7]}, "installs[0]"),
        ({"installs": [{**ITEM, "to": []}]}, "installs[0].to"),
        ({"installs": [ITEM, {"id": "b", "type": "zip"}]}, "installs[1].type"),
        ({"installs": [{**ITEM, "ob_type": "cert", "ob_id": 77}]}, "installs[0].ob_id"),
        ({"installs": [], "change_note": "x" * 1001}, "change_note"),
        ({"installs": [], "after_update_script": "x" * 65537}, "after_update_script"),
        ({"installs": [], "version": 3}, "version"),
    ],
)
async def test_bad_input_names_its_field_and_changes_nothing(
    site: Site, device: OwnedDevice, world: World, body: dict[str, Any], field: str
) -> None:
    answer = await site.call("PUT", path(device), body)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == 5000
    assert answer.json()["error"]["what"].startswith(f"{field}: ")
    assert world.signals(device) == []


@pytest.mark.parametrize("version", [0, "1", 2**63])
async def test_a_version_to_restore_is_a_number(site: Site, device: OwnedDevice, version: Any) -> None:
    answer = await site.call("POST", path(device) + "/restore", {"version": version})
    assert answer.status_code == 400


async def test_strangers_and_revoked_devices(site: Site, world: World) -> None:
    foreign, revoked = world.add_device(world.other_id), world.add_device()
    world.revoke_device(revoked)
    answers = [
        await site.call(method, path(device), body)
        for device in (foreign, foreign._replace(id=999))
        for method, body in (("GET", None), ("PUT", {"installs": []}))
    ]
    assert {answer.status_code for answer in answers} == {404}
    assert len({answer.text for answer in answers}) == 1
    assert (await site.call("PUT", path(revoked), {"installs": []})).status_code == 409
    assert (await site.call("GET", "/devices/x/install-config")).status_code == 400
