from typing import Any

import pytest

from restante.commands.queue import PRIORITY_MAX
from restante.database.database import Database
from restante.identity.callers import Role
from tests.commands.reporting import Site, World, open_site
from tests.conftest import ManualClock


@pytest.fixture
def world(database: Database, clock: ManualClock) -> World:
    return World(database, clock)


@pytest.fixture
async def site(world: World) -> Site:
    return await open_site(world)


def wish(world: World, **changed: Any) -> dict[str, Any]:
    usual = {
        "name": "too hot",
        "site_id": world.site_id,
        "trigger_type": "threshold",
        "trigger_metric": "temp_max",
        "trigger_operator": ">=",
        "trigger_value": 90,
        "trigger_duration_seconds": 60,
        "action_type": "set_fan",
        "action_parameters": {"speed": 100},
    }
    return {**usual, **changed}


async def test_the_life_of_a_rule(site: Site, world: World) -> None:
    made = await site.admin("POST", "/rules", wish(world))
    assert made.status_code == 201
    rule = made.json()
    assert (rule["action_type"], rule["cooldown_seconds"], rule["enabled"]) == ("SET_FAN", 1800, True)
    assert rule["created_by"] == "key:operator"
    path = f"/rules/{rule['id']}"
    assert (await site.admin("GET", path, role=Role.viewer)).json() == rule
    assert (await site.admin("GET", "/rules", role=Role.viewer)).json() == {"items": [rule], "next": None}
    replaced = await site.admin("PUT", path, wish(world, trigger_value=95.5))
    assert (replaced.status_code, replaced.json()["trigger_value"]) == (200, 95.5)
    changed = await site.admin("PATCH", path, {"cooldown_seconds": 60})
    assert (changed.json()["cooldown_seconds"], changed.json()["trigger_value"]) == (60, 95.5)
    assert (await site.admin("POST", f"{path}/disable")).json()["enabled"] is False
    assert (await site.admin("POST", f"{path}/enable")).json()["enabled"] is True
    assert (await site.admin("GET", f"{path}/states", role=Role.viewer)).json() == {"items": [], "next": None}
    assert (await site.admin("DELETE", path)).status_code == 204
    assert (await site.admin("GET", path)).status_code == 404


async def test_what_is_not_there(site: Site, world: World) -> None:
    for method, path, body in (
        ("GET", "/rules/999", None),
        ("PUT", "/rules/999", wish(world)),
        ("PATCH", "/rules/999", {}),
        ("DELETE", "/rules/999", None),
        ("POST", "/rules/999/enable", None),
        ("POST", "/rules/999/disable", None),
        ("GET", "/rules/999/states", None),
    ):
        answer = await site.admin(method, path, body)
        assert (answer.status_code, answer.json()["error"]) == (404, "NOT_FOUND")


