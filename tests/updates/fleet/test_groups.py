"""Groups and tags of devices over HTTP: saved filters within the caller's grants, every change in the audit trail."""

import asyncio
from typing import Any

import pytest

from restante.database.paging import PageRequest
from restante.identity import access_audit
from restante.identity.tags import TAGS_MAX
from tests.updates.fleet.fleet_api import FleetApi
from tests.updates.fleet.fleet_fixture import DescribedFleet

GROUPS = "/apiv1/groups"


async def create(api: FleetApi, name: str, headers: Any = None, **body: Any) -> dict[str, Any]:
    response = await api.call("POST", GROUPS, {"name": name, **body}, headers)
    assert response.status_code == 201, response.text
    made: dict[str, Any] = response.json()["data"]
    return made


def events(api: FleetApi) -> list[str]:
    page = api.database.read_now(access_audit.list_page, None, None, PageRequest(500, 0))
    return [change.event for change in reversed(page.items) if change.event.startswith(("group", "device"))]


async def test_group_selects_by_its_filter(fleet_api: FleetApi, fleet: DescribedFleet) -> None:
    linux, windows = fleet.add("a", "pilot", platform="linux"), fleet.add("b", "pilot", platform="windows")
    group = await create(fleet_api, "pilots", filter={"tag": "pilot"})
    assert group["filter"] == {"tag": "pilot"}
    assert fleet.ids(group="pilots") == fleet.ids(group=str(group["id"])) == [linux, windows]
    assert fleet.ids(group="pilots", platform="linux") == [linux]
    changed = await fleet_api.call("PUT", f"{GROUPS}/{group['id']}", {"filter": {"platform": "windows"}})
    assert (changed.json()["data"]["name"], fleet.ids(group="pilots")) == ("pilots", [windows])
    renamed = await fleet_api.call("PUT", f"{GROUPS}/{group['id']}", {"name": "windows"})
    assert renamed.json()["data"]["filter"] == {"platform": "windows"}
    assert [each["name"] for each in (await fleet_api.get(GROUPS))["items"]] == ["windows"]
    assert (await fleet_api.call("DELETE", f"{GROUPS}/{group['id']}")).status_code == 204
    assert (await fleet_api.call("GET", f"{GROUPS}/{group['id']}")).status_code == 404
    assert events(fleet_api) == ["group.created", "group.changed", "group.changed", "group.deleted"]


async def test_group_of_a_user_is_of_this_user_only(fleet_api: FleetApi, fleet: DescribedFleet) -> None:
    own, foreign = fleet.add("a", "x"), fleet.add("b", "x", user_id=fleet.other_id)
    limited = fleet_api.key(f"operator@updates:{fleet.user_id}")
    group = await create(fleet_api, "mine", limited, filter={"tag": "x"})
    fleet_wide = await create(fleet_api, "everyone", filter={"tag": "x"})
    assert (group["user_id"], fleet_wide["user_id"]) == (fleet.user_id, None)
    assert fleet.ids(group="mine") == [own]
    assert fleet.ids(group="everyone") == [own, foreign]
    assert [each["name"] for each in (await fleet_api.get(GROUPS, limited))["items"]] == ["mine"]
    for path in (f"/apiv1/devices?group={fleet_wide['id']}", "/apiv1/devices?group=everyone"):
        assert (await fleet_api.call("GET", path, headers=limited)).status_code == 400
    assert (await fleet_api.call("GET", f"{GROUPS}/{fleet_wide['id']}", headers=limited)).status_code == 404
    other = await fleet_api.call(
        "POST", GROUPS, {"name": "theirs", "filter": {"tag": "x"}, "user_id": fleet.other_id}, limited
    )
    assert (other.status_code, other.json()["error"]["what"].partition(":")[0]) == (400, "user_id")


async def test_same_name_of_two_users_is_told_apart_by_id(fleet_api: FleetApi, fleet: DescribedFleet) -> None:
    own, foreign = fleet.add("a", "x"), fleet.add("b", "x", user_id=fleet.other_id)
    mine = await create(fleet_api, "pilots", filter={"tag": "x"}, user_id=fleet.user_id)
    theirs = await create(fleet_api, "pilots", filter={"tag": "x"}, user_id=fleet.other_id)
    refused = await fleet_api.call("GET", "/apiv1/devices?group=pilots")
    assert refused.status_code == 400
    assert f"the groups {mine['id']}, {theirs['id']} have this name" in refused.json()["error"]["what"]
    assert (fleet.ids(group=str(mine["id"])), fleet.ids(group=str(theirs["id"]))) == ([own], [foreign])
    limited = fleet_api.key(f"viewer@updates:{fleet.user_id}")
    assert len((await fleet_api.get("/apiv1/devices?group=pilots", limited))["items"]) == 1


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ({"name": "x", "filter": {}}, "filter: expected at least one field"),
        ({"name": "x", "filter": {"group": "y"}}, "filter.group: expected no group"),
        ({"name": "x", "filter": {"tga": "y"}}, "filter.tga: expected no such field; did you mean 'tag'?"),
        ({"name": "x", "filter": {"config_version": "old"}}, "filter.config_version: expected behind"),
        ({"name": "1", "filter": {"tag": "y"}}, "name: expected"),
        ({"name": "x" * 64, "filter": {"tag": "y"}}, "name: expected"),
        ({"name": "x"}, "filter: expected a value"),
        ({"name": "x", "filter": {"tag": "y"}, "user_id": 0}, "user_id: expected"),
    ],
)
async def test_wrong_group_is_refused(fleet_api: FleetApi, body: dict[str, Any], what: str) -> None:
    refused = await fleet_api.call("POST", GROUPS, body)
    assert refused.status_code == 400
    assert refused.json()["error"]["what"].startswith(what)
    assert (await fleet_api.get(GROUPS))["items"] == []


