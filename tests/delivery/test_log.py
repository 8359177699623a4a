import json
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from restante.core.cursor import START, Head, Position
from restante.core.errors import CursorExpired
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from restante.delivery import log
from restante.delivery.log import LogEntry, Published, Reading
from restante.delivery.signals import Signal
from tests.conftest import START_MS, ManualClock
from tests.delivery.rows import add_device, published, signal
from tests.examples import TIMES

ROWS = Query("rows", "SELECT ms, n, type, ts_ms FROM device_update_log WHERE device_id = :device_id ORDER BY n")


@pytest.fixture(autouse=True)
def _small_slack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "TRIM_SLACK", 2)


def append(database: Database, device: int, *signals: Signal, keep: int = 1000) -> Published:
    return database.write_now(log.append, device, signals, keep)


def read(database: Database, device: int, cursor: Position | None, limit: int = 20) -> Reading:
    return database.read_now(log.read, device, cursor, limit)


def head(database: Database, device: int) -> Head:
    return database.read_now(log.read_head, device)


def about(entries: Sequence[LogEntry]) -> list[object]:
    return [json.loads(entry.json)["ref"]["about"] for entry in entries]


def times(database: Database, device: int) -> list[tuple[str, int]]:
    rows = database.read_now(lambda conn: conn.all(ROWS, device_id=device))
    return [(row["type"], row["ts_ms"]) for row in rows]


def test_positions_count_without_gaps_and_take_the_clocks_milliseconds(
    database: Database, device: int, clock: ManualClock
) -> None:
    first = append(database, device, signal(1), signal(2))
    clock.advance(1)
    second = append(database, device, signal(3))
    assert [entry.position for entry in (*first.entries, *second.entries)] == [
        (START_MS, 1),
        (START_MS, 2),
        (START_MS + 1000, 3),
    ]


def test_a_clock_that_goes_back_takes_no_position_back(database: Database, device: int, clock: ManualClock) -> None:
    append(database, device, signal(1))
    clock.advance(-3600)
    append(database, device, signal(2))
    clock.advance(10)
    append(database, device, signal(3))
    assert head(database, device).newest == (START_MS, 3)
    assert about(read(database, device, Position(START_MS, 1)).entries) == [2, 3]


def test_each_device_counts_for_itself(database: Database, device: int, neighbour: int) -> None:
    append(database, device, signal(1), signal(2))
    append(database, neighbour, signal(3))
    assert head(database, neighbour).newest.n == 1
    assert (published(database, device), published(database, neighbour)) == ([1, 2], [3])


def test_what_was_published_is_announced_with_all_a_waiting_poll_needs(
    database: Database, device: int, clock: ManualClock
) -> None:
    heard: list[object] = []
    database.on_commit(heard.extend)
    append(database, device, signal(1))
    told = append(database, device, signal(2), signal(3))
    assert heard[1] == told
    assert (told.device_id, told.before, told.head) == (device, (START_MS, 1), head(database, device))
    assert list(told.entries) == read(database, device, told.before).entries


def test_a_device_that_never_had_a_signal(database: Database, device: int) -> None:
    assert head(database, device) == Head(START, START, START)
    assert read(database, device, None) == (Head(), [])
    assert read(database, device, START) == (Head(), [])
    with pytest.raises(CursorExpired) as expired:
        read(database, device, Position(1, 1))
    assert expired.value.params["reason"] == "cursor_unknown"


def test_publishing_nothing_changes_nothing(database: Database, device: int) -> None:
    heard: list[object] = []
    database.on_commit(heard.extend)
    assert append(database, device).entries == ()
    assert heard == []
    assert head(database, device) == Head()
    append(database, device, signal(1))
    assert head(database, device).earliest == (START_MS, 1)


def test_without_a_cursor_the_newest_are_read_oldest_of_them_first(database: Database, device: int) -> None:
    append(database, device, *(signal(n) for n in range(5)))
    assert about(read(database, device, None, 3).entries) == [2, 3, 4]
    assert about(read(database, device, None, 9).entries) == [0, 1, 2, 3, 4]


