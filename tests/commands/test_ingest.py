import pytest

from restante.commands.ingest import PART
from restante.commands.telemetry_records import Batch, RecordError
from restante.database.database import Database
from tests.commands.reporting import World, sample
from tests.conftest import START_MS, ManualClock


@pytest.fixture
def world(database: Database, clock: ManualClock) -> World:
    return World(database, clock)


async def test_all_that_was_wrong_is_told_in_the_order_of_the_batch(world: World) -> None:
    good = sample(world.miner_ids[0], 0, 1)
    batch = Batch([sample(999, 0, 2), good, sample(world.foreign_miner, 0, 0)], [RecordError(3, "broken")])
    taken = await world.ingest.take(world.site_id, batch)
    assert [error.index for error in taken.errors] == [0, 2, 3]
    assert (taken.processed, taken.received_at) == (1, START_MS)


async def test_a_large_batch_is_written_in_parts_and_in_the_order_of_time(world: World, database: Database) -> None:
    miner = world.miner_ids[0]
    before = database.writes
    count = 2 * PART + 1
    batch = Batch([sample(miner, -place, place, n=-place) for place in range(count)], [])
    taken = await world.ingest.take(world.site_id, batch)
    assert (taken.processed, taken.errors) == (count, [])
    assert database.writes - before == 3
    assert world.history(miner) == [0, -1, -2, -3, -4]


async def test_the_lag_is_received_minus_record_time(world: World) -> None:
    miner = world.miner_ids[0]
    await world.report(sample(miner, -10), sample(miner, -20))
    assert world.totals.telemetry_lag_seconds == 15
    await world.report(sample(miner, 5))
    assert world.totals.telemetry_lag_seconds == 0


async def test_a_batch_without_a_good_record_says_nothing_of_the_lag(world: World) -> None:
    await world.report(sample(world.miner_ids[0], -10))
    taken = await world.ingest.take(world.site_id, Batch([sample(999, -99)], []))
    assert (taken.processed, len(taken.errors)) == (0, 1)
    empty = await world.ingest.take(world.site_id, Batch([], []))
    assert (empty.processed, empty.errors, empty.received_at) == (0, [], START_MS)
    assert world.totals.telemetry_lag_seconds == 10


async def test_evaluations_are_counted(world: World) -> None:
    world.add_rule()
    world.add_rule(miner_ids=[world.miner_ids[0]])
    world.add_rule(enabled=False)
    await world.report(sample(world.miner_ids[0], 0, temp_max=1), sample(world.miner_ids[1], 0, temp_max=1))
    assert world.totals.rule_evals == 3
