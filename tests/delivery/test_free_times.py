import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from restante.delivery import free_times
from tests.examples import TIMES

_ADD = Query(
    "add",
    """INSERT INTO device_update_log (device_id, ms, n, type, ts_ms, ref)
       VALUES (:device_id, 1, :n, :type, :ts_ms, '{}')""",
)
_CLEAR = Query("clear", "DELETE FROM device_update_log")


def taken_before(conn: Connection, *taken: tuple[int, str, int]) -> None:
    conn.run(_CLEAR)
    rows = [{"device_id": row[0], "type": row[1], "ts_ms": row[2], "n": n} for n, row in enumerate(taken)]
    conn.run_many(_ADD, rows)


def given_times(database: Database, device_id: int, *wanted: tuple[str, int]) -> list[int]:
    return database.read_now(free_times.give, device_id, list(wanted))


def test_a_time_that_is_free_is_given_as_it_is(database: Database) -> None:
    database.write_now(taken_before, (1, "x", 5))
    assert given_times(database, 1, ("x", 4), ("x", 6), ("y", 5)) == [4, 6, 5]
    assert given_times(database, 2, ("x", 5)) == [5]


def test_the_first_free_one_after_it_is_given_gaps_included(database: Database) -> None:
    database.write_now(taken_before, *((1, "x", ts) for ts in (5, 6, 9, 10)))
    assert given_times(database, 1, *[("x", 5)] * 4, ("x", 9)) == [7, 8, 11, 12, 13]


def test_what_is_given_is_taken_for_the_next(database: Database) -> None:
    assert given_times(database, 1, ("x", 7), ("x", 5), ("x", 5), ("x", 6), ("x", 5)) == [7, 5, 6, 8, 9]


def test_times_are_read_on_where_a_piece_does_not_reach(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(free_times, "PIECE_ROWS", 3)
    database.write_now(taken_before, *((1, "x", ts) for ts in range(10)))
    assert given_times(database, 1, ("x", 0), ("x", 100), ("x", 3)) == [10, 100, 11]
    # A piece that ends just where the taken times do.
    database.write_now(taken_before, *((1, "x", ts) for ts in range(3)))
    assert given_times(database, 1, ("x", 0), ("x", 0)) == [3, 4]


@settings(max_examples=60 * TIMES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    st.sets(st.tuples(st.sampled_from("xy"), st.integers(0, 12))),
    st.lists(st.tuples(st.sampled_from("xy"), st.integers(0, 12)), min_size=1, max_size=12),
    st.sampled_from([1, 2, 5, 1000]),
)
def test_as_one_who_probes_a_millisecond_at_a_time(
    database: Database, taken: set[tuple[str, int]], wanted: list[tuple[str, int]], piece_rows: int
) -> None:
    probed = []
    known = set(taken)
    for type, ts_ms in wanted:
        while (type, ts_ms) in known:
            ts_ms += 1
        known.add((type, ts_ms))
        probed.append(ts_ms)
    database.write_now(taken_before, *((1, type, ts_ms) for type, ts_ms in sorted(taken)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(free_times, "PIECE_ROWS", piece_rows)
        assert given_times(database, 1, *wanted) == probed
