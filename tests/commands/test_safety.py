from typing import Any

import msgspec
import pytest

from restante.commands import safety
from restante.commands.safety import ACTIONS, EVENT_BYTES_MAX, EVENTS_MAX, Kept, SafetyFilter
from restante.core.errors import BadInput, TooLarge
from restante.database.database import Database
from restante.web.paging import Window
from tests.commands.reporting import World, iso_at
from tests.conftest import START_MS, ManualClock

ALL = Window(100, 0)


@pytest.fixture
def world(database: Database, clock: ManualClock) -> World:
    return World(database, clock)


def event(world: World, seconds: float = 0, **changed: Any) -> dict[str, Any]:
    usual = {
        "miner_id": world.miner_ids[0],
        "action": "THERMAL_SHUTDOWN",
        "reason": "Temperature exceeded 95C threshold",
        "temp_max": 98.5,
        "ts": iso_at(seconds),
        "snapshot_json": {"hashrate": 100.5},
    }
    return {**usual, **changed}


def keep(world: World, *events: Any) -> Kept:
    raw = safety.parse_batch(msgspec.json.encode({"events": events}))
    return world.database.write_now(safety.keep, world.collector, raw)


def found(world: World, **wanted: Any) -> list[str]:
    return [each.reason for each in world.database.read_now(safety.list_page, SafetyFilter(**wanted), ALL).items]


def test_an_event_is_kept_as_it_was_told(world: World, clock: ManualClock) -> None:
    clock.advance(5)
    assert keep(world, event(world)) == Kept(1, [], START_MS + 5000)
    [kept] = world.database.read_now(safety.list_page, SafetyFilter(), ALL).items
    assert (kept.site_id, kept.device_id, kept.miner_id) == (
        world.site_id,
        world.collector.device_id,
        world.miner_ids[0],
    )
    assert (kept.action, kept.reason, kept.temp_max) == (
        "THERMAL_SHUTDOWN",
        "Temperature exceeded 95C threshold",
        98.5,
    )
    assert (kept.ts, kept.received_at) == ("2027-01-15T08:00:00.000Z", "2027-01-15T08:00:05.000Z")
    assert kept.snapshot_json is not None
    assert msgspec.json.decode(kept.snapshot_json) == {"hashrate": 100.5}


def test_what_may_be_left_out(world: World) -> None:
    bare = {"miner_id": world.miner_ids[0], "action": "EMERGENCY_STOP", "ts": iso_at(0), "firmware": "2"}
    assert keep(world, bare).errors == []
    [kept] = world.database.read_now(safety.list_page, SafetyFilter(), ALL).items
    assert (kept.reason, kept.temp_max, kept.snapshot_json) == ("", None, None)


@pytest.mark.parametrize("action", ACTIONS)
def test_the_actions_of_the_contract(world: World, action: str) -> None:
    assert keep(world, event(world, action=action)).processed == 1


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"action": "MELTDOWN"}, "action: "),
        ({"miner_id": 999}, "miner_id: "),
        ({"miner_id": "1"}, "miner_id: "),
        ({"miner_id": 2**63}, "miner_id: "),
        ({"ts": "noon"}, "ts: "),
        ({"ts": None}, "ts: "),
        ({"reason": "x" * 2001}, "reason: "),
        ({"temp_max": "hot"}, "temp_max: "),
        ({"snapshot_json": []}, "snapshot_json: "),
        ({"snapshot_json": {"pad": "x" * EVENT_BYTES_MAX}}, "event: "),
    ],
)
def test_a_bad_event_costs_no_other(world: World, changed: dict[str, Any], error: str) -> None:
    kept = keep(world, event(world, 1), event(world, 2, **changed), event(world, 3))
    assert kept.processed == 2
    [wrong] = kept.errors
    assert wrong.index == 1
    assert wrong.error.startswith(error)
    assert len(found(world)) == 2


def test_an_event_that_is_none_is_an_error_of_its_own(world: World) -> None:
    kept = keep(world, 1, event(world), {"miner_id": world.miner_ids[0]})
    assert [error.index for error in kept.errors] == [0, 2]


def test_foreign_and_absent_miners_are_the_same_error(world: World) -> None:
    kept = keep(world, event(world, miner_id=world.foreign_miner), event(world, miner_id=999))
    assert len({error.error for error in kept.errors}) == 1
    assert found(world) == []


def test_the_same_event_is_stored_once(world: World) -> None:
    for _ in range(2):
        assert keep(world, event(world), event(world, reason="again")).processed == 2
    assert len(found(world)) == 1
    others = [
        event(world, 1),
        event(world, action="FAN_FAILURE"),
        event(world, miner_id=world.miner_ids[1]),
    ]
    assert keep(world, *others).processed == 3
    assert len(found(world)) == 4


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"events": []}', b'{"events": {}}', b'{"events": null}', b"1"])
def test_what_is_no_batch_is_bad_input(body: bytes) -> None:
    with pytest.raises(BadInput):
        safety.parse_batch(body)


def test_a_batch_has_its_bound() -> None:
    assert len(safety.parse_batch(b'{"events": [' + b",".join([b"1"] * EVENTS_MAX) + b"]}")) == EVENTS_MAX
    with pytest.raises(TooLarge):
        safety.parse_batch(b'{"events": [' + b",".join([b"1"] * (EVENTS_MAX + 1)) + b"]}")


def test_looking_for_events(world: World) -> None:
    keep(
        world,
        event(world, 0, reason="first"),
        event(world, 10, reason="second", action="FAN_FAILURE"),
        event(world, 20, reason="third", miner_id=world.miner_ids[1]),
    )
    assert found(world) == ["third", "second", "first"]
    assert found(world, site_id=world.site_id, action="FAN_FAILURE") == ["second"]
    assert found(world, site_id=world.other_id) == []
    assert found(world, miner_id=world.miner_ids[1]) == ["third"]
    assert found(world, site_id=world.site_id, miner_id=world.miner_ids[1]) == ["third"]
    assert found(world, device_id=world.collector.device_id + 1) == []
    assert found(world, site_id=world.site_id, device_id=world.collector.device_id + 1) == []
    assert found(world, since_ms=START_MS + 10_000, until_ms=START_MS + 20_000) == ["second"]
    assert found(world, site_id=world.site_id, since_ms=START_MS + 10_000, until_ms=START_MS + 20_000) == ["second"]


def test_pages(world: World) -> None:
    keep(world, *(event(world, second, reason=str(second)) for second in range(3)))
    first = world.database.read_now(safety.list_page, SafetyFilter(), Window(2, 0))
    assert [each.reason for each in first.items] == ["2", "1"]
    assert first.next is not None
    rest = world.database.read_now(safety.list_page, SafetyFilter(), Window(2, first.next))
    assert ([each.reason for each in rest.items], rest.next) == (["0"], None)
