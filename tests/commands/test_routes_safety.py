import csv
import gzip
import io
from typing import Any

import msgspec
import pytest

from restante.commands.routes_safety import EXPORT_ROWS_MAX, UNPACKED_BYTES_MAX
from restante.commands.safety import EVENTS_MAX
from restante.database.database import Database
from restante.identity.callers import Role
from tests.commands.reporting import BODY_BYTES_MAX, Site, World, iso_at, open_site
from tests.conftest import ManualClock

PATH = "/events/safety/batch"
EVENTS = "/safety-events"
JSON = {"content-type": "application/json"}
PACKED = {**JSON, "content-encoding": "gzip"}


@pytest.fixture
def world(database: Database, clock: ManualClock) -> World:
    return World(database, clock)


@pytest.fixture
async def site(world: World) -> Site:
    return await open_site(world)


def event(world: World, seconds: float = 0, **changed: Any) -> dict[str, Any]:
    usual = {"miner_id": world.miner_ids[0], "action": "THERMAL_SHUTDOWN", "reason": "hot", "temp_max": 98.5}
    return {**usual, "ts": iso_at(seconds), "snapshot_json": {"fan_speed": 100}, **changed}


async def test_the_contracts_answer(site: Site, world: World) -> None:
    answer = await site.report(PATH, {"events": [event(world)]})
    assert answer.status_code == 200
    assert answer.json() == {"status": "success", "processed": 1, "failed": 0, "received_at": iso_at(0)}


async def test_a_partial_failure_is_207(site: Site, world: World) -> None:
    answer = await site.report(PATH, {"events": [event(world), event(world, action="MELTDOWN")]})
    assert answer.status_code == 207
    body = answer.json()
    assert (body["status"], body["processed"], body["failed"]) == ("partial", 1, 1)
    assert body["errors"][0]["index"] == 1
    assert body["errors"][0]["error"].startswith("action: ")


async def test_nothing_good_is_207_too(site: Site, world: World) -> None:
    answer = await site.report(PATH, {"events": [event(world, miner_id=world.foreign_miner)]})
    assert (answer.status_code, answer.json()["status"]) == (207, "failed")


async def test_gzip_is_taken(site: Site, world: World) -> None:
    body = gzip.compress(msgspec.json.encode({"events": [event(world)]}))
    assert (await site.report(PATH, content=body, headers=PACKED)).status_code == 200


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b'{"events": []}', JSON, 400),
        (b"{}", JSON, 400),
        (b"[", JSON, 400),
        (b"", JSON, 400),
        (b"{}", {"content-type": "text/plain"}, 415),
        (b"{}", {**JSON, "content-encoding": "zstd"}, 415),
        (b" " * (BODY_BYTES_MAX + 1), JSON, 413),
        (gzip.compress(b" " * (UNPACKED_BYTES_MAX + 1)), PACKED, 413),
        (b'{"events": [' + b"1," * EVENTS_MAX + b"1]}", JSON, 413),
    ],
)
async def test_refusals(site: Site, content: bytes, headers: dict[str, str], status: int) -> None:
    answer = await site.report(PATH, content=content, headers=headers)
    assert answer.status_code == status
    assert set(answer.json()) >= {"error", "message"}


async def test_only_collectors_report(site: Site, world: World) -> None:
    assert (await site.report(PATH, {"events": [event(world)]}, token="ed_unknown")).status_code == 401


async def test_the_list_and_its_filters(site: Site, world: World) -> None:
    sent = [event(world, 0), event(world, 10, action="FAN_FAILURE"), event(world, 20, miner_id=world.miner_ids[1])]
    await site.report(PATH, {"events": sent})

    async def seconds(query: str) -> list[str]:
        answer = await site.admin("GET", f"{EVENTS}?{query}", role=Role.viewer)
        return [item["ts"][17:19] for item in answer.json()["items"]]

    assert await seconds("") == ["20", "10", "00"]
    assert await seconds(f"site_id={world.site_id}&action=FAN_FAILURE") == ["10"]
    assert await seconds(f"site_id={world.other_id}") == []
    assert await seconds(f"miner_id={world.miner_ids[1]}") == ["20"]
    assert await seconds(f"device_id={world.collector.device_id}") == ["20", "10", "00"]
    assert await seconds(f"since={iso_at(10)}&until={iso_at(20)}") == ["10"]
    assert await seconds("limit=1") == ["20"]


@pytest.mark.parametrize(
    "query", ["action=MELTDOWN", "since=noon", "until=noon", "site_id=0", "miner_id=x", "device_id=-1", "limit=501"]
)
async def test_bad_filters_are_named(site: Site, query: str) -> None:
    for path in (EVENTS, f"{EVENTS}/export"):
        # An export may be longer than a page.
        if not (path.endswith("export") and query.startswith("limit")):
            answer = await site.admin("GET", f"{path}?{query}")
            assert answer.status_code == 400
            assert answer.json()["field"] == query.partition("=")[0]


async def test_export_as_csv(site: Site, world: World) -> None:
    sent = [event(world, 0, reason='=cmd|" /C calc"!A0'), event(world, 10, reason='two\nlines, "quoted"', temp_max=-3)]
    await site.report(PATH, {"events": sent})
    answer = await site.admin("GET", f"{EVENTS}/export?format=csv", role=Role.viewer)
    assert answer.headers["content-type"] == "text/csv; charset=utf-8; header=present"
    assert answer.headers["content-disposition"] == 'attachment; filename="safety-events.csv"'
    assert "x-next" not in answer.headers
    rows = list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"), newline="")))
    assert [row["reason"] for row in rows] == ['two\nlines, "quoted"', '\'=cmd|" /C calc"!A0']
    assert rows[0]["temp_max"] == "-3.0"
    assert rows[0]["snapshot_json"] == '{"fan_speed":100}'
    assert list(rows[0]) == [
        *("id", "site_id", "device_id", "miner_id", "action", "reason", "temp_max", "ts", "snapshot_json"),
        "received_at",
    ]


async def test_export_as_json(site: Site, world: World) -> None:
    await site.report(PATH, {"events": [event(world, 0), event(world, 10)]})
    for query in ("", "?format=json"):
        answer = await site.admin("GET", f"{EVENTS}/export{query}")
        assert answer.headers["content-disposition"] == 'attachment; filename="safety-events.json"'
        assert answer.json() == (await site.admin("GET", EVENTS)).json()


async def test_an_export_goes_on_where_the_one_before_ended(site: Site, world: World) -> None:
    await site.report(PATH, {"events": [event(world, second) for second in range(3)]})
    first = await site.admin("GET", f"{EVENTS}/export?format=csv&limit=2")
    assert first.content.count(b"THERMAL_SHUTDOWN") == 2
    rest = await site.admin("GET", f"{EVENTS}/export?format=csv&limit=2&after={first.headers['x-next']}")
    assert rest.content.count(b"THERMAL_SHUTDOWN") == 1
    assert "x-next" not in rest.headers


@pytest.mark.parametrize("query", ["format=xml", "limit=0", f"limit={EXPORT_ROWS_MAX + 1}", "after=-1"])
async def test_exports_that_are_none(site: Site, query: str) -> None:
    assert (await site.admin("GET", f"{EVENTS}/export?{query}")).status_code == 400
