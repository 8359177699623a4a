from typing import Any

import msgspec
import pytest

from restante.commands.telemetry import safety_events
from restante.commands.telemetry.safety_events import ACTIONS, EVENT_BYTES_MAX, EVENTS_MAX, SafetyFilter, StoreResult
from restante.commands.telemetry.telemetry_records import RecordError
from restante.core.errors import BadInput, TooLarge
from restante.database.paging import PageRequest
from tests.commands.reporting_fixture import UNKNOWN_MINERS_MAX, ReportingFleet, iso_at
from tests.conftest import START_MS, ManualClock

ALL = PageRequest(100, 0)


def event(fleet: ReportingFleet, seconds: float = 0, **changed: Any) -> dict[str, Any]:
    usual = {
        "miner_id": fleet.miner_ids[0],
        "action": "THERMAL_SHUTDOWN",
        "reason": "Temperature exceeded 95C threshold",
        "temp_max": 98.5,
        "ts": iso_at(seconds),
        "snapshot_json": {"hashrate": 100.5},
    }
    return {**usual, **changed}


def store(fleet: ReportingFleet, *events: Any) -> StoreResult:
    raw = safety_events.parse_batch(msgspec.json.encode({"events": events}))
    return fleet.database.write_now(safety_events.store, fleet.collector, raw, UNKNOWN_MINERS_MAX)


def reasons(fleet: ReportingFleet, **filters: Any) -> list[str]:
    return [
        each.reason for each in fleet.database.read_now(safety_events.list_page, SafetyFilter(**filters), ALL).items
    ]


def test_event_is_stored_as_reported(fleet: ReportingFleet, clock: ManualClock) -> None:
    clock.advance(5)
    assert store(fleet, event(fleet)) == StoreResult(1, [], START_MS + 5000)
    [stored] = fleet.database.read_now(safety_events.list_page, SafetyFilter(), ALL).items
    assert (stored.site_id, stored.device_id, stored.miner_id) == (
        fleet.site_id,
        fleet.collector.device_id,
        fleet.miner_ids[0],
    )
    assert (stored.action, stored.reason, stored.temp_max) == (
        "THERMAL_SHUTDOWN",
        "Temperature exceeded 95C threshold",
        98.5,
    )
    assert (stored.ts, stored.received_at) == ("2027-01-15T08:00:00.000Z", "2027-01-15T08:00:05.000Z")
    assert stored.snapshot_json is not None
    assert msgspec.json.decode(stored.snapshot_json) == {"hashrate": 100.5}


def test_optional_fields_may_be_left_out(fleet: ReportingFleet) -> None:
    bare = {"miner_id": fleet.miner_ids[0], "action": "EMERGENCY_STOP", "ts": iso_at(0), "firmware": "2"}
    assert store(fleet, bare).errors == []
    [stored] = fleet.database.read_now(safety_events.list_page, SafetyFilter(), ALL).items
    assert (stored.reason, stored.temp_max, stored.snapshot_json) == ("", None, None)


@pytest.mark.parametrize("action", ACTIONS)
def test_every_action_of_the_contract_is_accepted(fleet: ReportingFleet, action: str) -> None:
    assert store(fleet, event(fleet, action=action)).processed == 1


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"action": "MELTDOWN"}, "action: "),
        ({"miner_id": "01"}, "miner_id: "),
        ({"miner_id": 2**63}, "miner_id: "),
        ({"ts": "noon"}, "ts: "),
        ({"ts": None}, "ts: "),
        ({"reason": "x" * 2001}, "reason: "),
        ({"temp_max": "hot"}, "temp_max: "),
        ({"snapshot_json": []}, "snapshot_json: "),
        ({"snapshot_json": {"pad": "x" * EVENT_BYTES_MAX}}, "event: "),
    ],
)
def test_invalid_event_does_not_affect_others(fleet: ReportingFleet, changed: dict[str, Any], error: str) -> None:
    result = store(fleet, event(fleet, 1), event(fleet, 2, **changed), event(fleet, 3))
    assert result.processed == 2
    [wrong] = result.errors
    assert wrong.index == 1
    assert wrong.error.startswith(error)
    assert len(reasons(fleet)) == 2


def test_non_event_is_an_error_with_its_index(fleet: ReportingFleet) -> None:
    result = store(fleet, 1, event(fleet), {"miner_id": fleet.miner_ids[0]})
    assert [error.index for error in result.errors] == [0, 2]


def test_miner_of_another_site_is_refused(fleet: ReportingFleet) -> None:
    result = store(fleet, event(fleet, miner_id=fleet.foreign_miner))
    assert result.errors == [RecordError(0, "miner_id: expected the id of a miner of the site")]
    assert reasons(fleet) == []


def test_repeated_event_is_stored_once(fleet: ReportingFleet) -> None:
    for _ in range(2):
        assert store(fleet, event(fleet), event(fleet, reason="again")).processed == 2
    assert len(reasons(fleet)) == 1
    others = [
        event(fleet, 1),
        event(fleet, action="FAN_FAILURE"),
        event(fleet, miner_id=fleet.miner_ids[1]),
    ]
    assert store(fleet, *others).processed == 3
    assert len(reasons(fleet)) == 4


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"events": []}', b'{"events": {}}', b'{"events": null}', b"1"])
def test_body_that_is_no_batch_is_bad_input(body: bytes) -> None:
    with pytest.raises(BadInput):
        safety_events.parse_batch(body)


def test_batch_over_the_limit_is_too_large() -> None:
    assert len(safety_events.parse_batch(b'{"events": [' + b",".join([b"1"] * EVENTS_MAX) + b"]}")) == EVENTS_MAX
    with pytest.raises(TooLarge):
        safety_events.parse_batch(b'{"events": [' + b",".join([b"1"] * (EVENTS_MAX + 1)) + b"]}")


def test_filters_select_events(fleet: ReportingFleet) -> None:
    store(
        fleet,
        event(fleet, 0, reason="first"),
        event(fleet, 10, reason="second", action="FAN_FAILURE"),
        event(fleet, 20, reason="third", miner_id=fleet.miner_ids[1]),
    )
    assert reasons(fleet) == ["third", "second", "first"]
    assert reasons(fleet, site_id=fleet.site_id, action="FAN_FAILURE") == ["second"]
    assert reasons(fleet, site_id=fleet.other_id) == []
    assert reasons(fleet, miner_id=fleet.miner_ids[1]) == ["third"]
    assert reasons(fleet, site_id=fleet.site_id, miner_id=fleet.miner_ids[1]) == ["third"]
    assert reasons(fleet, device_id=fleet.collector.device_id + 1) == []
    assert reasons(fleet, site_id=fleet.site_id, device_id=fleet.collector.device_id + 1) == []
    assert reasons(fleet, since_ms=START_MS + 10_000, until_ms=START_MS + 20_000) == ["second"]
    assert reasons(fleet, site_id=fleet.site_id, since_ms=START_MS + 10_000, until_ms=START_MS + 20_000) == ["second"]


def test_events_are_listed_in_pages(fleet: ReportingFleet) -> None:
    store(fleet, *(event(fleet, second, reason=str(second)) for second in range(3)))
    first = fleet.database.read_now(safety_events.list_page, SafetyFilter(), PageRequest(2, 0))
    assert [each.reason for each in first.items] == ["2", "1"]
    assert first.next is not None
    rest = fleet.database.read_now(safety_events.list_page, SafetyFilter(), PageRequest(2, first.next))
    assert ([each.reason for each in rest.items], rest.next) == (["0"], None)
