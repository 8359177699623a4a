from typing import Any

import pytest

from tests.commands.operator_fixture import OperatorApi, error_of, field_of


async def test_site_zone_and_miner_are_added_and_listed(api: OperatorApi) -> None:
    site = (await api.call("POST", "/sites", {"name": "West"})).json()
    zone = (await api.call("POST", "/zones", {"site_id": site["id"], "name": "hall"})).json()
    miner = await api.call("POST", "/miners", {"id": 1001, "site_id": site["id"], "zone_id": zone["id"], "name": "S19"})
    assert (miner.status_code, miner.json()["id"], miner.json()["zone_id"]) == (201, 1001, zone["id"])
    assert (await api.call("GET", f"/sites/{site['id']}")).json() == site
    for path, items in (
        (f"/zones?site_id={site['id']}", [site["default_zone_id"], zone["id"]]),
        (f"/miners?site_id={site['id']}", [1001]),
        (f"/miners?zone_id={site['default_zone_id']}", []),
    ):
        listed = (await api.call("GET", path)).json()
        assert ([item["id"] for item in listed["items"]], listed["next"]) == (items, None)
    assert len((await api.call("GET", "/sites")).json()["items"]) == 3


async def test_miners_are_listed_in_pages(api: OperatorApi) -> None:
    first = (await api.call("GET", "/miners?limit=3")).json()
    rest = (await api.call("GET", f"/miners?limit=3&after={first['next']}")).json()
    assert (len(first["items"]), len(rest["items"]), rest["next"]) == (3, 1, None)


async def test_taken_name_or_id_is_a_conflict(api: OperatorApi) -> None:
    site_id, miner_id = api.fleet.site_id, api.fleet.miner
    for path, body in (
        ("/sites", {"name": "North"}),
        ("/zones", {"site_id": site_id, "name": "east"}),
        ("/miners", {"id": miner_id, "site_id": site_id, "name": "m"}),
    ):
        assert error_of(await api.call("POST", path, body)) == (409, "CONFLICT")


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/sites", {}, "name"),
        ("/sites", {"name": ""}, "name"),
        ("/sites", {"name": "x" * 101}, "name"),
        ("/sites", {"name": "a\nb"}, "name"),
        ("/sites", {"name": "a", "id": 1}, "id"),
        ("/zones", {"site_id": 99, "name": "a"}, "site_id"),
        ("/zones", {"name": "a"}, "site_id"),
        ("/miners", {"site_id": 99, "name": "a"}, "site_id"),
        ("/miners", {"site_id": 1, "zone_id": 99, "name": "a"}, "zone_id"),
        ("/miners", {"site_id": 1, "name": "a", "id": 0}, "id"),
        ("/miners", {"site_id": 1, "name": "a", "id": 2**53 + 1}, "id"),
        ("/miners", {"site_id": 1, "name": "a", "id": 2**64}, "id"),
    ],
)
async def test_invalid_body_names_the_field(api: OperatorApi, path: str, body: Any, field: str) -> None:
    assert field_of(await api.call("POST", path, body)) == field


async def test_unknown_site_is_not_found(api: OperatorApi) -> None:
    assert error_of(await api.call("GET", "/sites/99")) == (404, "NOT_FOUND")
    assert error_of(await api.call("GET", f"/sites/{2**70}")) == (404, "NOT_FOUND")
    assert field_of(await api.call("GET", "/sites/x")) == "site_id"
