import pytest

from restante.commands.rate_windows import (
    PRUNE_EVERY,
    Allowance,
    RateLimit,
    RateRules,
    allowance,
    note_taken,
    windows_of,
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


def take(database: Database, count: int, rules: RateRules = RULES, command_type: str = TYPE) -> None:
    def work(conn: Connection) -> None:
        (window,) = windows_of(conn, rules, [(1, command_type)]).values()
        for _ in range(count):
            window.take()
        note_taken(conn, [window])

    database.write_now(work)


def left(database: Database, site_id: int = 1, command_type: str = TYPE) -> Allowance:
    return database.read_now(allowance, RULES, site_id, command_type)


def test_the_longer_table_of_the_contract_holds() -> None:
    rules = RateRules()
    assert rules.of("MINER_RESTART") == rules.of("DEVICE_REBOOT") == (5, 300)
    assert rules.of("HASHING_DISABLE") == (10, 300)
    assert rules.of("SET_FAN") == (20, 60)
    assert str(rules) == "MINER_RESTART=5/300, DEVICE_REBOOT=5/300, HASHING_DISABLE=10/300, default=20/60"


def test_a_window_slides(database: Database, clock: ManualClock) -> None:
    assert left(database) == (3, None)
    take(database, 1)
    clock.advance(4)
    take(database, 2)
    assert left(database) == (0, START_MS + 10_000)
    clock.advance(5.999)
    assert left(database).left == 0
    clock.advance(0.001)
    assert left(database) == (1, None)
    take(database, 1)
    assert left(database) == (0, START_MS + 14_000)
    clock.advance(4)
    assert left(database) == (2, None)


def test_windows_are_of_one_site_and_one_type(database: Database) -> None:
    take(database, 3)
    assert left(database).left == 0
    assert left(database, site_id=2) == (3, None)
    assert left(database, command_type="SET_FAN") == (2, None)


def test_a_lowered_limit_leaves_nothing_and_never_less(database: Database) -> None:
    take(database, 9, RateRules({TYPE: RateLimit(10, 10)}))
    assert left(database).left == 0


def test_a_clock_that_goes_back_opens_no_window(database: Database, clock: ManualClock) -> None:
    take(database, 2)
    clock.advance(-3)
    take(database, 1)
    assert left(database).left == 0
    clock.advance(12.999)
    assert left(database).left == 0
    clock.advance(0.001)
    assert left(database).left == 3


def test_a_clock_that_ran_ahead_closes_none(database: Database, clock: ManualClock) -> None:
    clock.advance(1000)
    take(database, 3)
    clock.advance(-1000)
    assert left(database).left == 3


def test_what_no_window_counts_is_pruned(database: Database, clock: ManualClock) -> None:
    many = RateRules({TYPE: RateLimit(1_000_000, 10)})
    for _ in range(5):
        take(database, PRUNE_EVERY, many)
        clock.advance(20)
    rows = database.read_now(lambda conn: conn.one(Query("count", "SELECT COUNT(*) AS n FROM command_dispatches")))
    assert rows is not None
    assert rows["n"] <= PRUNE_EVERY
    assert database.read_now(allowance, many, 1, TYPE).left == 1_000_000
