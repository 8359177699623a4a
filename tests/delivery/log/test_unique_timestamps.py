import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from restante.delivery.log import unique_timestamps
from tests.examples import EXAMPLES_FACTOR

_ADD = Query(
    "add",
    """INSERT INTO device_update_log (device_id, ms, n, type, ts_ms, ref)
       VALUES (:device_id, 1, :n, :type, :ts_ms, '{}')""",
)
_CLEAR = Query("clear", "DELETE FROM device_update_log")


def store_used(conn: Connection, *used: tuple[int, str, int]) -> None:
    conn.run(_CLEAR)
    rows = [{"device_id": row[0], "type": row[1], "ts_ms": row[2], "n": n} for n, row in enumerate(used)]
    conn.run_many(_ADD, rows)


def assigned(database: Database, device_id: int, *requested: tuple[str, int]) -> list[int]:
    return database.read_now(unique_timestamps.assign, device_id, list(requested))


def test_free_timestamp_is_kept(database: Database) -> None:
    database.write_now(store_used, (1, "x", 5))
    assert assigned(database, 1, ("x", 4), ("x", 6), ("y", 5)) == [4, 6, 5]
    assert assigned(database, 2, ("x", 5)) == [5]


def test_next_free_timestamp_is_assigned_gaps_included(database: Database) -> None:
    database.write_now(store_used, *((1, "x", ts) for ts in (5, 6, 9, 10)))
    assert assigned(database, 1, *[("x", 5)] * 4, ("x", 9)) == [7, 8, 11, 12, 13]


def test_assigned_timestamp_is_used_for_the_next_signal(database: Database) -> None:
    assert assigned(database, 1, ("x", 7), ("x", 5), ("x", 5), ("x", 6), ("x", 5)) == [7, 5, 6, 8, 9]


def test_further_chunks_are_read_as_needed(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unique_timestamps, "CHUNK_ROWS", 3)
    database.write_now(store_used, *((1, "x", ts) for ts in range(10)))
    assert assigned(database, 1, ("x", 0), ("x", 100), ("x", 3)) == [10, 100, 11]
    # The last chunk is exactly full.
    database.write_now(store_used, *((1, "x", ts) for ts in range(3)))
    assert assigned(database, 1, ("x", 0), ("x", 0)) == [3, 4]


@settings(
    max_examples=60 * EXAMPLES_FACTOR, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(
    st.sets(st.tuples(st.sampled_from("xy"), st.integers(0, 12))),
    st.lists(st.tuples(st.sampled_from("xy"), st.integers(0, 12)), min_size=1, max_size=12),
    st.sampled_from([1, 2, 5, 1000]),
)
def test_result_equals_probing_millisecond_by_millisecond(
    database: Database, used: set[tuple[str, int]], requested: list[tuple[str, int]], chunk_rows: int
) -> None:
    probed = []
    known = set(used)
    for type, ts_ms in requested:
        while (type, ts_ms) in known:
            ts_ms += 1
        known.add((type, ts_ms))
        probed.append(ts_ms)
    database.write_now(store_used, *((1, type, ts_ms) for type, ts_ms in sorted(used)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(unique_timestamps, "CHUNK_ROWS", chunk_rows)
        assert assigned(database, 1, *requested) == probed
