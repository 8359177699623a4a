from restante.database.database import Database
from restante.updates import rollout
from restante.updates.rollout import RolloutChanged
from tests.conftest import ManualClock


def test_a_rollout_lasts_until_its_end(database: Database, clock: ManualClock) -> None:
    assert database.read_now(rollout.current) is None
    started = database.write_now(rollout.start, 60, 10)
    assert database.read_now(rollout.current) == started
    clock.advance(59.9)
    assert database.read_now(rollout.current) == started
    clock.advance(0.1)
    assert database.read_now(rollout.current) is None


def test_a_second_rollout_takes_the_first_ones_place(database: Database) -> None:
    database.write_now(rollout.start, 60, 10)
    second = database.write_now(rollout.start, 600, 5)
    assert database.read_now(rollout.current) == second
    database.write_now(rollout.stop)
    assert database.read_now(rollout.current) is None


def test_every_change_is_announced(database: Database) -> None:
    heard: list[object] = []
    database.on_commit(heard.extend)
    started = database.write_now(rollout.start, 60, 10)
    database.write_now(rollout.stop)
    assert heard == [RolloutChanged(started), RolloutChanged(None)]
