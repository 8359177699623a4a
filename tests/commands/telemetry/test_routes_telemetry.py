import gzip
from typing import Any

import msgspec
import pytest

from restante.commands.telemetry.routes_telemetry import UNPACKED_BYTES_MAX
from restante.commands.telemetry.telemetry_records import RECORDS_MAX
from restante.identity.callers import Role
from tests.commands.reporting_fixture import (
    BODY_BYTES_MAX,
    HISTORY_RECORDS,
    ReportingClient,
    ReportingFleet,
    iso_at,
)

JSON = {"content-type": "application/json"}
PACKED = {**JSON, "content-encoding": "gzip"}
PATH = "/telemetry/batch"


def record(fleet: ReportingFleet, seconds: float = 0, **changed: Any) -> dict[str, Any]:
    return {"miner_id": fleet.miner_ids[0], "ts": iso_at(seconds), "temp_max": 70, **changed}


@pytest.mark.parametrize("path", ["/telemetry/batch", "/telemetry/ingest"])
async def test_records_are_stored(client: ReportingClient, fleet: ReportingFleet, path: str) -> None:
    response = await client.report(path, [record(fleet), record(fleet, 1)])
    assert response.status_code == 200
    assert response.json() == {"success": True, "processed": 2, "failed": 0, "received_at": iso_at(0)}
    shown = (await client.admin("GET", f"/telemetry/{fleet.miner_ids[0]}")).json()
    assert shown["latest"]["record"] == record(fleet, 1)


async def test_envelope_is_accepted(client: ReportingClient, fleet: ReportingFleet) -> None:
    envelope = {
        "schema": "telemetry_envelope.v1",
        "site_id": fleet.site_id,
        "zone_id": 1,
        "device_id": fleet.collector.device_id,
        "sent_at": iso_at(1),
        "record_count": 1,
        "records": [record(fleet)],
    }
    assert (await client.report(PATH, envelope)).json()["processed"] == 1


async def test_gzip_body_is_accepted(client: ReportingClient, fleet: ReportingFleet) -> None:
    body = gzip.compress(msgspec.json.encode([record(fleet)]))
    response = await client.report(PATH, content=body, headers=PACKED)
    assert (response.status_code, response.json()["processed"]) == (200, 1)


async def test_valid_records_are_stored_beside_invalid_ones(client: ReportingClient, fleet: ReportingFleet) -> None:
    sent = [record(fleet), 7, record(fleet, miner_id=fleet.foreign_miner), record(fleet, ts="noon"), record(fleet, 1)]
    response = await client.report(PATH, sent)
    assert response.status_code == 200
    body = response.json()
    assert (body["success"], body["processed"], body["failed"]) == (True, 2, 3)
    assert [error["index"] for error in body["errors"]] == [1, 2, 3]
    assert body["errors"][1]["error"] == "miner_id: expected the id of a miner of the site"


async def test_batch_without_a_valid_record_is_no_success(client: ReportingClient) -> None:
    body = (await client.report(PATH, [1])).json()
    assert (body["success"], body["processed"], body["failed"]) == (False, 0, 1)
    assert (await client.report(PATH, [])).json() == {
        "success": True,
        "processed": 0,
        "failed": 0,
        "received_at": iso_at(0),
    }


@pytest.mark.parametrize(
    ("content", "headers", "status", "code"),
    [
        (b"{", JSON, 400, "INVALID_REQUEST"),
        (b"", JSON, 400, "INVALID_REQUEST"),
        (b"{}", JSON, 400, "INVALID_REQUEST"),
        (b'{"site_id": 999, "records": []}', JSON, 403, "ACCESS_DENIED"),
        (b"[]", {"content-type": "text/plain"}, 415, "UNSUPPORTED_MEDIA_TYPE"),
        (b"[]", {**JSON, "content-encoding": "br"}, 415, "UNSUPPORTED_MEDIA_TYPE"),
        (b"[]", PACKED, 400, "INVALID_REQUEST"),
        (b" " * (BODY_BYTES_MAX + 1), JSON, 413, "PAYLOAD_TOO_LARGE"),
        (gzip.compress(b" " * (UNPACKED_BYTES_MAX + 1)), PACKED, 413, "PAYLOAD_TOO_LARGE"),
        (b"[" + b"1," * RECORDS_MAX + b"1]", JSON, 413, "PAYLOAD_TOO_LARGE"),
    ],
)
async def test_invalid_request_is_refused(
    client: ReportingClient, content: bytes, headers: dict[str, str], status: int, code: str
) -> None:
    response = await client.report(PATH, content=content, headers=headers)
    assert (response.status_code, response.json()["error"]) == (status, code)


async def test_unknown_token_is_refused(client: ReportingClient, fleet: ReportingFleet) -> None:
    response = await client.report(PATH, [record(fleet)], token="ed_unknown")
    assert response.status_code == 401
    assert fleet.rows("SELECT * FROM telemetry_latest") == []


async def test_collector_token_is_refused_on_operator_routes(client: ReportingClient, fleet: ReportingFleet) -> None:
    response = await client.report("/admin/rules", {}, token=fleet.token)
    assert response.status_code == 401


async def test_newest_records_of_a_site_are_listed_in_pages(client: ReportingClient, fleet: ReportingFleet) -> None:
    await client.report(PATH, [record(fleet, miner_id=miner) for miner in fleet.miner_ids])
    first = (await client.admin("GET", f"/telemetry?site_id={fleet.site_id}&limit=3", role=Role.viewer)).json()
    assert [item["miner_id"] for item in first["items"]] == fleet.miner_ids[:3]
    assert first["next"] == fleet.miner_ids[2]
    for wrong in ("", "?site_id=0", "?site_id=x", f"?site_id={fleet.site_id}&limit=501"):
        assert (await client.admin("GET", f"/telemetry{wrong}")).status_code == 400


async def test_miner_shows_newest_record_and_history(client: ReportingClient, fleet: ReportingFleet) -> None:
    await client.report(PATH, [record(fleet, n) for n in range(10)])
    miner = fleet.miner_ids[0]
    shown = (await client.admin("GET", f"/telemetry/{miner}", role=Role.viewer)).json()
    assert len(shown["history"]) == HISTORY_RECORDS
    assert shown["history"][0] == {"ts": "2027-01-15T08:00:09.000Z", "record": record(fleet, 9)}
    assert len((await client.admin("GET", f"/telemetry/{miner}?limit=2")).json()["history"]) == 2
    silent = (await client.admin("GET", f"/telemetry/{fleet.miner_ids[1]}")).json()
    assert (silent["latest"], silent["history"]) == (None, [])
    assert (await client.admin("GET", "/telemetry/999")).status_code == 404
    assert (await client.admin("GET", f"/telemetry/{miner}?limit=-1")).status_code == 400
