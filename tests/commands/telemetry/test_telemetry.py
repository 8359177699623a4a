import msgspec
import pytest

from restante.commands.telemetry import telemetry
from restante.commands.telemetry.telemetry import AHEAD_SECONDS_MAX, StoreResult
from restante.commands.telemetry.telemetry_records import RecordError, Sample
from restante.core.errors import NotFound
from restante.database.paging import PageRequest
from tests.commands.reporting_fixture import HISTORY_RECORDS, UNKNOWN_MINERS_MAX, ReportingFleet, iso_at, sample
from tests.conftest import START_MS, ManualClock


def store(fleet: ReportingFleet, *samples: Sample, history_records: int = HISTORY_RECORDS) -> StoreResult:
    return fleet.database.write_now(telemetry.store, fleet.site_id, list(samples), history_records, UNKNOWN_MINERS_MAX)


def latest(fleet: ReportingFleet, miner_id: int) -> int | None:
    found = fleet.database.read_now(telemetry.read_miner, miner_id, 0, HISTORY_RECORDS).latest
    return None if found is None else msgspec.json.decode(found.record)["n"]


def test_newest_record_is_the_latest(fleet: ReportingFleet) -> None:
    miner, other = fleet.miner_ids[:2]
    stored = store(fleet, sample(miner, 1, n=1), sample(other, 1, n=7), sample(miner, 2, n=2))
    assert stored.errors == []
    assert (latest(fleet, miner), latest(fleet, other)) == (2, 7)
    assert latest(fleet, fleet.miner_ids[2]) is None


def test_batch_order_does_not_matter(fleet: ReportingFleet) -> None:
    miner = fleet.miner_ids[0]
    stored = store(fleet, sample(miner, 3, n=3), sample(miner, 1, n=1), sample(miner, 2, n=2))
    assert [each.fields["n"] for each in stored.fresh] == [1, 2, 3]
    assert latest(fleet, miner) == 3


def test_late_record_goes_to_history_and_is_not_fresh(fleet: ReportingFleet) -> None:
    miner = fleet.miner_ids[0]
    store(fleet, sample(miner, 10, n=10))
    assert store(fleet, sample(miner, 5, n=5)).fresh == []
    assert latest(fleet, miner) == 10
    assert fleet.history(miner) == [10, 5]


def test_late_record_uses_its_own_slot(fleet: ReportingFleet) -> None:
    miner = fleet.miner_ids[0]
    store(fleet, sample(miner, 10, n=10))
    store(fleet, sample(miner, 5, n=5))
    store(fleet, sample(miner, 11, n=11))
    assert fleet.history(miner) == [11, 10, 5]


def test_history_is_bounded(fleet: ReportingFleet) -> None:
    miner = fleet.miner_ids[0]
    for n in range(3 * HISTORY_RECORDS):
        store(fleet, sample(miner, n, n=n))
    assert fleet.history(miner) == [14, 13, 12, 11, 10]
    assert fleet.rows("SELECT count(*) AS n FROM telemetry_history")[0]["n"] == HISTORY_RECORDS


def test_recent_records_of_several_miners_are_read_at_once_oldest_first(fleet: ReportingFleet) -> None:
    first, second, silent = fleet.miner_ids[0], fleet.miner_ids[1], 999
    for n in range(2 * HISTORY_RECORDS):
        store(fleet, sample(first, n, n=n))
    store(fleet, sample(second, 1, n=1))
    found = fleet.database.read_now(telemetry.recent_records, [first, second, silent], 3, HISTORY_RECORDS)
    values = {miner: [msgspec.json.decode(record)["n"] for record in records] for miner, records in found.items()}
    assert values == {first: [7, 8, 9], second: [1]}
    assert fleet.database.read_now(telemetry.recent_records, [first], 100, HISTORY_RECORDS)[first][0].count('"n":5')


def test_batch_larger_than_the_ring_leaves_its_newest_records(fleet: ReportingFleet) -> None:
    miner = fleet.miner_ids[0]
    store(fleet, *(sample(miner, n, n=n) for n in range(2 * HISTORY_RECORDS)))
    assert fleet.history(miner) == [9, 8, 7, 6, 5]


