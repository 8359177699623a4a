from typing import Any

import pytest

from restante.commands.lifecycle.ordering import PRIORITY_MAX
from restante.identity.callers import Role
from tests.commands.reporting_fixture import ReportingClient, ReportingFleet


def rule_body(fleet: ReportingFleet, **changed: Any) -> dict[str, Any]:
    defaults = {
        "name": "too hot",
        "site_id": fleet.site_id,
        "trigger_type": "threshold",
        "trigger_metric": "temp_max",
        "trigger_operator": ">=",
        "trigger_value": 90,
        "trigger_duration_seconds": 60,
        "action_type": "set_fan",
        "action_parameters": {"speed": 100},
    }
    return {**defaults, **changed}


async def test_rule_is_created_changed_and_deleted(client: ReportingClient, fleet: ReportingFleet) -> None:
    created = await client.admin("POST", "/rules", rule_body(fleet))
    assert created.status_code == 201
    rule = created.json()
    assert (rule["action_type"], rule["cooldown_seconds"], rule["enabled"]) == ("SET_FAN", 1800, True)
    assert rule["created_by"] == "key:operator"
    path = f"/rules/{rule['id']}"
    assert (await client.admin("GET", path, role=Role.viewer)).json() == rule
    assert (await client.admin("GET", "/rules", role=Role.viewer)).json() == {"items": [rule], "next": None}
    replaced = await client.admin("PUT", path, rule_body(fleet, trigger_value=95.5))
    assert (replaced.status_code, replaced.json()["trigger_value"]) == (200, 95.5)
    changed = await client.admin("PATCH", path, {"cooldown_seconds": 60})
    assert (changed.json()["cooldown_seconds"], changed.json()["trigger_value"]) == (60, 95.5)
    assert (await client.admin("POST", f"{path}/disable")).json()["enabled"] is False
    assert (await client.admin("POST", f"{path}/enable")).json()["enabled"] is True
    assert (await client.admin("GET", f"{path}/states", role=Role.viewer)).json() == {"items": [], "next": None}
    assert (await client.admin("DELETE", path)).status_code == 204
    assert (await client.admin("GET", path)).status_code == 404


async def test_unknown_rule_is_not_found(client: ReportingClient, fleet: ReportingFleet) -> None:
    for method, path, body in (
        ("GET", "/rules/999", None),
        ("PUT", "/rules/999", rule_body(fleet)),
        ("PATCH", "/rules/999", {}),
        ("DELETE", "/rules/999", None),
        ("POST", "/rules/999/enable", None),
        ("POST", "/rules/999/disable", None),
        ("GET", "/rules/999/states", None),
    ):
        response = await client.admin(method, path, body)
        assert (response.status_code, response.json()["error"]) == (404, "NOT_FOUND")


async def test_viewer_cannot_change_rules(client: ReportingClient, fleet: ReportingFleet) -> None:
    rule_id = (await client.admin("POST", "/rules", rule_body(fleet))).json()["id"]
    for method, path, body in (
        ("POST", "/rules", rule_body(fleet)),
        ("PUT", f"/rules/{rule_id}", rule_body(fleet)),
        ("PATCH", f"/rules/{rule_id}", {"priority": 1}),
        ("DELETE", f"/rules/{rule_id}", None),
        ("POST", f"/rules/{rule_id}/enable", None),
        ("POST", f"/rules/{rule_id}/disable", None),
    ):
        response = await client.admin(method, path, body, role=Role.viewer)
        assert (response.status_code, response.json()["error"]) == (403, "FORBIDDEN")


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
async def test_invalid_rule_names_its_field(
    client: ReportingClient, fleet: ReportingFleet, changed: dict[str, Any], field: str
) -> None:
    response = await client.admin("POST", "/rules", rule_body(fleet, **changed))
    assert response.status_code == 400
    assert (response.json()["error"], response.json()["field"]) == ("INVALID_REQUEST", field)
    assert (await client.admin("GET", "/rules")).json()["items"] == []


async def test_change_is_checked_as_the_whole_rule(client: ReportingClient, fleet: ReportingFleet) -> None:
    rule = (await client.admin("POST", "/rules", rule_body(fleet))).json()
    for change, field in (
        ({"trigger_value": None}, "trigger_value"),
        ({"trigger_type": "offline"}, "trigger_metric"),
        ({"site_id": fleet.other_id}, "site_id"),
        ({"action_type": "POWER_MODE"}, "action_parameters.mode"),
    ):
        response = await client.admin("PATCH", f"/rules/{rule['id']}", change)
        assert (response.status_code, response.json()["field"]) == (400, field)
    assert (await client.admin("GET", f"/rules/{rule['id']}")).json() == rule


async def test_rules_are_listed_with_filters_in_pages(client: ReportingClient, fleet: ReportingFleet) -> None:
    for changed in ({}, {"enabled": False}, {"site_id": fleet.other_id}):
        await client.admin("POST", "/rules", rule_body(fleet, **changed))

    async def ids(query: str) -> list[int]:
        return [rule["id"] for rule in (await client.admin("GET", f"/rules?{query}")).json()["items"]]

    assert await ids(f"site_id={fleet.site_id}") == [1, 2]
    assert await ids("enabled=true") == [1, 3]
    assert await ids(f"enabled=false&site_id={fleet.site_id}") == [2]
    assert await ids("limit=1&after=1") == [2]
    for wrong in ("enabled=yes", "site_id=0", "limit=0"):
        assert (await client.admin("GET", f"/rules?{wrong}")).status_code == 400


async def test_offline_rule_needs_a_duration(client: ReportingClient, fleet: ReportingFleet) -> None:
    offline = {
        "name": "gone",
        "site_id": fleet.site_id,
        "trigger_type": "offline",
        "trigger_duration_seconds": 300,
        "action_type": "DEVICE_REBOOT",
    }
    response = await client.admin("POST", "/rules", offline)
    assert (response.status_code, response.json()["trigger_metric"]) == (201, None)
    refused = await client.admin("POST", "/rules", {**offline, "trigger_duration_seconds": 0})
    assert (refused.status_code, refused.json()["field"]) == (400, "trigger_duration_seconds")


async def test_reported_telemetry_creates_a_command(client: ReportingClient, fleet: ReportingFleet) -> None:
    rule = (await client.admin("POST", "/rules", rule_body(fleet))).json()
    hot = [
        {"miner_id": fleet.miner_ids[0], "ts": ts, "temp_max": 95}
        for ts in ("2027-01-15T07:59:00Z", "2027-01-15T08:00:00Z")
    ]
    assert (await client.report("/telemetry/batch", hot)).json()["processed"] == 2
    assert fleet.commands() == ["SET_FAN"]
    [state] = (await client.admin("GET", f"/rules/{rule['id']}/states")).json()["items"]
    assert (state["miner_id"], state["last_outcome"]) == (fleet.miner_ids[0], "created")
