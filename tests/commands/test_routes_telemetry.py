import gzip
from typing import Any

import msgspec
import pytest

from restante.commands.routes_telemetry import UNPACKED_BYTES_MAX
from restante.commands.telemetry_records import RECORDS_MAX
from restante.database.database import Database
from restante.identity.callers import Role
from tests.commands.reporting import BODY_BYTES_MAX, KEEP, Site, World, iso_at, open_site
from tests.conftest import ManualClock

JSON = {"content-type": "application/json"}
PACKED = {**JSON, "content-encoding": "gzip"}
PATH = "/telemetry/batch"


@pytest.fixture
def world(database: Database, clock: ManualClock) -> World:
    return World(database, clock)


@pytest.fixture
async def site(world: World) -> Site:
    return await open_site(world)


def record(world: World, seconds: float = 0, **changed: Any) -> dict[str, Any]:
    return {"miner_id": world.miner_ids[0], "ts": iso_at(seconds), "temp_max": 70, **changed}


@pytest.mark.parametrize("path", ["/telemetry/batch", "/telemetry/ingest"])
async def test_records_are_taken(site: Site, world: World, path: str) -> None:
    answer = await site.report(path, [record(world), record(world, 1)])
    assert answer.status_code == 200
    assert answer.json() == {"success": True, "processed": 2, "failed": 0, "received_at": iso_at(0)}
    told = (await site.admin("GET", f"/telemetry/{world.miner_ids[0]}")).json()
    assert told["latest"]["record"] == record(world, 1)


async def test_an_envelope_is_taken(site: Site, world: World) -> None:
    envelope = {
        "schema": "telemetry_envelope.v1",
        "site_id": world.site_id,
        "zone_id": 1,
        "device_id": world.collector.device_id,
        "sent_at": iso_at(1),
        "record_count": 1,
        "records": [record(world)],
    }
    assert (await site.report(PATH, envelope)).json()["processed"] == 1


async def test_gzip_is_taken(site: Site, world: World) -> None:
    body = gzip.compress(msgspec.json.encode([record(world)]))
    answer = await site.report(PATH, content=body, headers=PACKED)
    assert (answer.status_code, answer.json()["processed"]) == (200, 1)


async def test_good_records_are_kept_when_others_are_bad(site: Site, world: World) -> None:
    sent = [record(world), 7, record(world, miner_id=world.foreign_miner), record(world, ts="noon"), record(world, 1)]
    answer = await site.report(PATH, sent)
    assert answer.status_code == 200
    body = answer.json()
    assert (body["success"], body["processed"], body["failed"]) == (True, 2, 3)
    assert [error["index"] for error in body["errors"]] == [1, 2, 3]
    assert body["errors"][1]["error"] == "miner_id: expected the id of a miner of the site"


async def test_nothing_good_is_no_success(site: Site) -> None:
    body = (await site.report(PATH, [1])).json()
    assert (body["success"], body["processed"], body["failed"]) == (False, 0, 1)
    assert (await site.report(PATH, [])).json() == {
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
async def test_refusals(site: Site, content: bytes, headers: dict[str, str], status: int, code: str) -> None:
    answer = await site.report(PATH, content=content, headers=headers)
    assert (answer.status_code, answer.json()["error"]) == (status, code)


async def test_only_collectors_report(site: Site, world: World) -> None:
    answer = await site.report(PATH, [record(world)], token="ed_unknown")
    assert answer.status_code == 401
    assert world.rows("SELECT * FROM telemetry_latest") == []


async def test_a_collector_is_no_operator(site: Site, world: World) -> None:
    answer = await site.report("/admin/rules", {}, token=world.token)
    assert answer.status_code == 401


async def test_operators_look_at_a_site(site: Site, world: World) -> None:
    await site.report(PATH, [record(world, miner_id=miner) for miner in world.miner_ids])
    first = (await site.admin("GET", f"/telemetry?site_id={world.site_id}&limit=3", role=Role.viewer)).json()
    assert [item["miner_id"] for item in first["items"]] == world.miner_ids[:3]
    assert first["next"] == world.miner_ids[2]
    for wrong in ("", "?site_id=0", "?site_id=x", f"?site_id={world.site_id}&limit=501"):
        assert (await site.admin("GET", f"/telemetry{wrong}")).status_code == 400


async def test_operators_look_at_a_miner(site: Site, world: World) -> None:
    await site.report(PATH, [record(world, n) for n in range(10)])
    miner = world.miner_ids[0]
    told = (await site.admin("GET", f"/telemetry/{miner}", role=Role.viewer)).json()
    assert len(told["history"]) == KEEP
    assert told["history"][0] == {"ts": "2027-01-15T08:00:09.000Z", "record": record(world, 9)}
    assert len((await site.admin("GET", f"/telemetry/{miner}?limit=2")).json()["history"]) == 2
    silent = (await site.admin("GET", f"/telemetry/{world.miner_ids[1]}")).json()
    assert (silent["latest"], silent["history"]) == (None, [])
    assert (await site.admin("GET", "/telemetry/999")).status_code == 404
    assert (await site.admin("GET", f"/telemetry/{miner}?limit=-1")).status_code == 400
