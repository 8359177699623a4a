from restante.database.database import Database
from restante.updates.polling import rollout
from restante.updates.polling.rollout import RolloutChanged
from tests.conftest import ManualClock


def test_rollout_lasts_until_its_end(database: Database, clock: ManualClock) -> None:
    assert database.read_now(rollout.current) is None
    started = database.write_now(rollout.start, 60, 10)
    assert database.read_now(rollout.current) == started
    clock.advance(59.9)
    assert database.read_now(rollout.current) == started
    clock.advance(0.1)
    assert database.read_now(rollout.current) is None


def test_second_rollout_replaces_the_first(database: Database) -> None:
    database.write_now(rollout.start, 60, 10)
    second = database.write_now(rollout.start, 600, 5)
    assert database.read_now(rollout.current) == second
    database.write_now(rollout.stop)
    assert database.read_now(rollout.current) is None


def test_start_and_stop_add_commit_events(database: Database) -> None:
    events: list[object] = []
    database.on_commit(events.extend)
    started = database.write_now(rollout.start, 60, 10)
    database.write_now(rollout.stop)
    assert events == [RolloutChanged(started), RolloutChanged(None)]