def test_after_a_cursor_the_next_are_read_in_order_and_no_more_than_the_limit(database: Database, device: int) -> None:
    told = append(database, device, *(signal(n) for n in range(5)))
    positions = [entry.position for entry in told.entries]
    assert about(read(database, device, START, 2).entries) == [0, 1]
    assert about(read(database, device, positions[1], 2).entries) == [2, 3]
    assert about(read(database, device, positions[3], 2).entries) == [4]
    assert read(database, device, positions[4], 2) == (head(database, device), [])


def test_a_cursor_beyond_the_newest_is_told_apart_from_a_trimmed_one(database: Database, device: int) -> None:
    append(database, device, *(signal(n) for n in range(6)), keep=3)
    newest = Position(START_MS, 6)
    assert head(database, device) == (newest, (START_MS, 3), (START_MS, 4))
    for cursor, reason in ((Position(START_MS, 7), "cursor_unknown"), (Position(START_MS, 2), "cursor_trimmed")):
        with pytest.raises(CursorExpired) as expired:
            read(database, device, cursor)
        assert expired.value.params == {
            "action": "full_resync",
            "reason": reason,
            "reset_cursor": f"{START_MS}-6",
            "earliest_retained_id": f"{START_MS}-4",
        }
    assert about(read(database, device, Position(START_MS, 3)).entries) == [3, 4, 5]


def test_the_log_is_trimmed_a_piece_at_a_time(database: Database, device: int, clock: ManualClock) -> None:
    lengths = []
    for n in range(12):
        clock.advance(1)
        append(database, device, signal(n), keep=3)
        lengths.append(len(times(database, device)))
    assert lengths == [1, 2, 3, 4, 5, 3, 4, 5, 3, 4, 5, 3]


def test_one_that_is_never_to_be_empty_keeps_at_least_one(database: Database, device: int) -> None:
    append(database, device, *(signal(n) for n in range(9)), keep=1)
    assert published_newest(database, device) == [8]
    assert head(database, device) == ((START_MS, 9), (START_MS, 8), (START_MS, 9))


def published_newest(database: Database, device: int) -> list[object]:
    return about(read(database, device, None, 100).entries)


def test_a_log_that_is_to_be_shorter_from_now_on_is_trimmed_with_the_next_signal(
    database: Database, device: int
) -> None:
    append(database, device, *(signal(n) for n in range(50)))
    append(database, device, signal(50), keep=4)
    assert published_newest(database, device) == [47, 48, 49, 50]


def test_signals_of_one_type_and_time_are_moved_on_by_a_millisecond(database: Database, device: int) -> None:
    append(database, device, signal(1, ts_ms=5), signal(2, ts_ms=5), signal(3, ts_ms=7))
    append(database, device, signal(4, ts_ms=5), signal(5, ts_ms=5), signal(6, type="y", ts_ms=5))
    assert times(database, device) == [("x", 5), ("x", 6), ("x", 7), ("x", 8), ("x", 9), ("y", 5)]


def test_a_burst_of_one_type_and_time_is_moved_on_in_one_step(database: Database, device: int) -> None:
    asked = 0

    class Counting:
        """The connection, with its statements counted."""

        def __init__(self, conn: Connection) -> None:
            self._conn = conn

        def __getattr__(self, name: str) -> object:
            nonlocal asked
            asked += name in ("all", "one", "run", "run_rows", "values", "values_later")
            return getattr(self._conn, name)

    def burst(conn: Connection) -> None:
        log.append(Counting(conn), device, [signal(n, ts_ms=5) for n in range(200)])  # type: ignore[arg-type]

    database.write_now(burst)
    database.write_now(burst)
    assert times(database, device) == [("x", 5 + n) for n in range(400)]
    # The head, the signals, the times that are taken, what is moved, and the head again; the first time one is made.
    assert asked == 7 + 5


