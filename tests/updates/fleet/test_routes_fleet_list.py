"""The list of the fleet, its counts and its export over HTTP."""

import csv
import json

import pytest

from tests.updates.fleet.fleet_api import FleetApi
from tests.updates.fleet.fleet_fixture import DescribedFleet


async def test_list_is_filtered_and_paged(fleet_api: FleetApi, fleet: DescribedFleet) -> None:
    pilots = [fleet.add(f"d{number}", "pilot", platform="linux") for number in range(3)]
    fleet.add("other")
    first = await fleet_api.get("/apiv1/devices?tag=pilot&platform=linux&limit=2")
    assert [device["id"] for device in first["items"]] == pilots[:2]
    second = await fleet_api.get(f"/apiv1/devices?tag=pilot&platform=linux&limit=2&after={first['next']}")
    assert ([device["id"] for device in second["items"]], second["next"]) == (pilots[2:], None)
    device = first["items"][0]
    assert (device["name"], device["tags"], device["status"]) == ("d0", ["pilot"], "active")
    assert (device["config_state"], device["last_seen_at"], device["is_overdue"]) == ("none", None, False)


async def test_counts_are_of_the_filter(fleet_api: FleetApi, fleet: DescribedFleet) -> None:
    for number in range(3):
        fleet.add(f"d{number}", "pilot")
    fleet.add("other")
    counts = await fleet_api.get("/apiv1/devices/counts?tag=pilot")
    assert counts["total"] == counts["status"]["active"] == {"value": 3, "is_exact": True}
    assert counts["config"]["behind"] == counts["overdue"] == {"value": 0, "is_exact": True}


async def test_export_has_all_devices_and_no_formulas(fleet_api: FleetApi, fleet: DescribedFleet) -> None:
    names = ["=1+1", "@x", 'a "quoted", name', "plain"]
    ids = [fleet.add(name, "a", "b") for name in names]
    response = await fleet_api.call("GET", "/apiv1/devices/export?tag=a")
    assert response.headers["content-type"] == "text/csv; charset=utf-8"
    assert response.headers["content-disposition"] == 'attachment; filename="devices.csv"'
    rows = list(csv.DictReader(response.text.splitlines()))
    assert [int(row["id"]) for row in rows] == ids
    assert [row["name"] for row in rows] == ["'=1+1", "'@x", 'a "quoted", name', "plain"]
    assert {row["tags"] for row in rows} == {"a b"}
    as_json = await fleet_api.call("GET", "/apiv1/devices/export?tag=a&format=json")
    assert [device["name"] for device in json.loads(as_json.text)] == names
    empty = await fleet_api.call("GET", "/apiv1/devices/export?tag=none&format=json")
    assert json.loads(empty.text) == []


async def test_export_reads_all_pages(
    fleet_api: FleetApi, fleet: DescribedFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("restante.updates.fleet.routes_fleet_list.EXPORT_STEP", 2)
    ids = [fleet.add(f"d{number}") for number in range(5)]
    exported = json.loads((await fleet_api.call("GET", "/apiv1/devices/export?format=json")).text)
    assert [device["id"] for device in exported] == ids
    assert len((await fleet_api.call("GET", "/apiv1/devices/export")).text.splitlines()) == 6


@pytest.mark.parametrize("path", ["/apiv1/devices", "/apiv1/devices/counts", "/apiv1/devices/export"])
@pytest.mark.parametrize(
    ("query", "what"),
    [
        ("plattform=x", "did you mean 'platform'"),
        ("overdue=yes", "overdue: expected"),
        ("group=nobody", "group: expected the name or the id of a group"),
        ("seen_before=soon", "seen_before: expected a time"),
    ],
)
async def test_wrong_filter_is_refused(fleet_api: FleetApi, path: str, query: str, what: str) -> None:
    refused = await fleet_api.call("GET", f"{path}?{query}")
    assert refused.status_code == 400
    assert what in refused.json()["error"]["what"]


async def test_limited_caller_sees_its_users_only(fleet_api: FleetApi, fleet: DescribedFleet) -> None:
    own, foreign = fleet.add("own"), fleet.add("foreign", user_id=fleet.other_id)
    limited = fleet_api.key(f"viewer@updates:{fleet.user_id}")
    of_user = fleet_api.key("viewer", user_id=fleet.other_id)
    assert [each["id"] for each in (await fleet_api.get("/apiv1/devices", limited))["items"]] == [own]
    assert [each["id"] for each in (await fleet_api.get("/apiv1/devices", of_user))["items"]] == [foreign]
    assert (await fleet_api.get(f"/apiv1/devices?user_id={fleet.other_id}", limited))["items"] == []
    exported = await fleet_api.call("GET", "/apiv1/devices/export?format=json", headers=limited)
    assert [device["id"] for device in exported.json()] == [own]
