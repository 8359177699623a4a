from restante.database.database import Database
from restante.updates.polling import poll_boost
from restante.updates.polling.poll_boost import PollBoostChanged
from tests.conftest import ManualClock


def test_poll_boost_lasts_until_its_end(database: Database, clock: ManualClock) -> None:
    assert database.read_now(poll_boost.current) is None
    started = database.write_now(poll_boost.start, 60, 10)
    assert database.read_now(poll_boost.current) == started
    clock.advance(59.9)
    assert database.read_now(poll_boost.current) == started
    clock.advance(0.1)
    assert database.read_now(poll_boost.current) is None


def test_second_poll_boost_replaces_the_first(database: Database) -> None:
    database.write_now(poll_boost.start, 60, 10)
    second = database.write_now(poll_boost.start, 600, 5)
    assert database.read_now(poll_boost.current) == second
    database.write_now(poll_boost.stop)
    assert database.read_now(poll_boost.current) is None


def test_start_and_stop_add_commit_events(database: Database) -> None:
    events: list[object] = []
    database.on_commit(events.extend)
    started = database.write_now(poll_boost.start, 60, 10)
    database.write_now(poll_boost.stop)
    assert events == [PollBoostChanged(started), PollBoostChanged(None)]