async def test_name_is_used_once(fleet_api: FleetApi) -> None:
    await create(fleet_api, "pilots", filter={"tag": "x"})
    other = await create(fleet_api, "others", filter={"tag": "y"})
    again = await fleet_api.call("POST", GROUPS, {"name": "pilots", "filter": {"tag": "z"}})
    renamed = await fleet_api.call("PUT", f"{GROUPS}/{other['id']}", {"name": "pilots"})
    assert (again.status_code, renamed.status_code) == (409, 409)
    missing = await fleet_api.call("GET", "/apiv1/devices?group=pilot")
    assert missing.json()["error"]["what"].endswith("did you mean 'pilots'?")


async def test_tags_of_a_device_are_added_and_removed(fleet_api: FleetApi, fleet: DescribedFleet) -> None:
    device = fleet.add("kiosk")
    path = fleet_api.device_path(device) + "/tags/"
    for tag in ("pilot", "site=berlin", "pilot"):
        assert (await fleet_api.call("PUT", path + tag)).status_code == 200
    assert (await fleet_api.get(fleet_api.device_path(device)))["tags"] == ["pilot", "site=berlin"]
    assert (await fleet_api.call("DELETE", path + "pilot")).json()["data"] == {"tags": ["site=berlin"]}
    assert (await fleet_api.call("DELETE", path + "pilot")).status_code == 200
    assert (await fleet_api.call("PUT", path + "Not%20a%20tag")).status_code == 400
    assert events(fleet_api) == ["device.tagged", "device.tagged", "device.untagged"]


async def test_operators_at_once_create_one_group_of_a_name(fleet_api: FleetApi) -> None:
    bodies = [{"name": "pilots", "filter": {"tag": tag}} for tag in "abcdef"]
    answers = await asyncio.gather(*(fleet_api.call("POST", GROUPS, body) for body in bodies))
    assert sorted(answer.status_code for answer in answers) == [201] + [409] * 5
    [stored] = (await fleet_api.get(GROUPS))["items"]
    [made] = [answer.json()["data"] for answer in answers if answer.status_code == 201]
    assert stored == made
    assert events(fleet_api) == ["group.created"]


async def test_group_that_is_changed_and_deleted_at_once_is_gone(fleet_api: FleetApi) -> None:
    group = await create(fleet_api, "pilots", filter={"tag": "x"})
    path = f"{GROUPS}/{group['id']}"
    calls = [("PUT", {"filter": {"tag": "y"}}), ("DELETE", None), ("PUT", {"name": "others"}), ("DELETE", None)]
    answers = await asyncio.gather(*(fleet_api.call(method, path, body) for method, body in calls))
    statuses = [answer.status_code for answer in answers]
    assert sorted((statuses[1], statuses[3])) == [204, 404]
    assert {statuses[0], statuses[2]} <= {200, 404}
    assert (await fleet_api.call("GET", path)).status_code == 404
    found = events(fleet_api)
    assert (found.count("group.changed"), found.count("group.deleted")) == (statuses.count(200), 1)


async def test_name_and_filter_that_are_changed_at_once_are_both_changed(fleet_api: FleetApi) -> None:
    group = await create(fleet_api, "pilots", filter={"tag": "x"})
    path = f"{GROUPS}/{group['id']}"
    bodies: list[dict[str, object]] = [{"filter": {"tag": "y"}}, {"name": "others"}]
    answers = await asyncio.gather(*(fleet_api.call("PUT", path, body) for body in bodies))
    assert [answer.status_code for answer in answers] == [200, 200]
    found = await fleet_api.get(path)
    assert (found["name"], found["filter"]) == ("others", {"tag": "y"})


async def test_operators_at_once_add_a_tag_once_and_never_too_many(fleet_api: FleetApi, fleet: DescribedFleet) -> None:
    device = fleet.add("kiosk")
    path = fleet_api.device_path(device) + "/tags/"
    answers = await asyncio.gather(*(fleet_api.call("PUT", path + "pilot") for _ in range(6)))
    assert {answer.status_code for answer in answers} == {200}
    assert events(fleet_api) == ["device.tagged"]
    answers = await asyncio.gather(*(fleet_api.call("PUT", f"{path}t{number}") for number in range(TAGS_MAX + 4)))
    assert sorted(answer.status_code for answer in answers) == [200] * (TAGS_MAX - 1) + [409] * 5
    assert len((await fleet_api.get(fleet_api.device_path(device)))["tags"]) == TAGS_MAX
    mixed = [("DELETE" if number % 2 else "PUT", path + "pilot") for number in range(8)]
    answers = await asyncio.gather(*(fleet_api.call(*call) for call in mixed))
    assert {answer.status_code for answer in answers} == {200}