def test_repeated_batch_is_stored_once(fleet: ReportingFleet) -> None:
    miner = fleet.miner_ids[0]
    batch = [sample(miner, n, n=n) for n in range(3)]
    store(fleet, *batch)
    again = store(fleet, *batch)
    assert again.errors == []
    assert [each.fields["n"] for each in again.fresh] == [2]
    assert fleet.history(miner) == [2, 1, 0]
    store(fleet, sample(miner, 3, n=3))
    assert fleet.history(miner) == [3, 2, 1, 0]


@pytest.mark.parametrize("count", [1, 3, 40])
def test_batch_repeated_after_others_changes_nothing(fleet: ReportingFleet, count: int) -> None:
    miner, history_records = fleet.miner_ids[0], 100
    batch = [sample(miner, n, n=n) for n in range(count)]
    store(fleet, *batch, history_records=history_records)
    store(fleet, *(sample(miner, count + n, n=count + n) for n in range(10)), history_records=history_records)
    assert store(fleet, *batch, history_records=history_records).fresh == []
    assert fleet.rows("SELECT count(*) AS n FROM telemetry_history")[0]["n"] == count + 10


def test_miner_of_another_site_is_refused(fleet: ReportingFleet) -> None:
    stored = store(fleet, sample(fleet.foreign_miner, 1, 0), sample(fleet.miner_ids[0], 1, 2, n=1))
    assert stored.errors == [RecordError(0, "miner_id: expected the id of a miner of the site")]
    assert latest(fleet, fleet.miner_ids[0]) == 1
    assert fleet.rows("SELECT miner_id FROM telemetry_latest")[0]["miner_id"] == fleet.miner_ids[0]


def test_record_from_the_future_is_refused(fleet: ReportingFleet) -> None:
    miner = fleet.miner_ids[0]
    assert store(fleet, sample(miner, AHEAD_SECONDS_MAX, n=1)).errors == []
    [error] = store(fleet, sample(miner, AHEAD_SECONDS_MAX + 1, 4, n=2)).errors
    assert (error.index, error.error) == (4, "ts: expected a time that is not in the future")
    assert latest(fleet, miner) == 1


def test_rows_beyond_a_smaller_ring_are_deleted(fleet: ReportingFleet) -> None:
    miner = fleet.miner_ids[0]
    store(fleet, *(sample(miner, n, n=n) for n in range(5)))
    assert fleet.database.write_now(telemetry.delete_beyond, 3) == 2
    assert fleet.database.write_now(telemetry.delete_beyond, 3) == 0
    # The slot of the newest record is beyond the smaller ring: sent again, the record gets another slot.
    store(fleet, sample(miner, 4, n=40), history_records=3)
    slots = [row["slot"] for row in fleet.rows("SELECT slot FROM telemetry_history ORDER BY slot")]
    assert slots == [0, 1, 2]


def test_miner_shows_record_times_and_texts(fleet: ReportingFleet, clock: ManualClock) -> None:
    miner = fleet.miner_ids[0]
    clock.advance(7)
    store(fleet, sample(miner, 1.25, n=1))
    shown = fleet.database.read_now(telemetry.read_miner, miner, 10, HISTORY_RECORDS)
    assert shown.latest is not None
    assert (shown.latest.ts, shown.latest.received_at) == ("2027-01-15T08:00:01.250Z", "2027-01-15T08:00:07.000Z")
    assert msgspec.json.decode(shown.history[0].record) == {"miner_id": miner, "ts": iso_at(1.25), "n": 1}
    with pytest.raises(NotFound):
        fleet.database.read_now(telemetry.read_miner, 999, 10, HISTORY_RECORDS)


def test_newest_records_of_a_site_are_listed_in_pages(fleet: ReportingFleet) -> None:
    for miner in fleet.miner_ids[:3]:
        store(fleet, sample(miner, 1, n=miner))
    first = fleet.database.read_now(telemetry.latest_page, fleet.site_id, PageRequest(2, 0))
    assert [each.miner_id for each in first.items] == fleet.miner_ids[:2]
    assert first.next == fleet.miner_ids[1]
    rest = fleet.database.read_now(telemetry.latest_page, fleet.site_id, PageRequest(2, first.next))
    assert [each.miner_id for each in rest.items] == fleet.miner_ids[2:3]
    assert fleet.database.read_now(telemetry.latest_page, fleet.other_id, PageRequest(2, 0)).items == []


def test_start_time_matches_the_texts_in_these_tests() -> None:
    assert iso_at(0) == "2027-01-15T08:00:00Z"
    assert START_MS % 1000 == 0
