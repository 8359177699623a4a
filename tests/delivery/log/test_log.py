import json
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from restante.core.cursor import START, LogHead, Position
from restante.core.errors import CursorExpired
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from restante.delivery.log import log
from restante.delivery.log.log import LogEntry, LogSlice, SignalsPublished
from restante.delivery.log.signals import Signal
from tests.conftest import START_MS, ManualClock
from tests.defaults import append_all_signals, append_signals
from tests.delivery.rows import add_device, published, signal
from tests.examples import EXAMPLES_FACTOR

ROWS = Query("rows", "SELECT ms, n, type, ts_ms FROM device_update_log WHERE device_id = :device_id ORDER BY n")


@pytest.fixture(autouse=True)
def _small_slack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log, "TRIM_SLACK", 2)


def append(database: Database, device: int, *signals: Signal, keep: int = 1000) -> SignalsPublished:
    return database.write_now(append_signals, device, signals, keep)


def read(database: Database, device: int, cursor: Position | None, limit: int = 20) -> LogSlice:
    return database.read_now(log.read, device, cursor, limit)


def head(database: Database, device: int) -> LogHead:
    return database.read_now(log.read_head, device)


def about(entries: Sequence[LogEntry]) -> list[object]:
    return [json.loads(entry.json)["ref"]["about"] for entry in entries]


def times(database: Database, device: int) -> list[tuple[str, int]]:
    rows = database.read_now(lambda conn: conn.all(ROWS, device_id=device))
    return [(row["type"], row["ts_ms"]) for row in rows]


