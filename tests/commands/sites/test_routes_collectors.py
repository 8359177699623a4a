from typing import Any

import pytest

from restante.commands.sites import collectors
from restante.identity.clients import collector_tokens
from tests.commands.operator_fixture import (
    OVERLAP_SECONDS,
    OperatorApi,
    error_of,
    field_of,
)
from tests.conftest import START_MS


async def add(api: OperatorApi, **changed: Any) -> dict[str, Any]:
    body = {"site_id": api.fleet.site_id, "device_name": "roof", **changed}
    response = await api.call("POST", "/devices", body)
    assert response.status_code == 201
    new: dict[str, Any] = response.json()
    return new


def caller_of(api: OperatorApi, token: str) -> Any:
    return api.fleet.database.read_now(collector_tokens.find, token)


def valid_secrets_of(api: OperatorApi, device_id: int) -> list[str]:
    sealed = api.fleet.database.read_now(collectors.sealed_secrets, device_id)
    return api.fleet.box.valid_secrets(sealed, api.fleet.clock.now_ms)


async def test_token_and_secret_are_shown_once(api: OperatorApi) -> None:
    made = await add(api, zone_id=api.fleet.east)
    assert caller_of(api, made["token"])[:3] == (made["id"], api.fleet.site_id, api.fleet.east)
    assert len(bytes.fromhex(made["hmac_secret"])) == 32
    shown = await api.call("GET", f"/devices/{made['id']}")
    assert shown.json()["status"] == "active"
    listed = await api.call("GET", f"/devices?site_id={api.fleet.site_id}")
    assert listed.json()["items"] == [shown.json()]
    for response in (shown, listed):
        assert made["token"] not in response.text
        assert made["hmac_secret"] not in response.text
    assert (await api.call("GET", "/devices?site_id=2")).json() == {"items": [], "next": None}


async def test_rotation_replaces_token_at_once_and_keeps_old_secret_for_the_overlap(api: OperatorApi) -> None:
    made = await add(api)
    response = await api.call("POST", f"/devices/{made['id']}/rotate", content=b"")
    rotated = response.json()
    assert caller_of(api, made["token"]) is None
    assert caller_of(api, rotated["token"])[0] == made["id"]
    assert valid_secrets_of(api, made["id"]) == [rotated["hmac_secret"], made["hmac_secret"]]
    assert rotated["old_secret_until"] == "2027-01-15T09:00:00.000Z"
    api.fleet.clock.now_ms = START_MS + OVERLAP_SECONDS * 1000
    assert valid_secrets_of(api, made["id"]) == [rotated["hmac_secret"]]


async def test_rotation_of_token_or_secret_leaves_the_other(api: OperatorApi) -> None:
    made = await add(api)
    path = f"/devices/{made['id']}/rotate"
    secret = (await api.call("POST", path, {"what": "hmac_secret", "overlap_sec": 0})).json()
    assert secret["token"] is None
    assert caller_of(api, made["token"]) is not None
    assert valid_secrets_of(api, made["id"]) == [secret["hmac_secret"]]
    token = (await api.call("POST", path, {"what": "token"})).json()
    assert token["hmac_secret"] is None
    assert caller_of(api, made["token"]) is None
    assert valid_secrets_of(api, made["id"]) == [secret["hmac_secret"]]


@pytest.mark.parametrize(("method", "path"), [("POST", "/revoke"), ("DELETE", "")])
async def test_revoked_collector_stays_revoked_and_cannot_rotate(api: OperatorApi, method: str, path: str) -> None:
    made = await add(api)
    for _ in range(2):
        response = await api.call(method, f"/devices/{made['id']}{path}")
        assert (response.status_code, response.json()["status"]) == (200, "revoked")
    assert caller_of(api, made["token"]) is None
    refused = await api.call("POST", f"/devices/{made['id']}/rotate", {})
    assert error_of(refused) == (409, "CONFLICT")


async def test_every_shown_secret_is_audited_without_its_value(api: OperatorApi) -> None:
    made = await add(api)
    await api.call("POST", f"/devices/{made['id']}/rotate", {})
    await api.call("POST", f"/devices/{made['id']}/revoke")
    listed = (await api.call("GET", "/audit?actor=key:admin")).json()["items"]
    events = [row["event"] for row in listed]
    assert events == [
        *("collector.revoked", "collector.secret_rotated", "collector.token_rotated", "collector.created"),
    ]
    everything = str(api.fleet.query("SELECT * FROM command_audit")) + str(listed)
    assert made["token"] not in everything
    assert made["hmac_secret"] not in everything


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"site_id": 99}, "site_id"),
        ({"zone_id": 99}, "zone_id"),
        ({"device_name": ""}, "device_name"),
        ({"device_name": " a"}, "device_name"),
        ({"token": "x"}, "token"),
    ],
)
async def test_invalid_body_names_the_field(api: OperatorApi, changed: dict[str, Any], field: str) -> None:
    body = {"site_id": 1, "device_name": "roof", **changed}
    assert field_of(await api.call("POST", "/devices", body)) == field


async def test_device_name_is_unique_within_a_site(api: OperatorApi) -> None:
    await add(api)
    body = {"site_id": api.fleet.site_id, "device_name": "roof"}
    assert error_of(await api.call("POST", "/devices", body)) == (409, "CONFLICT")
    await add(api, site_id=api.fleet.other_site)


@pytest.mark.parametrize("body", [{"what": "all"}, {"overlap_sec": -1}, {"overlap_sec": 30 * 86_400 + 1}])
async def test_invalid_rotation_names_the_field_and_changes_nothing(api: OperatorApi, body: dict[str, Any]) -> None:
    made = await add(api)
    assert field_of(await api.call("POST", f"/devices/{made['id']}/rotate", body)) == next(iter(body))
    assert caller_of(api, made["token"]) is not None


@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("POST", "/rotate"), ("POST", "/revoke"), ("DELETE", "")])
async def test_unknown_collector_is_not_found(api: OperatorApi, method: str, path: str) -> None:
    assert error_of(await api.call(method, f"/devices/99{path}")) == (404, "NOT_FOUND")
    assert field_of(await api.call(method, f"/devices/x{path}")) == "device_id"