def test_signals_for_several_devices_are_published_by_as_many_statements_as_for_one(
    database: Database, clock: ManualClock
) -> None:
    devices = [database.write_now(add_device) for _ in range(30)]
    database.write_now(log.append, devices[3], [signal(0, ts_ms=7)])
    asked = []

    def publish(conn: Connection, count: int) -> list[Published]:
        class Counting:
            def __getattr__(self, name: str) -> object:
                asked.append(name)
                return getattr(conn, name)

        wanted = {each: [signal(n, ts_ms=7 + n) for n in (1, 2)] for each in reversed(devices[:count])}
        return log.append_all(Counting(), wanted)  # type: ignore[arg-type]

    first = database.write_now(publish, 2)
    statements = [name for name in asked if name not in ("now_ms", "announce")]
    asked.clear()
    clock.advance(1)
    published = database.write_now(publish, 30)
    # Those of the first time are moved on, one by one.
    assert len([name for name in asked if name not in ("now_ms", "announce")]) <= len(statements) + 2 * 4
    assert {each.device_id for each in published} == set(devices)
    for each in published:
        already = 2 if each.device_id in devices[:2] else int(each.device_id == devices[3])
        assert (each.before.n, each.head.newest.n) == (already, already + 2)
        entries = read(database, each.device_id, each.before).entries
        assert tuple(entries) == each.entries
    assert {each.device_id for each in first} == set(devices[:2])


def test_what_a_device_reads_is_the_signal_with_the_time_it_was_given(database: Database, device: int) -> None:
    said = Signal('größe "neu"', 5, {"ü": [1, 2.5, None, {"a": "b"}], "big": 2**70})
    append(database, device, said, said)
    entries = read(database, device, None).entries
    assert [json.loads(entry.json) for entry in entries] == [
        {"type": said.type, "ts_ms": 5, "ref": said.ref},
        {"type": said.type, "ts_ms": 6, "ref": said.ref},
    ]


@settings(max_examples=40 * TIMES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.sampled_from("xy"), st.integers(0, 3)), max_size=7),
            st.integers(-2000, 2000),
            st.integers(1, 6),
        ),
        max_size=12,
    )
)
def test_the_head_always_says_exactly_what_the_log_holds(
    database: Database, clock: ManualClock, steps: list[tuple[list[tuple[str, int]], int, int]]
) -> None:
    database.write_now(lambda conn: conn.run(Query("clear", "DELETE FROM device_update_log")))
    database.write_now(lambda conn: conn.run(Query("clear", "DELETE FROM device_update_heads")))
    count = 0
    for signals, step_ms, keep in steps:
        clock.now_ms += step_ms
        append(database, 7, *(signal(0, type, ts) for type, ts in signals), keep=keep)
        count += len(signals)
        rows = database.read_now(lambda conn: conn.all(ROWS, device_id=7))
        positions = [Position(row["ms"], row["n"]) for row in rows]
        now = head(database, 7)
        assert positions == sorted(positions)
        assert [position.n for position in positions] == list(range(now.trimmed.n + 1, count + 1))
        assert len(positions) <= keep + log.TRIM_SLACK or not signals
        assert len({(row["type"], row["ts_ms"]) for row in rows}) == len(rows)
        if positions:
            assert (now.earliest, now.newest) == (positions[0], positions[-1])
            assert now.trimmed < positions[0]


def test_a_run_is_its_entries_whoever_asks() -> None:
    entries = [LogEntry(Position(5, 1), b"a"), LogEntry(Position(5, 2), b"b"), LogEntry(Position(7, 3), b"c")]
    run = log.Run([b"5-1", b"5-2", b"7-3"], [b"a", b"b", b"c"])
    assert list(run) == entries
    assert (run[0], run[-1], len(run)) == (entries[0], entries[-1], 3)
    assert list(run[1:]) == entries[1:]
    assert list(run[::-1]) == entries[::-1]
    assert log.jsons_of(run) == log.jsons_of(entries) == [b"a", b"b", b"c"]
