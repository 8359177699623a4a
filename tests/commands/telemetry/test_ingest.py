from restante.commands.telemetry.ingest import PART_RECORDS
from restante.commands.telemetry.telemetry_records import Batch, RecordError
from restante.database.database import Database
from tests.commands.reporting_fixture import ReportingFleet, sample
from tests.conftest import START_MS


async def test_errors_are_returned_in_batch_order(fleet: ReportingFleet) -> None:
    good = sample(fleet.miner_ids[0], 0, 1)
    batch = Batch([sample(2**53 + 1, 0, 2), good, sample(fleet.foreign_miner, 0, 0)], [RecordError(3, "broken")])
    result = await fleet.ingest.accept(fleet.site_id, batch)
    assert [error.index for error in result.errors] == [0, 2, 3]
    assert (result.processed, result.received_at) == (1, START_MS)


async def test_large_batch_is_written_in_parts_ordered_by_time(fleet: ReportingFleet, database: Database) -> None:
    miner = fleet.miner_ids[0]
    before = database.writes
    count = 2 * PART_RECORDS + 1
    batch = Batch([sample(miner, -index, index, n=-index) for index in range(count)], [])
    result = await fleet.ingest.accept(fleet.site_id, batch)
    assert (result.processed, result.errors) == (count, [])
    assert database.writes - before == 3
    assert fleet.history(miner) == [0, -1, -2, -3, -4]


async def test_lag_is_received_time_minus_record_time(fleet: ReportingFleet) -> None:
    miner = fleet.miner_ids[0]
    await fleet.report(sample(miner, -10), sample(miner, -20))
    assert fleet.counters.telemetry_lag_seconds == 15
    await fleet.report(sample(miner, 5))
    assert fleet.counters.telemetry_lag_seconds == 0


async def test_batch_without_a_valid_record_leaves_the_lag(fleet: ReportingFleet) -> None:
    await fleet.report(sample(fleet.miner_ids[0], -10))
    result = await fleet.ingest.accept(fleet.site_id, Batch([sample(fleet.foreign_miner, -99)], []))
    assert (result.processed, len(result.errors)) == (0, 1)
    empty = await fleet.ingest.accept(fleet.site_id, Batch([], []))
    assert (empty.processed, empty.errors, empty.received_at) == (0, [], START_MS)
    assert fleet.counters.telemetry_lag_seconds == 10


async def test_rule_evaluations_are_counted(fleet: ReportingFleet) -> None:
    fleet.add_rule()
    fleet.add_rule(miner_ids=[fleet.miner_ids[0]])
    fleet.add_rule(enabled=False)
    await fleet.report(sample(fleet.miner_ids[0], 0, temp_max=1), sample(fleet.miner_ids[1], 0, temp_max=1))
    assert fleet.counters.rule_evals == 3
