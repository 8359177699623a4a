"""Reports of miners that are not registered yet: kept, bounded, and linked when the miner is registered."""

from typing import Any

import msgspec
import pytest

from restante.commands.sites.unknown_miners import EVENTS_PER_MINER, HISTORY_RECORDS
from restante.commands.telemetry import safety_events, telemetry
from restante.commands.telemetry.safety_events import SafetyEvent, SafetyFilter
from restante.commands.telemetry.telemetry import LatestRecord, MinerTelemetry
from restante.commands.telemetry.telemetry_records import Batch
from restante.core.errors import NotFound
from restante.database.database import Database
from restante.database.paging import PageRequest
from tests.commands import reporting_fixture
from tests.commands.reporting_fixture import UNKNOWN_MINERS_MAX, ReportingFleet, iso_at, sample
from tests.conftest import ManualClock

ALL = PageRequest(100, 0)
NEW = 5001


@pytest.fixture
def fleet(database: Database, clock: ManualClock) -> ReportingFleet:
    return ReportingFleet(database, clock)


def report(fleet: ReportingFleet, *events: dict[str, Any]) -> safety_events.StoreResult:
    raw = safety_events.parse_batch(msgspec.json.encode({"events": events}))
    return fleet.database.write_now(safety_events.store, fleet.collector, raw, UNKNOWN_MINERS_MAX)


def event(miner_id: int, seconds: float = 0) -> dict[str, Any]:
    return {"miner_id": miner_id, "action": "THERMAL_SHUTDOWN", "ts": iso_at(seconds)}


def listed_events(fleet: ReportingFleet, **filters: Any) -> list[SafetyEvent]:
    return fleet.database.read_now(safety_events.list_page, SafetyFilter(**filters), ALL).items


def listed_telemetry(fleet: ReportingFleet, miner_known: bool | None = None) -> list[LatestRecord]:
    return fleet.database.read_now(telemetry.latest_page, fleet.site_id, ALL, miner_known).items


def shown(fleet: ReportingFleet, miner_id: int, site_id: int | None = None) -> MinerTelemetry:
    return fleet.database.read_now(telemetry.read_miner, miner_id, 100, 100, site_id)


def measured(found: MinerTelemetry) -> list[int]:
    return [msgspec.json.decode(past.record)["n"] for past in found.history]


def test_safety_event_of_an_unknown_miner_is_kept_and_marked(fleet: ReportingFleet) -> None:
    result = report(fleet, event(NEW), event(fleet.miner_ids[0]))
    assert (result.processed, result.errors, result.unknown_count) == (2, [], 1)
    assert {each.miner_id: each.miner_known for each in listed_events(fleet)} == {NEW: False, fleet.miner_ids[0]: True}
    assert [each.miner_id for each in listed_events(fleet, miner_known=False)] == [NEW]
    assert [each.miner_id for each in listed_events(fleet, miner_known=True, site_id=fleet.site_id)] == [
        fleet.miner_ids[0]
    ]


def test_repeated_event_of_an_unknown_miner_is_stored_once(fleet: ReportingFleet) -> None:
    for _ in range(2):
        assert report(fleet, event(NEW)).processed == 1
    assert len(listed_events(fleet)) == 1


def test_safety_events_are_linked_when_the_miner_is_registered(fleet: ReportingFleet) -> None:
    report(fleet, event(NEW, 1), event(NEW, 2), event(NEW + 1))
    fleet.add_miner(fleet.site_id, NEW)
    assert {each.miner_id for each in listed_events(fleet, miner_known=False)} == {NEW + 1}
    assert len(listed_events(fleet, miner_known=True, miner_id=NEW)) == 2
    [row] = fleet.rows("SELECT detail FROM command_audit WHERE event = 'miner.created' ORDER BY id DESC LIMIT 1")
    assert msgspec.json.decode(row["detail"])["linked_safety_events"] == 2


async def test_telemetry_of_an_unknown_miner_is_kept_and_linked(fleet: ReportingFleet) -> None:
    result = await fleet.ingest.accept(fleet.site_id, Batch([sample(NEW, n, n=n) for n in (1, 2, 3)], []))
    assert (result.processed, result.unknown_count) == (3, 3)
    await fleet.report(sample(fleet.miner_ids[0], 1, n=7))
    assert [(each.miner_id, each.miner_known) for each in listed_telemetry(fleet)] == [
        (fleet.miner_ids[0], True),
        (NEW, False),
    ]
    assert [each.miner_id for each in listed_telemetry(fleet, miner_known=False)] == [NEW]
    assert [each.miner_id for each in listed_telemetry(fleet, miner_known=True)] == [fleet.miner_ids[0]]
    unknown = shown(fleet, NEW, fleet.site_id)
    assert (unknown.miner_known, measured(unknown)) == (False, [3, 2, 1])
    with pytest.raises(NotFound):
        shown(fleet, NEW)

    fleet.add_miner(fleet.site_id, NEW)
    linked = shown(fleet, NEW)
    assert (linked.miner_known, measured(linked)) == (True, [3, 2, 1])
    await fleet.report(sample(NEW, 4, n=4))
    assert measured(shown(fleet, NEW)) == [4, 3, 2, 1]
    assert fleet.rows("SELECT * FROM unknown_miners") == []