async def test_viewers_only_look(site: Site, world: World) -> None:
    rule_id = (await site.admin("POST", "/rules", wish(world))).json()["id"]
    for method, path, body in (
        ("POST", "/rules", wish(world)),
        ("PUT", f"/rules/{rule_id}", wish(world)),
        ("PATCH", f"/rules/{rule_id}", {"priority": 1}),
        ("DELETE", f"/rules/{rule_id}", None),
        ("POST", f"/rules/{rule_id}/enable", None),
        ("POST", f"/rules/{rule_id}/disable", None),
    ):
        answer = await site.admin(method, path, body, role=Role.viewer)
        assert (answer.status_code, answer.json()["error"]) == (403, "FORBIDDEN")


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"site_id": 999}, "site_id"),
        ({"trigger_type": "weather"}, "trigger_type"),
        ({"trigger_operator": "!="}, "trigger_operator"),
        ({"trigger_metric": "temp max"}, "trigger_metric"),
        ({"trigger_metric": "x" * 65}, "trigger_metric"),
        ({"trigger_value": "90"}, "trigger_value"),
        ({"trigger_duration_seconds": -1}, "trigger_duration_seconds"),
        ({"trigger_duration_seconds": 7 * 86400 + 1}, "trigger_duration_seconds"),
        ({"cooldown_seconds": -1}, "cooldown_seconds"),
        ({"cooldown_seconds": 30 * 86400 + 1}, "cooldown_seconds"),
        ({"priority": -1}, "priority"),
        ({"priority": PRIORITY_MAX + 1}, "priority"),
        ({"miner_ids": []}, "miner_ids"),
        ({"miner_ids": [0]}, "miner_ids[0]"),
        ({"miner_ids": list(range(1, 1002))}, "miner_ids"),
        ({"enabled": 1}, "enabled"),
        ({"action_type": "explode"}, "action_type"),
        ({"action_parameters": {"speed": 100.5}}, "action_parameters"),
        ({"schedule": "daily"}, "schedule"),
    ],
)
async def test_what_is_no_rule_names_its_field(site: Site, world: World, changed: dict[str, Any], field: str) -> None:
    answer = await site.admin("POST", "/rules", wish(world, **changed))
    assert answer.status_code == 400
    assert (answer.json()["error"], answer.json()["field"]) == ("INVALID_REQUEST", field)
    assert (await site.admin("GET", "/rules")).json()["items"] == []


async def test_a_change_is_checked_as_the_whole_rule(site: Site, world: World) -> None:
    rule = (await site.admin("POST", "/rules", wish(world))).json()
    for change, field in (
        ({"trigger_value": None}, "trigger_value"),
        ({"trigger_type": "offline"}, "trigger_metric"),
        ({"site_id": world.other_id}, "site_id"),
        ({"action_type": "POWER_MODE"}, "action_parameters.mode"),
    ):
        answer = await site.admin("PATCH", f"/rules/{rule['id']}", change)
        assert (answer.status_code, answer.json()["field"]) == (400, field)
    assert (await site.admin("GET", f"/rules/{rule['id']}")).json() == rule


async def test_lists_are_filtered_and_paged(site: Site, world: World) -> None:
    for changed in ({}, {"enabled": False}, {"site_id": world.other_id}):
        await site.admin("POST", "/rules", wish(world, **changed))

    async def ids(query: str) -> list[int]:
        return [rule["id"] for rule in (await site.admin("GET", f"/rules?{query}")).json()["items"]]

    assert await ids(f"site_id={world.site_id}") == [1, 2]
    assert await ids("enabled=true") == [1, 3]
    assert await ids(f"enabled=false&site_id={world.site_id}") == [2]
    assert await ids("limit=1&after=1") == [2]
    for wrong in ("enabled=yes", "site_id=0", "limit=0"):
        assert (await site.admin("GET", f"/rules?{wrong}")).status_code == 400


async def test_an_offline_rule(site: Site, world: World) -> None:
    offline = {
        "name": "gone",
        "site_id": world.site_id,
        "trigger_type": "offline",
        "trigger_duration_seconds": 300,
        "action_type": "DEVICE_REBOOT",
    }
    answer = await site.admin("POST", "/rules", offline)
    assert (answer.status_code, answer.json()["trigger_metric"]) == (201, None)
    refused = await site.admin("POST", "/rules", {**offline, "trigger_duration_seconds": 0})
    assert (refused.status_code, refused.json()["field"]) == (400, "trigger_duration_seconds")


async def test_from_telemetry_to_command(site: Site, world: World) -> None:
    rule = (await site.admin("POST", "/rules", wish(world))).json()
    hot = [
        {"miner_id": world.miner_ids[0], "ts": ts, "temp_max": 95}
        for ts in ("2027-01-15T07:59:00Z", "2027-01-15T08:00:00Z")
    ]
    assert (await site.report("/telemetry/batch", hot)).json()["processed"] == 2
    assert world.commands() == ["SET_FAN"]
    [state] = (await site.admin("GET", f"/rules/{rule['id']}/states")).json()["items"]
    assert (state["miner_id"], state["last_outcome"]) == (world.miner_ids[0], "created")
