import pytest

from restante.commands.dispatch.rate_limits import (
    PRUNE_EVERY,
    Allowance,
    RateLimit,
    RateRules,
    allowance,
    read_windows,
    record_dispatches,
)
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from tests.conftest import START_MS, ManualClock

TYPE = "MINER_RESTART"
RULES = RateRules({TYPE: RateLimit(3, 10)}, RateLimit(2, 5))


@pytest.fixture(autouse=True)
def site(database: Database) -> None:
    add = Query("site", "INSERT INTO edge_sites (name, created_at) VALUES ('a', 0), ('b', 0)")
    database.write_now(lambda conn: conn.run(add))


def dispatch(database: Database, count: int, rules: RateRules = RULES, command_type: str = TYPE) -> None:
    def work(conn: Connection) -> None:
        (window,) = read_windows(conn, rules, [(1, command_type)]).values()
        for _ in range(count):
            window.acquire()
        record_dispatches(conn, [window])

    database.write_now(work)


def allowance_of(database: Database, site_id: int = 1, command_type: str = TYPE) -> Allowance:
    return database.read_now(allowance, RULES, site_id, command_type)


def test_default_limits_are_those_of_the_contract() -> None:
    rules = RateRules()
    assert rules.of("MINER_RESTART") == rules.of("DEVICE_REBOOT") == (5, 300)
    assert rules.of("HASHING_DISABLE") == (10, 300)
    assert rules.of("SET_FAN") == (20, 60)
    assert str(rules) == "MINER_RESTART=5/300, DEVICE_REBOOT=5/300, HASHING_DISABLE=10/300, default=20/60"


def test_window_slides(database: Database, clock: ManualClock) -> None:
    assert allowance_of(database) == (3, None)
    dispatch(database, 1)
    clock.advance(4)
    dispatch(database, 2)
    assert allowance_of(database) == (0, START_MS + 10_000)
    clock.advance(5.999)
    assert allowance_of(database).left == 0
    clock.advance(0.001)
    assert allowance_of(database) == (1, None)
    dispatch(database, 1)
    assert allowance_of(database) == (0, START_MS + 14_000)
    clock.advance(4)
    assert allowance_of(database) == (2, None)


def test_each_site_and_type_has_its_own_window(database: Database) -> None:
    dispatch(database, 3)
    assert allowance_of(database).left == 0
    assert allowance_of(database, site_id=2) == (3, None)
    assert allowance_of(database, command_type="SET_FAN") == (2, None)


def test_allowance_is_zero_not_negative_after_the_limit_was_lowered(database: Database) -> None:
    dispatch(database, 9, RateRules({TYPE: RateLimit(10, 10)}))
    assert allowance_of(database).left == 0


def test_clock_that_goes_back_frees_no_window(database: Database, clock: ManualClock) -> None:
    dispatch(database, 2)
    clock.advance(-3)
    dispatch(database, 1)
    assert allowance_of(database).left == 0
    clock.advance(12.999)
    assert allowance_of(database).left == 0
    clock.advance(0.001)
    assert allowance_of(database).left == 3


def test_dispatches_of_a_fast_clock_do_not_count_after_it_is_corrected(database: Database, clock: ManualClock) -> None:
    clock.advance(1000)
    dispatch(database, 3)
    clock.advance(-1000)
    assert allowance_of(database).left == 3


def test_dispatches_outside_every_window_are_deleted(database: Database, clock: ManualClock) -> None:
    many = RateRules({TYPE: RateLimit(1_000_000, 10)})
    for _ in range(5):
        dispatch(database, PRUNE_EVERY, many)
        clock.advance(20)
    rows = database.read_now(lambda conn: conn.one(Query("count", "SELECT COUNT(*) AS n FROM command_dispatches")))
    assert rows is not None
    assert rows["n"] <= PRUNE_EVERY
    assert database.read_now(allowance, many, 1, TYPE).left == 1_000_000
