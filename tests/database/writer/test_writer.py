import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest

from restante.database import sqlite
from restante.database.commit_events import ForeignCommit
from restante.database.connection import Connection
from restante.database.engine import Engine
from restante.database.errors import DatabaseError, DatabaseUnavailable, UniqueViolation
from restante.database.queries import Query
from restante.database.sqlite import SqliteEngine
from restante.database.writer import writer
from restante.database.writer.writer import Writer
from tests.database.notes_table import Refused, add, add_then_refuse, add_with_event, everything, refuse

TIMEOUT_SECONDS = 10.0


class RecordingListener:
    """Records the commit events of a writer, and waits for one."""

    def __init__(self) -> None:
        self.batches: list[list[object]] = []
        self._changed = threading.Condition()

    def __call__(self, commit_events: list[object]) -> None:
        with self._changed:
            self.batches.append(commit_events)
            self._changed.notify_all()

    @property
    def events(self) -> list[object]:
        return [event for batch in self.batches for event in batch]

    def wait_for(self, event: object) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: event in self.events, TIMEOUT_SECONDS)


class WriterHarness:
    """A writer whose thread can be blocked: writes that are submitted meanwhile become one batch."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.listener = RecordingListener()
        self.writer = Writer([engine.connect(writable=True)], [self.listener])
        self._is_blocked, self._unblocked = threading.Event(), threading.Event()

    def block(self) -> None:
        def wait(_conn: Connection) -> None:
            self._is_blocked.set()
            assert self._unblocked.wait(TIMEOUT_SECONDS)

        self.writer.submit(wait)
        assert self._is_blocked.wait(TIMEOUT_SECONDS)

    def unblock(self) -> None:
        self._unblocked.set()

    def run_as_batch(self, *works: Callable[[Connection], Any]) -> list[Future[Any]]:
        """Run the writes as one batch, and return their futures."""
        self.block()
        futures = [self.writer.submit(work) for work in works]
        commits = self.writer.commits
        self.unblock()
        for future in futures:
            future.exception(TIMEOUT_SECONDS)
        self.commits_of_batch = self.writer.commits - commits - 1
        return futures

    def notes(self) -> list[str]:
        conn = self.engine.connect(writable=False)
        conn.begin()
        try:
            return everything(conn)
        finally:
            conn.close()


@pytest.fixture
def harness(engine: Engine) -> Iterator[WriterHarness]:
    harness = WriterHarness(engine)
    yield harness
    harness.unblock()
    harness.writer.close()


@pytest.fixture
def sqlite_harness(sqlite_engine: SqliteEngine) -> Iterator[WriterHarness]:
    harness = WriterHarness(sqlite_engine)
    yield harness
    harness.unblock()
    harness.writer.close()


def adding(text: str) -> Callable[[Connection], str]:
    return lambda conn: add(conn, text)


def adding_with_event(text: str) -> Callable[[Connection], None]:
    return lambda conn: add_with_event(conn, text)


def failing(text: str) -> Callable[[Connection], None]:
    return lambda conn: add_then_refuse(conn, text)


def test_queued_writes_share_one_commit(harness: WriterHarness) -> None:
    futures = harness.run_as_batch(*(adding(str(n)) for n in range(50)))
    assert [future.result() for future in futures] == [str(n) for n in range(50)]
    assert harness.commits_of_batch == 1
    assert harness.notes() == [str(n) for n in range(50)]


def test_batch_size_is_bounded(harness: WriterHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "BATCH_MAX", 10)
    harness.run_as_batch(*(adding(str(n)) for n in range(25)))
    assert harness.commits_of_batch == 3
    assert len(harness.notes()) == 25


def test_future_is_resolved_after_its_effect_is_visible_to_others(harness: WriterHarness) -> None:
    seen: list[list[str]] = []
    harness.block()
    future = harness.writer.submit(adding("a"))
    future.add_done_callback(lambda _: seen.append(harness.notes()))
    harness.unblock()
    harness.writer.submit(adding("b")).result(TIMEOUT_SECONDS)
    assert "a" in seen[0]


def test_write_that_fails_without_changes_causes_no_second_run(harness: WriterHarness) -> None:
    runs: list[str] = []

    def counted(conn: Connection) -> str:
        runs.append("a")
        return add(conn, "a")

    good, bad, after = harness.run_as_batch(counted, refuse, adding("b"))
    assert (good.result(), after.result()) == ("a", "b")
    assert isinstance(bad.exception(), Refused)
    assert runs == ["a"]
    assert harness.commits_of_batch == 1


def test_write_that_fails_after_changes_is_undone_alone(harness: WriterHarness) -> None:
    before, bad, after = harness.run_as_batch(adding_with_event("a"), failing("bad"), adding_with_event("b"))
    assert isinstance(bad.exception(), Refused)
    assert before.exception() is None
    assert after.exception() is None
    assert harness.notes() == ["a", "b"]
    # Each was run twice and published once.
    assert harness.listener.events == ["a", "b"]


def test_write_that_the_database_refuses_is_undone_alone(harness: WriterHarness) -> None:
    first, twice, last = harness.run_as_batch(adding("a"), adding("a"), adding("b"))
    assert first.result() == "a"
    assert isinstance(twice.exception(), UniqueViolation)
    assert last.result() == "b"
    assert harness.notes() == ["a", "b"]


def test_caught_violation_does_not_split_the_batch_on_sqlite(sqlite_harness: WriterHarness) -> None:
    def add_unless_there(conn: Connection) -> str:
        try:
            return add(conn, "a")
        except UniqueViolation:
            return add(conn, "a, again")

    assert [f.result() for f in sqlite_harness.run_as_batch(adding("a"), add_unless_there)] == ["a", "a, again"]
    assert sqlite_harness.commits_of_batch == 1


def test_single_write_that_fails_is_undone(harness: WriterHarness) -> None:
    with pytest.raises(Refused):
        harness.writer.submit(failing("bad")).result(TIMEOUT_SECONDS)
    harness.writer.submit(adding("a")).result(TIMEOUT_SECONDS)
    assert harness.notes() == ["a"]
    assert harness.listener.events == []


def test_commit_event_of_a_failed_write_is_not_published(harness: WriterHarness) -> None:
    def add_event_and_refuse(conn: Connection) -> None:
        conn.add_commit_event("never")
        raise Refused()

    good, bad = harness.run_as_batch(adding_with_event("a"), add_event_and_refuse)
    assert good.exception() is None
    assert isinstance(bad.exception(), Refused)
    assert harness.listener.events == ["a"]


def test_commit_events_are_published_before_the_future_is_resolved(harness: WriterHarness) -> None:
    published: list[object] = []
    harness.block()
    future = harness.writer.submit(adding_with_event("a"))
    future.add_done_callback(lambda _: published.extend(harness.listener.events))
    harness.unblock()
    harness.writer.submit(adding("b")).result(TIMEOUT_SECONDS)
    assert published == ["a"]


def test_commit_events_are_published_when_the_commit_can_be_read(engine: Engine) -> None:
    seen: list[str] = []
    reading = engine.connect(writable=False)

    def read_all(commit_events: list[object]) -> None:
        if commit_events == ["a"]:
            seen.extend(everything(reading))

    writer = Writer([engine.connect(writable=True)], [read_all])
    writer.submit(adding_with_event("a")).result(TIMEOUT_SECONDS)
    writer.close()
    reading.close()
    assert seen == ["a"]


def test_failing_listener_does_not_fail_the_write(engine: Engine) -> None:
    def broken(_commit_events: list[object]) -> None:
        raise RuntimeError("broken listener")

    writer = Writer([engine.connect(writable=True)], [broken])
    writer.submit(adding_with_event("a")).result(TIMEOUT_SECONDS)
    writer.submit(adding_with_event("b")).result(TIMEOUT_SECONDS)
    writer.close()


class Exit(BaseException):
    """Like SystemExit, not an Exception."""


def test_base_exception_does_not_end_the_writer_thread(harness: WriterHarness) -> None:
    def exit_after_change(conn: Connection) -> None:
        add(conn, "bad")
        raise Exit()

    good, bad = harness.run_as_batch(adding("a"), exit_after_change)
    assert good.result() == "a"
    assert isinstance(bad.exception(), Exit)
    assert harness.writer.submit(adding("b")).result(TIMEOUT_SECONDS) == "b"
    assert harness.notes() == ["a", "b"]


def test_write_cancelled_while_queued_never_runs(harness: WriterHarness) -> None:
    harness.block()
    cancelled, kept = harness.writer.submit(adding("no")), harness.writer.submit(adding("yes"))
    assert cancelled.cancel()
    harness.unblock()
    assert kept.result(TIMEOUT_SECONDS) == "yes"
    with pytest.raises(CancelledError):
        cancelled.result()
    assert harness.notes() == ["yes"]


def test_running_write_cannot_be_cancelled(harness: WriterHarness) -> None:
    is_running, may_continue = threading.Event(), threading.Event()

    def slow(conn: Connection) -> str:
        is_running.set()
        assert may_continue.wait(TIMEOUT_SECONDS)
        return add(conn, "a")

    future = harness.writer.submit(slow)
    assert is_running.wait(TIMEOUT_SECONDS)
    assert not future.cancel()
    may_continue.set()
    assert future.result(TIMEOUT_SECONDS) == "a"


def test_close_runs_all_accepted_writes(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "BATCH_MAX", 7)
    harness = WriterHarness(engine)
    harness.block()
    futures = [harness.writer.submit(adding(str(n))) for n in range(40)]
    closing = threading.Thread(target=harness.writer.close)
    closing.start()
    harness.unblock()
    closing.join(TIMEOUT_SECONDS)
    assert [future.result(0) for future in futures] == [str(n) for n in range(40)]
    assert len(harness.notes()) == 40


def test_write_after_close_is_refused(engine: Engine) -> None:
    closed = Writer([engine.connect(writable=True)], [])
    closed.close()
    with pytest.raises(DatabaseUnavailable):
        closed.submit(adding("late")).result(TIMEOUT_SECONDS)
    closed.close()


def test_every_write_submitted_during_close_is_resolved(engine: Engine) -> None:
    busy = Writer([engine.connect(writable=True)], [])
    futures: list[Future[Any]] = []
    started = threading.Event()

    def submit_many() -> None:
        for n in range(2000):
            futures.append(busy.submit(adding(str(n))))
            started.set()

    submitting = threading.Thread(target=submit_many)
    submitting.start()
    assert started.wait(TIMEOUT_SECONDS)
    busy.close()
    submitting.join(TIMEOUT_SECONDS)
    outcomes = [future.exception(TIMEOUT_SECONDS) for future in futures]
    assert {type(outcome) for outcome in outcomes} <= {type(None), DatabaseUnavailable}
    # In the order of submission: all writes that ran come before all that were refused.
    assert [outcome is None for outcome in outcomes] == sorted((o is None for o in outcomes), reverse=True)


def test_lock_of_another_connection_makes_the_database_unavailable_until_released(
    sqlite_engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.05)
    harness = WriterHarness(sqlite_engine)
    other = sqlite_engine.connect(writable=True)
    other.begin()
    refused = [harness.writer.submit(adding("c")), harness.writer.submit(adding("d"))]
    for future in refused:
        assert isinstance(future.exception(TIMEOUT_SECONDS), DatabaseUnavailable)
    other.rollback()
    assert harness.writer.submit(adding("e")).result(TIMEOUT_SECONDS) == "e"
    harness.writer.close()
    other.close()
    assert {"c", "d"}.isdisjoint(harness.notes())


def test_full_disk_fails_the_whole_batch_and_changes_nothing(sqlite_harness: WriterHarness) -> None:
    sqlite_harness.writer.submit(lambda conn: conn.one(Query("full", "PRAGMA max_page_count = 1"))).result(
        TIMEOUT_SECONDS
    )
    futures = sqlite_harness.run_as_batch(
        adding_with_event("a"), adding_with_event("b" * 100_000), adding_with_event("c")
    )
    for future in futures:
        assert isinstance(future.exception(), DatabaseUnavailable)
    assert sqlite_harness.notes() == []
    assert sqlite_harness.listener.events == []
    sqlite_harness.writer.submit(lambda conn: conn.one(Query("room", "PRAGMA max_page_count = 100000"))).result(
        TIMEOUT_SECONDS
    )
    assert sqlite_harness.writer.submit(adding("a")).result(TIMEOUT_SECONDS) == "a"


def test_commit_that_the_database_refuses_fails_only_the_write_at_fault(engine: Engine) -> None:
    conn = engine.connect(writable=True)
    conn.begin()
    conn.run_script("CREATE TABLE comments (note INTEGER REFERENCES notes (id) DEFERRABLE INITIALLY DEFERRED);")
    conn.commit()
    conn.close()
    harness = WriterHarness(engine)
    dangling = Query("dangling", "INSERT INTO comments (note) VALUES (99)")
    good, bad, after = harness.run_as_batch(
        adding_with_event("a"), lambda conn: conn.run(dangling), adding_with_event("b")
    )
    assert good.exception() is None
    assert isinstance(bad.exception(), DatabaseError)
    assert after.exception() is None
    assert harness.listener.events == ["a", "b"]
    harness.writer.close()


def commit_elsewhere(engine: Engine, text: str) -> None:
    conn = engine.connect(writable=True)
    conn.begin()
    add(conn, text)
    conn.commit()
    conn.close()


def test_commit_of_another_process_is_published_as_foreign(
    sqlite_harness: WriterHarness, sqlite_engine: SqliteEngine
) -> None:
    sqlite_harness.writer.submit(adding_with_event("ours")).result(TIMEOUT_SECONDS)
    commit_elsewhere(sqlite_engine, "theirs")
    sqlite_harness.listener.wait_for(ForeignCommit())
    assert sqlite_harness.listener.events == ["ours", ForeignCommit()]


def test_busy_writer_publishes_foreign_commits_too(sqlite_harness: WriterHarness, sqlite_engine: SqliteEngine) -> None:
    stop = threading.Event()

    def submit_again(_done: object = None) -> None:
        if not stop.is_set():
            sqlite_harness.writer.submit(everything).add_done_callback(submit_again)

    submit_again()
    try:
        commit_elsewhere(sqlite_engine, "theirs")
        sqlite_harness.listener.wait_for(ForeignCommit())
    finally:
        stop.set()


def test_own_commits_are_not_published_as_foreign(
    sqlite_harness: WriterHarness, monkeypatch: pytest.MonkeyPatch, sqlite_engine: SqliteEngine
) -> None:
    for n in range(5):
        sqlite_harness.writer.submit(adding(str(n))).result(TIMEOUT_SECONDS)
    commit_elsewhere(sqlite_engine, "theirs")
    sqlite_harness.listener.wait_for(ForeignCommit())
    assert sqlite_harness.listener.events == [ForeignCommit()]


def test_commits_and_writes_are_counted(harness: WriterHarness) -> None:
    harness.run_as_batch(adding("a"), adding("b"), refuse)
    assert (harness.writer.commits, harness.writer.writes) == (2, 3)
