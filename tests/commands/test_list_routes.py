"""Lists of commands, collectors and miners over HTTP: filters, counts, files; and routes that change the inventory."""

import csv
from typing import Any

import httpx
import pytest

from restante.commands.lifecycle import cancellation
from restante.core.iso_time import iso_precise
from restante.database.lists import filtered_list
from tests.commands.operator_fixture import OperatorApi, error_of, field_of

LISTS = ("/commands", "/devices", "/miners")


def lines_of(response: httpx.Response) -> list[dict[str, str]]:
    assert response.headers["content-type"] == "text/csv; charset=utf-8; header=present"
    assert response.text.startswith("\ufeff")
    return list(csv.DictReader(response.text.removeprefix("\ufeff").splitlines()))


async def listed(api: OperatorApi, path: str) -> list[Any]:
    response = await api.call("GET", path)
    assert response.status_code == 200, response.text
    items: list[Any] = response.json()["items"]
    return items


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize("part", ["", "/counts", "/export"])
async def test_unknown_filter_is_named_with_a_suggestion(api: OperatorApi, path: str, part: str) -> None:
    refused = await api.call("GET", f"{path}{part}?site_ids=1")
    assert field_of(refused) == "site_ids"
    assert "did you mean 'site_id'?" in refused.text


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("/commands?status=pendin", "status"),
        ("/commands?since=yesterday", "since"),
        ("/commands?until=1x", "until"),
        ("/commands?zone_id=x", "zone_id"),
        ("/commands/export?format=xml", "format"),
        ("/devices?status=gone", "status"),
        ("/devices?name=", "name"),
        ("/devices?seen_before=1", "seen_before"),
        ("/miners?status=x", "status"),
        ("/miners?name=", "name"),
        ("/miners?limit=501", "limit"),
    ],
)
async def test_invalid_filter_is_named(api: OperatorApi, query: str, field: str) -> None:
    assert field_of(await api.call("GET", query)) == field


async def test_commands_are_filtered_counted_and_exported(api: OperatorApi) -> None:
    fleet = api.fleet
    first = fleet.create().command_id
    fleet.clock.advance(3600)
    second = fleet.create(miner_id=fleet.east_miner, params=b'{"reason":"=1+1"}').command_id
    fleet.write(cancellation.cancel, first, "boss", None)
    now = iso_precise(fleet.clock.now_ms)
    for query, expected in (
        ("", [second, first]),
        (f"?since={now}", [second]),
        (f"?until={now}", [first]),
        (f"?zone_id={fleet.east}", [second]),
        ("?status=cancelled", [first]),
        ("?device_id=1", []),
        ("?result_code=CANCELLED", [first]),
        ("?result_code=NONE", []),
    ):
        assert [item["command_id"] for item in await listed(api, "/commands" + query)] == expected, query
    counts = (await api.call("GET", "/commands/counts")).json()
    assert counts["total"] == {"value": 2, "is_exact": True}
    assert (counts["states"]["cancelled"]["value"], counts["states"]["pending"]["value"]) == (1, 1)
    assert counts["states"]["failed"] == {"value": 0, "is_exact": True}
    exported = await api.call("GET", f"/commands/export?site_id={fleet.site_id}")
    assert exported.headers["content-disposition"] == 'attachment; filename="commands.csv"'
    assert [line["command_id"] for line in lines_of(exported)] == [second, first]
    as_json = await api.call("GET", "/commands/export?format=json&status=cancelled")
    assert as_json.json() == await listed(api, "/commands?status=cancelled")
    assert (await api.call("GET", "/commands/export?format=json&status=failed")).json() == []


