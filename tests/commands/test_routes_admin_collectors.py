from typing import Any

import pytest

from restante.commands import collectors
from restante.database.database import Database
from restante.identity import collector_tokens
from tests.commands.operators import OVERLAP_SECONDS, Office, World, error_of, field_of, open_office
from tests.conftest import START_MS, ManualClock


@pytest.fixture
async def office(database: Database, clock: ManualClock) -> Office:
    return await open_office(World(database, clock))


async def add(office: Office, **changed: Any) -> dict[str, Any]:
    body = {"site_id": office.world.site_id, "device_name": "roof", **changed}
    answer = await office.call("POST", "/devices", body)
    assert answer.status_code == 201
    made: dict[str, Any] = answer.json()
    return made


def caller(office: Office, token: str) -> Any:
    return office.world.database.read_now(collector_tokens.find, token)


def secrets_valid(office: Office, device_id: int) -> list[str]:
    sealed = office.world.database.read_now(collectors.sealed_secrets, device_id)
    return office.world.box.valid(sealed, office.world.clock.now_ms)


async def test_token_and_secret_are_shown_once(office: Office) -> None:
    made = await add(office, zone_id=office.world.east)
    assert caller(office, made["token"])[:3] == (made["id"], office.world.site_id, office.world.east)
    assert len(bytes.fromhex(made["hmac_secret"])) == 32
    shown = await office.call("GET", f"/devices/{made['id']}")
    assert shown.json()["status"] == "active"
    listed = await office.call("GET", f"/devices?site_id={office.world.site_id}")
    assert listed.json()["items"] == [shown.json()]
    for answer in (shown, listed):
        assert made["token"] not in answer.text
        assert made["hmac_secret"] not in answer.text
    assert (await office.call("GET", "/devices?site_id=2")).json() == {"items": [], "next": None}


async def test_rotate_both(office: Office) -> None:
    made = await add(office)
    answer = await office.call("POST", f"/devices/{made['id']}/rotate", content=b"")
    rotated = answer.json()
    assert caller(office, made["token"]) is None
    assert caller(office, rotated["token"])[0] == made["id"]
    assert secrets_valid(office, made["id"]) == [rotated["hmac_secret"], made["hmac_secret"]]
    assert rotated["old_secret_until"] == "2027-01-15T09:00:00Z"
    office.world.clock.now_ms = START_MS + OVERLAP_SECONDS * 1000
    assert secrets_valid(office, made["id"]) == [rotated["hmac_secret"]]


async def test_rotate_one_of_them(office: Office) -> None:
    made = await add(office)
    path = f"/devices/{made['id']}/rotate"
    secret = (await office.call("POST", path, {"what": "hmac_secret", "overlap_sec": 0})).json()
    assert secret["token"] is None
    assert caller(office, made["token"]) is not None
    assert secrets_valid(office, made["id"]) == [secret["hmac_secret"]]
    token = (await office.call("POST", path, {"what": "token"})).json()
    assert token["hmac_secret"] is None
    assert caller(office, made["token"]) is None
    assert secrets_valid(office, made["id"]) == [secret["hmac_secret"]]


@pytest.mark.parametrize(("method", "path"), [("POST", "/revoke"), ("DELETE", "")])
async def test_revoke_is_for_good(office: Office, method: str, path: str) -> None:
    made = await add(office)
    for _ in range(2):
        answer = await office.call(method, f"/devices/{made['id']}{path}")
        assert (answer.status_code, answer.json()["status"]) == (200, "revoked")
    assert caller(office, made["token"]) is None
    refused = await office.call("POST", f"/devices/{made['id']}/rotate", {})
    assert error_of(refused) == (409, "CONFLICT")


async def test_every_showing_of_a_secret_is_recorded(office: Office) -> None:
    made = await add(office)
    await office.call("POST", f"/devices/{made['id']}/rotate", {})
    await office.call("POST", f"/devices/{made['id']}/revoke")
    listed = (await office.call("GET", "/audit?actor=key:admin")).json()["items"]
    events = [row["event"] for row in listed]
    assert events == [
        *("collector.revoked", "collector.secret_rotated", "collector.token_rotated", "collector.created"),
    ]
    everything = str(office.world.query("SELECT * FROM command_audit")) + str(listed)
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
async def test_what_is_wrong_is_named(office: Office, changed: dict[str, Any], field: str) -> None:
    body = {"site_id": 1, "device_name": "roof", **changed}
    assert field_of(await office.call("POST", "/devices", body)) == field


async def test_a_name_is_there_once_in_a_site(office: Office) -> None:
    await add(office)
    body = {"site_id": office.world.site_id, "device_name": "roof"}
    assert error_of(await office.call("POST", "/devices", body)) == (409, "CONFLICT")
    await add(office, site_id=office.world.other_site)


@pytest.mark.parametrize("body", [{"what": "all"}, {"overlap_sec": -1}, {"overlap_sec": 30 * 86_400 + 1}])
async def test_a_rotation_is_checked(office: Office, body: dict[str, Any]) -> None:
    made = await add(office)
    assert field_of(await office.call("POST", f"/devices/{made['id']}/rotate", body)) == next(iter(body))
    assert caller(office, made["token"]) is not None


@pytest.mark.parametrize(("method", "path"), [("GET", ""), ("POST", "/rotate"), ("POST", "/revoke"), ("DELETE", "")])
async def test_there_must_be_such_a_collector(office: Office, method: str, path: str) -> None:
    assert error_of(await office.call(method, f"/devices/99{path}")) == (404, "NOT_FOUND")
    assert field_of(await office.call(method, f"/devices/x{path}")) == "device_id"
