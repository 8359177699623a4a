import csv
import gzip
import io
from typing import Any

import msgspec
import pytest

from restante.commands.telemetry.routes_safety import EXPORT_ROWS_MAX, UNPACKED_BYTES_MAX, csv_text
from restante.commands.telemetry.safety_events import EVENTS_MAX
from restante.identity.callers import Role
from tests.commands.reporting_fixture import BODY_BYTES_MAX, ReportingClient, ReportingFleet, iso_at

PATH = "/events/safety/batch"
EVENTS = "/safety-events"
JSON = {"content-type": "application/json"}
PACKED = {**JSON, "content-encoding": "gzip"}


def event(fleet: ReportingFleet, seconds: float = 0, **changed: Any) -> dict[str, Any]:
    usual = {"miner_id": fleet.miner_ids[0], "action": "THERMAL_SHUTDOWN", "reason": "hot", "temp_max": 98.5}
    return {**usual, "ts": iso_at(seconds), "snapshot_json": {"fan_speed": 100}, **changed}


async def test_valid_events_are_processed(client: ReportingClient, fleet: ReportingFleet) -> None:
    response = await client.report(PATH, {"events": [event(fleet)]})
    assert response.status_code == 200
    assert response.json() == {"status": "success", "processed": 1, "failed": 0, "received_at": iso_at(0)}


async def test_some_invalid_events_give_207_partial(client: ReportingClient, fleet: ReportingFleet) -> None:
    response = await client.report(PATH, {"events": [event(fleet), event(fleet, action="MELTDOWN")]})
    assert response.status_code == 207
    body = response.json()
    assert (body["status"], body["processed"], body["failed"]) == ("partial", 1, 1)
    assert body["errors"][0]["index"] == 1
    assert body["errors"][0]["error"].startswith("action: ")


async def test_only_invalid_events_give_207_failed(client: ReportingClient, fleet: ReportingFleet) -> None:
    response = await client.report(PATH, {"events": [event(fleet, miner_id=fleet.foreign_miner)]})
    assert (response.status_code, response.json()["status"]) == (207, "failed")


async def test_gzip_body_is_accepted(client: ReportingClient, fleet: ReportingFleet) -> None:
    body = gzip.compress(msgspec.json.encode({"events": [event(fleet)]}))
    assert (await client.report(PATH, content=body, headers=PACKED)).status_code == 200


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
async def test_invalid_request_is_refused(
    client: ReportingClient, content: bytes, headers: dict[str, str], status: int
) -> None:
    response = await client.report(PATH, content=content, headers=headers)
    assert response.status_code == status
    assert set(response.json()) >= {"error", "message"}


async def test_unknown_token_is_refused(client: ReportingClient, fleet: ReportingFleet) -> None:
    assert (await client.report(PATH, {"events": [event(fleet)]}, token="ed_unknown")).status_code == 401


async def test_list_applies_its_filters(client: ReportingClient, fleet: ReportingFleet) -> None:
    sent = [event(fleet, 0), event(fleet, 10, action="FAN_FAILURE"), event(fleet, 20, miner_id=fleet.miner_ids[1])]
    await client.report(PATH, {"events": sent})

    async def seconds(query: str) -> list[str]:
        response = await client.admin("GET", f"{EVENTS}?{query}", role=Role.viewer)
        return [item["ts"][17:19] for item in response.json()["items"]]

    assert await seconds("") == ["20", "10", "00"]
    assert await seconds(f"site_id={fleet.site_id}&action=FAN_FAILURE") == ["10"]
    assert await seconds(f"site_id={fleet.other_id}") == []
    assert await seconds(f"miner_id={fleet.miner_ids[1]}") == ["20"]
    assert await seconds(f"device_id={fleet.collector.device_id}") == ["20", "10", "00"]
    assert await seconds(f"since={iso_at(10)}&until={iso_at(20)}") == ["10"]
    assert await seconds("limit=1") == ["20"]


@pytest.mark.parametrize(
    "query", ["action=MELTDOWN", "since=noon", "until=noon", "site_id=0", "miner_id=x", "device_id=-1", "limit=501"]
)
async def test_invalid_filter_names_its_field(client: ReportingClient, query: str) -> None:
    for path in (EVENTS, f"{EVENTS}/export"):
        # An export may be longer than a page.
        if not (path.endswith("export") and query.startswith("limit")):
            response = await client.admin("GET", f"{path}?{query}")
            assert response.status_code == 400
            assert response.json()["field"] == query.partition("=")[0]


