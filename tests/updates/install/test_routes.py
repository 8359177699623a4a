from dataclasses import replace
from typing import Any

import pytest
from starlette.requests import Request

from restante.core.errors import BadInput
from restante.updates.install.routes import expected_version, is_known, version_etag
from restante.web.request import ApiRequest
from tests.updates.updates_fixture import DeviceFleet, FleetDevice, UpdatesApi

ITEM = {"id": "a", "type": "copy", "from": ["x"], "to": ["/y"]}


def path(device: FleetDevice) -> str:
    return f"/devices/{device.id}/install-config"


async def test_config_is_stored_shown_and_restored(api: UpdatesApi, device: FleetDevice) -> None:
    assert (await api.call("GET", path(device))).status_code == 404
    put = await api.call("PUT", path(device), {"installs": [ITEM], "change_note": "first"})
    assert (put.status_code, put.headers["etag"]) == (200, '"1"')
    data = put.json()["data"]
    assert data["installs"] == [{**ITEM, "enabled": True}]
    assert data["updated_by"] == "key:tests"
    assert (await api.call("GET", path(device))).json() == put.json()
    await api.call("PUT", path(device), {"installs": [], "after_update_script": "echo"})
    restored = await api.call("POST", path(device) + "/restore", {"version": 1})
    assert (restored.status_code, restored.headers["etag"]) == (200, '"3"')
    assert restored.json()["data"]["installs"] == data["installs"]
    assert restored.json()["data"]["after_update_script"] is None


async def test_history_is_listed_and_shown(api: UpdatesApi, device: FleetDevice) -> None:
    for note in ("one", "two", "three"):
        await api.call("PUT", path(device), {"installs": [ITEM], "change_note": note})
    page = (await api.call("GET", path(device) + "/history?limit=2")).json()["data"]
    assert [(past["version"], past["change_note"]) for past in page["items"]] == [(1, "one"), (2, "two")]
    rest = (await api.call("GET", path(device) + f"/history?after={page['next']}")).json()["data"]
    assert ([past["version"] for past in rest["items"]], rest["next"]) == ([3], None)
    past = (await api.call("GET", path(device) + "/history/2")).json()["data"]
    assert (past["change_note"], past["changed_by"]) == ("two", "key:tests")
    assert past["installs"] == [{**ITEM, "enabled": True}]
    assert (await api.call("GET", path(device) + "/history/9")).status_code == 404
    assert (await api.call("GET", path(device) + "/history?limit=0")).status_code == 400


async def test_if_match_guards_changes(api: UpdatesApi, device: FleetDevice, fleet: DeviceFleet) -> None:
    body: dict[str, Any] = {"installs": []}
    assert (await api.call("PUT", path(device), body, if_match="0")).status_code == 200
    assert (await api.call("PUT", path(device), body, if_match='"1"')).status_code == 200
    stale = await api.call("PUT", path(device), body, if_match='"1"')
    assert (stale.status_code, stale.json()["error"]["code"]) == (409, 40900)
    restore = path(device) + "/restore"
    assert (await api.call("POST", restore, {"version": 1}, if_match="1")).status_code == 409
    assert (await api.call("POST", restore, {"version": 1}, if_match="2")).status_code == 200
    assert (await api.call("PUT", path(device), body, if_match="x")).status_code == 400
    assert len(fleet.signals(device)) == 3


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
    api: UpdatesApi, device: FleetDevice, fleet: DeviceFleet, body: dict[str, Any], field: str
) -> None:
    response = await api.call("PUT", path(device), body)
    assert response.status_code == 400
    assert response.json()["error"]["code"] == 5000
    assert response.json()["error"]["what"].startswith(f"{field}: ")
    assert fleet.signals(device) == []


@pytest.mark.parametrize("version", [0, "1", 2**63])
async def test_invalid_version_to_restore_is_refused(api: UpdatesApi, device: FleetDevice, version: Any) -> None:
    response = await api.call("POST", path(device) + "/restore", {"version": version})
    assert response.status_code == 400


async def test_foreign_missing_and_revoked_devices_are_refused(api: UpdatesApi, fleet: DeviceFleet) -> None:
    foreign, revoked = fleet.add_device(fleet.other_id), fleet.add_device()
    fleet.revoke_device(revoked)
    responses = [
        await api.call(method, path(device), body)
        for device in (foreign, replace(foreign, id=999))
        for method, body in (("GET", None), ("PUT", {"installs": []}))
    ]
    assert {response.status_code for response in responses} == {404}
    assert len({response.text for response in responses}) == 1
    assert (await api.call("PUT", path(revoked), {"installs": []})).status_code == 409
    assert (await api.call("GET", "/devices/x/install-config")).status_code == 400


def request_with(*headers: tuple[str, str]) -> ApiRequest:
    raw = [(name.encode(), value.encode()) for name, value in headers]
    return ApiRequest(Request({"type": "http", "headers": raw}), None)


def test_version_etag_is_quoted() -> None:
    assert version_etag(7) == (b"etag", b'"7"')


@pytest.mark.parametrize("tag", ["7", '"7"', 'W/"7"', ' "7" ', '"6", "7"', "*"])
def test_if_none_match_with_the_version_means_known(tag: str) -> None:
    assert is_known(request_with(("if-none-match", tag)), 7)


@pytest.mark.parametrize("tag", ["6", '"77"', "", '"', "x", '""'])
def test_if_none_match_with_other_tags_means_unknown(tag: str) -> None:
    assert not is_known(request_with(("if-none-match", tag)), 7)


def test_missing_headers_mean_unknown_and_any_version() -> None:
    assert not is_known(request_with(), 7)
    assert expected_version(request_with()) is None


@pytest.mark.parametrize("tag", ["7", '"7"', 'W/"7"'])
def test_if_match_names_the_expected_version(tag: str) -> None:
    assert expected_version(request_with(("if-match", tag))) == 7


@pytest.mark.parametrize("tag", ["", "x", "*", "-1", '"7", "8"', "9223372036854775808"])
def test_if_match_without_a_version_is_refused(tag: str) -> None:
    with pytest.raises(BadInput, match=r"^If-Match: "):
        expected_version(request_with(("if-match", tag)))


def test_two_if_match_headers_are_refused() -> None:
    with pytest.raises(BadInput, match=r"^If-Match: "):
        expected_version(request_with(("if-match", "7"), ("if-match", "8")))