async def test_two_sites_report_the_same_unknown_miner(fleet: ReportingFleet) -> None:
    await fleet.ingest.accept(fleet.site_id, Batch([sample(NEW, 1, n=1)], []))
    await fleet.ingest.accept(fleet.other_id, Batch([sample(NEW, 1, n=2)], []))
    fleet.add_miner(fleet.other_id, NEW)
    assert measured(shown(fleet, NEW)) == [2]
    assert measured(shown(fleet, NEW, fleet.site_id)) == [1]
    refused = await fleet.ingest.accept(fleet.site_id, Batch([sample(NEW, 2, n=3)], []))
    assert [error.error for error in refused.errors] == ["miner_id: expected the id of a miner of the site"]


async def test_history_of_an_unknown_miner_is_bounded(fleet: ReportingFleet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporting_fixture, "HISTORY_RECORDS", 100)
    fleet.restart()
    count = HISTORY_RECORDS + 4
    for n in range(count):
        await fleet.report(sample(NEW, n, n=n))
    newest_first = list(range(count - 1, count - 1 - HISTORY_RECORDS, -1))
    assert measured(shown(fleet, NEW, fleet.site_id)) == newest_first
    fleet.add_miner(fleet.site_id, NEW)
    await fleet.report(sample(NEW, count, n=count))
    assert measured(shown(fleet, NEW)) == [count, *newest_first]


async def test_rules_fire_for_an_unknown_miner_only_after_it_was_registered(fleet: ReportingFleet) -> None:
    fleet.add_rule()
    assert await fleet.heat(1, 99, NEW) == []
    fleet.add_miner(fleet.site_id, NEW)
    assert await fleet.tick(2) == []
    assert await fleet.heat(3, 99, NEW) == ["MINER_RESTART"]


async def test_silent_unknown_miner_fires_no_offline_rule(fleet: ReportingFleet) -> None:
    fleet.add_offline_rule(60)
    await fleet.heat(0, 50, NEW)
    assert await fleet.tick(200) == []


async def test_site_has_a_bound_of_unknown_miners(fleet: ReportingFleet) -> None:
    samples = [sample(NEW + n, 1, n) for n in range(UNKNOWN_MINERS_MAX + 2)]
    result = await fleet.ingest.accept(fleet.site_id, Batch(samples, []))
    assert result.processed == UNKNOWN_MINERS_MAX
    reason = f"miner_id: expected a registered miner, because the site already has {UNKNOWN_MINERS_MAX} others"
    assert [(error.index, error.error) for error in result.errors] == [(3, reason), (4, reason)]
    # The bound is shared with safety events. Miners that were admitted still report.
    assert [error.error for error in report(fleet, event(NEW), event(NEW + 3)).errors] == [reason]
    fleet.add_miner(fleet.site_id, NEW)
    assert report(fleet, event(NEW + 3)).errors == []


def test_site_has_a_bound_of_safety_events_of_unknown_miners(fleet: ReportingFleet) -> None:
    bound = UNKNOWN_MINERS_MAX * EVENTS_PER_MINER
    result = report(fleet, event(fleet.foreign_miner), *(event(NEW, n) for n in range(bound + 1)))
    assert result.processed == bound
    assert [error.index for error in result.errors] == [0, bound + 1]
    assert result.errors[1].error.startswith("miner_id: expected a registered miner")
    assert report(fleet, event(fleet.miner_ids[0])).errors == []
    fleet.add_miner(fleet.site_id, NEW)
    assert report(fleet, event(NEW + 1)).errors == []


async def test_future_record_does_not_admit_a_miner(fleet: ReportingFleet) -> None:
    result = await fleet.ingest.accept(fleet.site_id, Batch([sample(NEW, 10_000)], []))
    assert len(result.errors) == 1
    assert fleet.rows("SELECT * FROM unknown_miners") == []


async def test_reports_of_unknown_miners_are_counted(fleet: ReportingFleet) -> None:
    await fleet.report(sample(NEW, 1), sample(NEW, 2), sample(fleet.miner_ids[0], 1))
    assert fleet.counters.unknown_miner_records.counts == {(str(fleet.site_id), "telemetry"): 2}
