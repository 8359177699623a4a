from typing import Any

import pytest

from restante.database.database import Database
from tests.commands.operators import Office, World, error_of, field_of, open_office
from tests.conftest import ManualClock


@pytest.fixture
async def office(database: Database, clock: ManualClock) -> Office:
    return await open_office(World(database, clock))


async def test_a_site_with_a_zone_and_a_miner(office: Office) -> None:
    site = (await office.call("POST", "/sites", {"name": "West"})).json()
    zone = (await office.call("POST", "/zones", {"site_id": site["id"], "name": "hall"})).json()
    miner = await office.call(
        "POST", "/miners", {"id": 1001, "site_id": site["id"], "zone_id": zone["id"], "name": "S19"}
    )
    assert (miner.status_code, miner.json()["id"], miner.json()["zone_id"]) == (201, 1001, zone["id"])
    assert (await office.call("GET", f"/sites/{site['id']}")).json() == site
    for path, items in (
        (f"/zones?site_id={site['id']}", [site["default_zone_id"], zone["id"]]),
        (f"/miners?site_id={site['id']}", [1001]),
        (f"/miners?zone_id={site['default_zone_id']}", []),
    ):
        listed = (await office.call("GET", path)).json()
        assert ([item["id"] for item in listed["items"]], listed["next"]) == (items, None)
    assert len((await office.call("GET", "/sites")).json()["items"]) == 3


async def test_pages(office: Office) -> None:
    first = (await office.call("GET", "/miners?limit=3")).json()
    rest = (await office.call("GET", f"/miners?limit=3&after={first['next']}")).json()
    assert (len(first["items"]), len(rest["items"]), rest["next"]) == (3, 1, None)


async def test_names_and_ids_that_are_taken(office: Office) -> None:
    site_id, miner_id = office.world.site_id, office.world.miner
    for path, body in (
        ("/sites", {"name": "North"}),
        ("/zones", {"site_id": site_id, "name": "east"}),
        ("/miners", {"id": miner_id, "site_id": site_id, "name": "m"}),
    ):
        assert error_of(await office.call("POST", path, body)) == (409, "CONFLICT")


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
async def test_what_is_wrong_is_named(office: Office, path: str, body: Any, field: str) -> None:
    assert field_of(await office.call("POST", path, body)) == field


async def test_there_must_be_such_a_site(office: Office) -> None:
    assert error_of(await office.call("GET", "/sites/99")) == (404, "NOT_FOUND")
    assert error_of(await office.call("GET", f"/sites/{2**70}")) == (404, "NOT_FOUND")
    assert field_of(await office.call("GET", "/sites/x")) == "site_id"