async def test_events_are_counted_by_action(client: ReportingClient, fleet: ReportingFleet) -> None:
    events = [event(fleet, 1), event(fleet, 2), event(fleet, 3, action="FAN_FAILURE")]
    await client.report(PATH, {"events": events})
    counts = (await client.admin("GET", f"{EVENTS}/counts?site_id={fleet.site_id}")).json()
    assert counts["total"] == {"value": 3, "is_exact": True}
    assert {name: count["value"] for name, count in counts["states"].items() if count["value"]} == {
        "THERMAL_SHUTDOWN": 2,
        "FAN_FAILURE": 1,
    }
    refused = await client.admin("GET", f"{EVENTS}/counts?actions=FAN_FAILURE")
    assert (refused.status_code, refused.json()["field"]) == (400, "actions")


async def test_export_as_csv_quotes_and_neutralises_cells(client: ReportingClient, fleet: ReportingFleet) -> None:
    sent = [event(fleet, 0, reason='=cmd|" /C calc"!A0'), event(fleet, 10, reason='two\nlines, "quoted"', temp_max=-3)]
    await client.report(PATH, {"events": sent})
    response = await client.admin("GET", f"{EVENTS}/export?format=csv", role=Role.viewer)
    assert response.headers["content-type"] == "text/csv; charset=utf-8; header=present"
    assert response.headers["content-disposition"] == 'attachment; filename="safety-events.csv"'
    assert "x-next" not in response.headers
    rows = list(csv.DictReader(io.StringIO(response.content.decode("utf-8-sig"), newline="")))
    assert [row["reason"] for row in rows] == ['two\nlines, "quoted"', '\'=cmd|" /C calc"!A0']
    assert rows[0]["temp_max"] == "-3.0"
    assert rows[0]["snapshot_json"] == '{"fan_speed":100}'
    assert list(rows[0]) == [
        *("id", "site_id", "device_id", "miner_id", "action", "reason", "temp_max", "ts", "snapshot_json"),
        *("received_at", "miner_known"),
    ]


async def test_export_as_json_equals_the_list(client: ReportingClient, fleet: ReportingFleet) -> None:
    await client.report(PATH, {"events": [event(fleet, 0), event(fleet, 10)]})
    for query in ("", "?format=json"):
        response = await client.admin("GET", f"{EVENTS}/export{query}")
        assert response.headers["content-disposition"] == 'attachment; filename="safety-events.json"'
        assert response.json() == (await client.admin("GET", EVENTS)).json()


async def test_export_continues_after_the_previous_one(client: ReportingClient, fleet: ReportingFleet) -> None:
    await client.report(PATH, {"events": [event(fleet, second) for second in range(3)]})
    first = await client.admin("GET", f"{EVENTS}/export?format=csv&limit=2")
    assert first.content.count(b"THERMAL_SHUTDOWN") == 2
    rest = await client.admin("GET", f"{EVENTS}/export?format=csv&limit=2&after={first.headers['x-next']}")
    assert rest.content.count(b"THERMAL_SHUTDOWN") == 1
    assert "x-next" not in rest.headers


@pytest.mark.parametrize("query", ["format=xml", "limit=0", f"limit={EXPORT_ROWS_MAX + 1}", "after=-1"])
async def test_invalid_export_query_is_refused(client: ReportingClient, query: str) -> None:
    assert (await client.admin("GET", f"{EVENTS}/export?{query}")).status_code == 400


class CsvRow(msgspec.Struct):
    id: int
    reason: str
    temp: float | None = None
    data: msgspec.Raw | None = None


def cells(*rows: CsvRow) -> list[list[str]]:
    text = csv_text(rows, CsvRow).decode("utf-8-sig")
    assert text.endswith("\r\n")
    return list(csv.reader(io.StringIO(text, newline="")))


def test_csv_has_a_header_row_and_empty_cells_for_none() -> None:
    assert cells(CsvRow(1, "hot")) == [["id", "reason", "temp", "data"], ["1", "hot", "", ""]]
    assert cells() == [["id", "reason", "temp", "data"]]


@pytest.mark.parametrize("reason", ['say "stop", now', "two\r\nlines", "ümlaut ✓", "a;b", " "])
def test_csv_cell_text_survives_quoting(reason: str) -> None:
    assert cells(CsvRow(1, reason))[1][1] == reason


def test_csv_writes_json_into_one_cell() -> None:
    assert cells(CsvRow(1, "", data=msgspec.Raw(b'{"a":"b,c"}')))[1][3] == '{"a":"b,c"}'


@pytest.mark.parametrize(
    "reason", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "  =1", "＝1", '=HYPERLINK("http://x")']
)
def test_csv_text_is_never_a_formula(reason: str) -> None:
    assert cells(CsvRow(1, reason))[1][1] == f"'{reason}"


def test_csv_numbers_stay_numbers() -> None:
    assert cells(CsvRow(-1, "x", temp=-5.5))[1] == ["-1", "x", "-5.5", ""]
