import msgspec
import pytest

from restante.commands import telemetry
from restante.commands.telemetry import AHEAD_SECONDS_MAX, Stored
from restante.commands.telemetry_records import Sample
from restante.core.errors import NotFound
from restante.database.database import Database
from restante.web.paging import Window
from tests.commands.reporting import KEEP, World, iso_at, sample
from tests.conftest import START_MS, ManualClock


@pytest.fixture
def world(database: Database, clock: ManualClock) -> World:
    return World(database, clock)


def store(world: World, *samples: Sample, keep: int = KEEP) -> Stored:
    return world.database.write_now(telemetry.store, world.site_id, list(samples), keep)


def latest(world: World, miner_id: int) -> int | None:
    found = world.database.read_now(telemetry.of_miner, miner_id, 0, KEEP).latest
    return None if found is None else msgspec.json.decode(found.record)["n"]


def test_the_newest_record_is_the_latest(world: World) -> None:
    miner, other = world.miner_ids[:2]
    stored = store(world, sample(miner, 1, n=1), sample(other, 1, n=7), sample(miner, 2, n=2))
    assert stored.errors == []
    assert (latest(world, miner), latest(world, other)) == (2, 7)
    assert latest(world, world.miner_ids[2]) is None


def test_the_order_of_a_batch_does_not_matter(world: World) -> None:
    miner = world.miner_ids[0]
    stored = store(world, sample(miner, 3, n=3), sample(miner, 1, n=1), sample(miner, 2, n=2))
    assert [each.fields["n"] for each in stored.fresh] == [1, 2, 3]
    assert latest(world, miner) == 3


def test_a_late_record_is_history_and_no_news(world: World) -> None:
    miner = world.miner_ids[0]
    store(world, sample(miner, 10, n=10))
    assert store(world, sample(miner, 5, n=5)).fresh == []
    assert latest(world, miner) == 10
    assert world.history(miner) == [10, 5]


def test_a_late_record_takes_a_slot_of_its_own(world: World) -> None:
    miner = world.miner_ids[0]
    store(world, sample(miner, 10, n=10))
    store(world, sample(miner, 5, n=5))
    store(world, sample(miner, 11, n=11))
    assert world.history(miner) == [11, 10, 5]


def test_the_history_is_bounded(world: World) -> None:
    miner = world.miner_ids[0]
    for n in range(3 * KEEP):
        store(world, sample(miner, n, n=n))
    assert world.history(miner) == [14, 13, 12, 11, 10]
    assert world.rows("SELECT count(*) AS n FROM telemetry_history")[0]["n"] == KEEP


def test_a_batch_larger_than_the_ring_leaves_its_newest(world: World) -> None:
    miner = world.miner_ids[0]
    store(world, *(sample(miner, n, n=n) for n in range(2 * KEEP)))
    assert world.history(miner) == [9, 8, 7, 6, 5]


def test_what_is_sent_again_is_there_once(world: World) -> None:
    miner = world.miner_ids[0]
    batch = [sample(miner, n, n=n) for n in range(3)]
    store(world, *batch)
    again = store(world, *batch)
    assert again.errors == []
    assert [each.fields["n"] for each in again.fresh] == [2]
    assert world.history(miner) == [2, 1, 0]
    store(world, sample(miner, 3, n=3))
    assert world.history(miner) == [3, 2, 1, 0]


@pytest.mark.parametrize("count", [1, 3, 40])
def test_a_batch_that_is_repeated_after_others_changes_nothing(world: World, count: int) -> None:
    miner, keep = world.miner_ids[0], 100
    batch = [sample(miner, n, n=n) for n in range(count)]
    store(world, *batch, keep=keep)
    store(world, *(sample(miner, count + n, n=count + n) for n in range(10)), keep=keep)
    assert store(world, *batch, keep=keep).fresh == []
    assert world.rows("SELECT count(*) AS n FROM telemetry_history")[0]["n"] == count + 10


def test_foreign_and_absent_miners_are_the_same_error(world: World) -> None:
    stored = store(world, sample(world.foreign_miner, 1, 0), sample(999, 1, 1), sample(world.miner_ids[0], 1, 2, n=1))
    assert {error.index for error in stored.errors} == {0, 1}
    assert len({error.error for error in stored.errors}) == 1
    assert latest(world, world.miner_ids[0]) == 1
    assert world.rows("SELECT miner_id FROM telemetry_latest")[0]["miner_id"] == world.miner_ids[0]


def test_the_future_is_not_taken(world: World) -> None:
    miner = world.miner_ids[0]
    assert store(world, sample(miner, AHEAD_SECONDS_MAX, n=1)).errors == []
    [error] = store(world, sample(miner, AHEAD_SECONDS_MAX + 1, 4, n=2)).errors
    assert (error.index, error.error) == (4, "ts: expected a time that is not in the future")
    assert latest(world, miner) == 1


def test_a_smaller_ring_is_swept(world: World) -> None:
    miner = world.miner_ids[0]
    store(world, *(sample(miner, n, n=n) for n in range(5)))
    assert world.database.write_now(telemetry.forget_beyond, 3) == 2
    assert world.database.write_now(telemetry.forget_beyond, 3) == 0
    # The newest was beyond the smaller ring: sent again, it has to find another place.
    store(world, sample(miner, 4, n=40), keep=3)
    slots = [row["slot"] for row in world.rows("SELECT slot FROM telemetry_history ORDER BY slot")]
    assert slots == [0, 1, 2]


def test_what_is_told_of_a_miner(world: World, clock: ManualClock) -> None:
    miner = world.miner_ids[0]
    clock.advance(7)
    store(world, sample(miner, 1.25, n=1))
    told = world.database.read_now(telemetry.of_miner, miner, 10, KEEP)
    assert told.latest is not None
    assert (told.latest.ts, told.latest.received_at) == ("2027-01-15T08:00:01.250Z", iso_at(7))
    assert msgspec.json.decode(told.history[0].record) == {"miner_id": miner, "ts": iso_at(1.25), "n": 1}
    with pytest.raises(NotFound):
        world.database.read_now(telemetry.of_miner, 999, 10, KEEP)


def test_the_latest_of_a_site_in_pages(world: World) -> None:
    for miner in world.miner_ids[:3]:
        store(world, sample(miner, 1, n=miner))
    first = world.database.read_now(telemetry.latest_page, world.site_id, Window(2, 0))
    assert [each.miner_id for each in first.items] == world.miner_ids[:2]
    assert first.next == world.miner_ids[1]
    rest = world.database.read_now(telemetry.latest_page, world.site_id, Window(2, first.next))
    assert [each.miner_id for each in rest.items] == world.miner_ids[2:3]
    assert world.database.read_now(telemetry.latest_page, world.other_id, Window(2, 0)).items == []


def test_the_time_of_the_start_is_what_these_tests_think() -> None:
    assert iso_at(0) == "2027-01-15T08:00:00Z"
    assert START_MS % 1000 == 0