async def test_export_is_read_in_pages(api: OperatorApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("restante.web.paging.EXPORT_ROWS", 2)
    monkeypatch.setattr(filtered_list, "PAGE_SCAN", 3)
    ids = [api.fleet.create().command_id for _ in range(7)]
    assert [line["command_id"] for line in lines_of(await api.call("GET", "/commands/export"))] == ids[::-1]
    assert [each["command_id"] for each in (await api.call("GET", "/commands/export?format=json")).json()] == ids[::-1]


async def test_collectors_are_filtered_counted_and_exported(api: OperatorApi) -> None:
    fleet = api.fleet
    whole, east = fleet.add_collector("=whole").id, fleet.add_collector("east", fleet.east).id
    await api.call("POST", f"/devices/{east}/revoke")
    for query, expected in (
        ("", [whole, east]),
        ("?status=revoked", [east]),
        ("?status=active", [whole]),
        (f"?zone_id={fleet.east}", [east]),
        ("?name=ea", [east]),
        ("?name=a", []),
        ("?seen_before=1h", [whole, east]),
        ("?seen_after=1h", []),
        (f"?site_id={fleet.other_site}", []),
    ):
        assert [item["id"] for item in await listed(api, "/devices" + query)] == expected, query
    counts = (await api.call("GET", "/devices/counts")).json()
    assert {name: count["value"] for name, count in counts["states"].items()} == {"active": 1, "revoked": 1}
    lines = lines_of(await api.call("GET", "/devices/export"))
    assert [(line["id"], line["device_name"]) for line in lines] == [(str(whole), "'=whole"), (str(east), "east")]


async def test_miners_are_filtered_counted_and_exported(api: OperatorApi) -> None:
    fleet = api.fleet
    renamed = await api.call("PATCH", f"/miners/{fleet.miner}", {"name": "S21"})
    assert (renamed.status_code, renamed.json()["name"]) == (200, "S21")
    replaced = await api.call("POST", f"/miners/{fleet.second_miner}/replace", {"name": "S22", "id": 9001})
    assert (replaced.status_code, replaced.json()["id"]) == (201, 9001)
    assert (await api.call("GET", f"/miners/{fleet.second_miner}")).json()["replaced_by"] == 9001
    for query, expected in (
        ("?name=S2", [fleet.miner, 9001]),
        ("?status=retired", [fleet.second_miner]),
        (f"?zone_id={fleet.east}&status=active", [fleet.east_miner]),
        (f"?zone_id={fleet.east}&site_id={fleet.other_site}", []),
    ):
        assert [item["id"] for item in await listed(api, "/miners" + query)] == expected, query
    counts = (await api.call("GET", f"/miners/counts?site_id={fleet.site_id}")).json()
    assert {name: count["value"] for name, count in counts["states"].items()} == {"active": 3, "retired": 1}
    assert [line["name"] for line in lines_of(await api.call("GET", "/miners/export?name=S"))] == ["S21", "S22"]


async def test_inventory_is_changed_over_http(api: OperatorApi) -> None:
    fleet = api.fleet
    assert (await api.call("PATCH", f"/sites/{fleet.site_id}", {"name": "N2"})).json()["name"] == "N2"
    assert (await api.call("PATCH", f"/zones/{fleet.east}", {"name": "E2"})).json()["name"] == "E2"
    moved = await api.call("PATCH", f"/miners/{fleet.miner}", {"site_id": str(fleet.other_site)})
    assert moved.json()["site_id"] == fleet.other_site
    assert error_of(await api.call("POST", f"/sites/{fleet.site_id}/retire")) == (409, "CONFLICT")
    assert error_of(await api.call("POST", f"/zones/{fleet.east}/retire")) == (409, "CONFLICT")
    assert (await api.call("POST", f"/miners/{fleet.east_miner}/retire")).json()["status"] == "retired"
    assert (await api.call("POST", f"/zones/{fleet.east}/retire")).json()["retired_at"] is not None
    for method, path, body in (
        ("PATCH", "/sites/99", {"name": "x"}),
        ("PATCH", "/zones/99", {"name": "x"}),
        ("PATCH", "/miners/99", {"name": "x"}),
        ("POST", "/miners/99/retire", None),
        ("POST", "/miners/99/replace", {"name": "x"}),
    ):
        assert (await api.call(method, path, body)).status_code == 404, path
    assert field_of(await api.call("PATCH", f"/miners/{fleet.miner}", {"zone": 1})) == "zone"