def test_positions_count_without_gaps_and_have_the_time_of_the_clock(
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


def test_positions_never_go_back_with_the_clock(database: Database, device: int, clock: ManualClock) -> None:
    append(database, device, signal(1))
    clock.advance(-3600)
    append(database, device, signal(2))
    clock.advance(10)
    append(database, device, signal(3))
    assert head(database, device).newest == (START_MS, 3)
    assert about(read(database, device, Position(START_MS, 1)).entries) == [2, 3]


def test_each_device_has_its_own_counter(database: Database, device: int, other_device: int) -> None:
    append(database, device, signal(1), signal(2))
    append(database, other_device, signal(3))
    assert head(database, other_device).newest.n == 1
    assert (published(database, device), published(database, other_device)) == ([1, 2], [3])


def test_commit_event_has_everything_that_a_parked_poll_needs(
    database: Database, device: int, clock: ManualClock
) -> None:
    committed: list[object] = []
    database.on_commit(committed.extend)
    append(database, device, signal(1))
    event = append(database, device, signal(2), signal(3))
    assert committed[1] == event
    assert (event.device_id, event.before, event.head) == (device, (START_MS, 1), head(database, device))
    assert list(event.entries) == read(database, device, event.before).entries


def test_log_of_a_device_without_signals_is_empty(database: Database, device: int) -> None:
    assert head(database, device) == LogHead(START, START, START)
    assert read(database, device, None) == LogSlice(LogHead(), [])
    assert read(database, device, START) == LogSlice(LogHead(), [])
    with pytest.raises(CursorExpired) as expired:
        read(database, device, Position(1, 1))
    assert expired.value.params["reason"] == "cursor_unknown"


def test_publishing_nothing_changes_nothing(database: Database, device: int) -> None:
    committed: list[object] = []
    database.on_commit(committed.extend)
    assert append(database, device).entries == ()
    assert committed == []
    assert head(database, device) == LogHead()
    append(database, device, signal(1))
    assert head(database, device).earliest == (START_MS, 1)


def test_without_a_cursor_the_newest_signals_are_read_oldest_first(database: Database, device: int) -> None:
    append(database, device, *(signal(n) for n in range(5)))
    assert about(read(database, device, None, 3).entries) == [2, 3, 4]
    assert about(read(database, device, None, 9).entries) == [0, 1, 2, 3, 4]


def test_signals_after_a_cursor_are_read_in_order_up_to_the_limit(database: Database, device: int) -> None:
    event = append(database, device, *(signal(n) for n in range(5)))
    positions = [entry.position for entry in event.entries]
    assert about(read(database, device, START, 2).entries) == [0, 1]
    assert about(read(database, device, positions[1], 2).entries) == [2, 3]
    assert about(read(database, device, positions[3], 2).entries) == [4]
    assert read(database, device, positions[4], 2) == LogSlice(head(database, device), [])


def test_unknown_and_trimmed_cursors_are_distinguished(database: Database, device: int) -> None:
    append(database, device, *(signal(n) for n in range(6)), keep=3)
    newest = Position(START_MS, 6)
    assert head(database, device) == LogHead(newest, Position(START_MS, 3), Position(START_MS, 4))
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


def test_log_is_trimmed_in_steps(database: Database, device: int, clock: ManualClock) -> None:
    lengths = []
    for n in range(12):
        clock.advance(1)
        append(database, device, signal(n), keep=3)
        lengths.append(len(times(database, device)))
    assert lengths == [1, 2, 3, 4, 5, 3, 4, 5, 3, 4, 5, 3]


def test_log_that_keeps_one_signal_is_never_empty(database: Database, device: int) -> None:
    append(database, device, *(signal(n) for n in range(9)), keep=1)
    assert published_newest(database, device) == [8]
    newest = Position(START_MS, 9)
    assert head(database, device) == LogHead(newest, trimmed=Position(START_MS, 8), earliest=newest)


def published_newest(database: Database, device: int) -> list[object]:
    return about(read(database, device, None, 100).entries)


def test_shorter_log_is_trimmed_with_the_next_signal(database: Database, device: int) -> None:
    append(database, device, *(signal(n) for n in range(50)))
    append(database, device, signal(50), keep=4)
    assert published_newest(database, device) == [47, 48, 49, 50]


def test_signals_with_equal_type_and_timestamp_move_by_a_millisecond(database: Database, device: int) -> None:
    append(database, device, signal(1, ts_ms=5), signal(2, ts_ms=5), signal(3, ts_ms=7))
    append(database, device, signal(4, ts_ms=5), signal(5, ts_ms=5), signal(6, type="y", ts_ms=5))
    assert times(database, device) == [("x", 5), ("x", 6), ("x", 7), ("x", 8), ("x", 9), ("y", 5)]


def test_burst_with_equal_type_and_timestamp_needs_few_statements(database: Database, device: int) -> None:
    statements = 0

    class Counting:
        """A connection that counts its statements."""

        def __init__(self, conn: Connection) -> None:
            self._conn = conn

        def __getattr__(self, name: str) -> object:
            nonlocal statements
            statements += name in ("all", "one", "run", "run_rows", "values", "prefetch")
            return getattr(self._conn, name)

    def burst(conn: Connection) -> None:
        append_signals(Counting(conn), device, [signal(n, ts_ms=5) for n in range(200)])  # type: ignore[arg-type]

    database.write_now(burst)
    database.write_now(burst)
    assert times(database, device) == [("x", 5 + n) for n in range(400)]
    # Heads, signals, used timestamps, moved signals, heads; the first time the head is created as well.
    assert statements == 7 + 5


def test_signals_for_several_devices_need_as_many_statements_as_for_one(database: Database, clock: ManualClock) -> None:
    devices = [database.write_now(add_device) for _ in range(30)]
    database.write_now(append_signals, devices[3], [signal(0, ts_ms=7)])
    calls: list[str] = []

    def publish(conn: Connection, count: int) -> list[SignalsPublished]:
        class Counting:
            def __getattr__(self, name: str) -> object:
                calls.append(name)
                return getattr(conn, name)

        signals = {each: [signal(n, ts_ms=7 + n) for n in (1, 2)] for each in reversed(devices[:count])}
        return append_all_signals(Counting(), signals)  # type: ignore[arg-type]

    first = database.write_now(publish, 2)
    statements = [name for name in calls if name not in ("now_ms", "add_commit_event")]
    calls.clear()
    clock.advance(1)
    published = database.write_now(publish, 30)
    # The signals of devices[:2] and devices[3] collide and are moved, device by device.
    assert len([name for name in calls if name not in ("now_ms", "add_commit_event")]) <= len(statements) + 2 * 4
    assert {each.device_id for each in published} == set(devices)
    for each in published:
        already = 2 if each.device_id in devices[:2] else int(each.device_id == devices[3])
        assert (each.before.n, each.head.newest.n) == (already, already + 2)
        entries = read(database, each.device_id, each.before).entries
        assert tuple(entries) == each.entries
    assert {each.device_id for each in first} == set(devices[:2])


def test_device_reads_the_signal_with_its_assigned_timestamp(database: Database, device: int) -> None:
    original = Signal('größe "neu"', 5, {"ü": [1, 2.5, None, {"a": "b"}], "big": 2**70})
    append(database, device, original, original)
    entries = read(database, device, None).entries
    assert [json.loads(entry.json) for entry in entries] == [
        {"type": original.type, "ts_ms": 5, "ref": original.ref},
        {"type": original.type, "ts_ms": 6, "ref": original.ref},
    ]


@settings(
    max_examples=40 * EXAMPLES_FACTOR, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
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
def test_head_always_describes_the_log_exactly(
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


def test_encoded_entries_behave_like_a_list_of_entries() -> None:
    entries = [LogEntry(Position(5, 1), b"a"), LogEntry(Position(5, 2), b"b"), LogEntry(Position(7, 3), b"c")]
    encoded = log.EncodedEntries([b"5-1", b"5-2", b"7-3"], [b"a", b"b", b"c"])
    assert list(encoded) == entries
    assert (encoded[0], encoded[-1], len(encoded)) == (entries[0], entries[-1], 3)
    assert list(encoded[1:]) == entries[1:]
    assert list(encoded[::-1]) == entries[::-1]
    assert log.jsons_of(encoded) == log.jsons_of(entries) == [b"a", b"b", b"c"]
