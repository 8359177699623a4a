import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from typing import Any

import pytest

from restante.database import sqlite, writer
from restante.database.connection import Connection
from restante.database.engine import Engine
from restante.database.errors import DatabaseError, DatabaseUnavailable, UniqueViolation
from restante.database.queries import Query
from restante.database.sqlite import SqliteEngine
from restante.database.writer import ForeignCommit, Writer
from tests.database.notes import Refused, add, add_and_announce, add_then_refuse, everything, refuse

SOON = 10.0


class Told:
    """What the writer announced, in order, and a way to wait for it."""

    def __init__(self) -> None:
        self.batches: list[list[object]] = []
        self._changed = threading.Condition()

    def __call__(self, announced: list[object]) -> None:
        with self._changed:
            self.batches.append(announced)
            self._changed.notify_all()

    @property
    def events(self) -> list[object]:
        return [event for batch in self.batches for event in batch]

    def wait_for(self, event: object) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: event in self.events, SOON)


class Bench:
    """A writer, and a way to have several jobs wait together: what is submitted while it is held becomes one batch."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.told = Told()
        self.writer = Writer([engine.connect(writable=True)], [self.told])
        self._begun, self._go_on = threading.Event(), threading.Event()

    def hold(self) -> None:
        def wait(_conn: Connection) -> None:
            self._begun.set()
            assert self._go_on.wait(SOON)

        self.writer.submit(wait)
        assert self._begun.wait(SOON)

    def let_go(self) -> None:
        self._go_on.set()

    def together(self, *works: Callable[[Connection], Any]) -> list[Future[Any]]:
        """Futures of jobs that ran as one batch."""
        self.hold()
        futures = [self.writer.submit(work) for work in works]
        commits = self.writer.commits
        self.let_go()
        for future in futures:
            future.exception(SOON)
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
def bench(engine: Engine) -> Iterator[Bench]:
    bench = Bench(engine)
    yield bench
    bench.let_go()
    bench.writer.close()


@pytest.fixture
def sqlite_bench(sqlite_engine: SqliteEngine) -> Iterator[Bench]:
    bench = Bench(sqlite_engine)
    yield bench
    bench.let_go()
    bench.writer.close()


def adding(text: str) -> Callable[[Connection], str]:
    return lambda conn: add(conn, text)


def announcing(text: str) -> Callable[[Connection], None]:
    return lambda conn: add_and_announce(conn, text)


def failing(text: str) -> Callable[[Connection], None]:
    return lambda conn: add_then_refuse(conn, text)


def test_jobs_that_wait_together_share_one_commit(bench: Bench) -> None:
    futures = bench.together(*(adding(str(n)) for n in range(50)))
    assert [future.result() for future in futures] == [str(n) for n in range(50)]
    assert bench.commits_of_batch == 1
    assert bench.notes() == [str(n) for n in range(50)]


def test_a_batch_is_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "BATCH_MAX", 10)
    bench.together(*(adding(str(n)) for n in range(25)))
    assert bench.commits_of_batch == 3
    assert len(bench.notes()) == 25


def test_a_future_is_resolved_only_after_its_effect_can_be_read_by_others(bench: Bench) -> None:
    seen: list[list[str]] = []
    bench.hold()
    future = bench.writer.submit(adding("a"))
    future.add_done_callback(lambda _: seen.append(bench.notes()))
    bench.let_go()
    bench.writer.submit(adding("b")).result(SOON)
    assert "a" in seen[0]


def test_one_that_changed_nothing_fails_alone_and_costs_no_second_run(bench: Bench) -> None:
    runs: list[str] = []

    def counted(conn: Connection) -> str:
        runs.append("a")
        return add(conn, "a")

    good, bad, after = bench.together(counted, refuse, adding("b"))
    assert (good.result(), after.result()) == ("a", "b")
    assert isinstance(bad.exception(), Refused)
    assert runs == ["a"]
    assert bench.commits_of_batch == 1


def test_one_that_changed_something_is_undone_and_its_neighbours_are_not(bench: Bench) -> None:
    before, bad, after = bench.together(announcing("a"), failing("bad"), announcing("b"))
    assert isinstance(bad.exception(), Refused)
    assert before.exception() is None
    assert after.exception() is None
    assert bench.notes() == ["a", "b"]
    # Each was run twice and told once.
    assert bench.told.events == ["a", "b"]


def test_one_that_the_database_refuses_is_undone_and_its_neighbours_are_not(bench: Bench) -> None:
    first, twice, last = bench.together(adding("a"), adding("a"), adding("b"))
    assert first.result() == "a"
    assert isinstance(twice.exception(), UniqueViolation)
    assert last.result() == "b"
    assert bench.notes() == ["a", "b"]


def test_what_a_neighbour_caught_stays_caught_where_a_statement_is_undone_alone(sqlite_bench: Bench) -> None:
    def add_unless_there(conn: Connection) -> str:
        try:
            return add(conn, "a")
        except UniqueViolation:
            return add(conn, "a, again")

    assert [f.result() for f in sqlite_bench.together(adding("a"), add_unless_there)] == ["a", "a, again"]
    assert sqlite_bench.commits_of_batch == 1


def test_one_alone_that_fails_is_undone(bench: Bench) -> None:
    with pytest.raises(Refused):
        bench.writer.submit(failing("bad")).result(SOON)
    bench.writer.submit(adding("a")).result(SOON)
    assert bench.notes() == ["a"]
    assert bench.told.events == []


def test_what_was_announced_by_one_that_then_failed_is_not_told(bench: Bench) -> None:
    def announce_and_refuse(conn: Connection) -> None:
        conn.announce("never")
        raise Refused()

    good, bad = bench.together(announcing("a"), announce_and_refuse)
    assert good.exception() is None
    assert isinstance(bad.exception(), Refused)
    assert bench.told.events == ["a"]


def test_a_commit_is_told_before_its_callers_go_on(bench: Bench) -> None:
    told_by_then: list[object] = []
    bench.hold()
    future = bench.writer.submit(announcing("a"))
    future.add_done_callback(lambda _: told_by_then.extend(bench.told.events))
    bench.let_go()
    bench.writer.submit(adding("b")).result(SOON)
    assert told_by_then == ["a"]


def test_a_commit_is_told_only_once_it_can_be_read(engine: Engine) -> None:
    seen: list[str] = []
    reading = engine.connect(writable=False)

    def hear(announced: list[object]) -> None:
        if announced == ["a"]:
            seen.extend(everything(reading))

    told = Writer([engine.connect(writable=True)], [hear])
    told.submit(announcing("a")).result(SOON)
    told.close()
    reading.close()
    assert seen == ["a"]


def test_a_listener_that_fails_costs_no_caller_anything(engine: Engine) -> None:
    def broken(_announced: list[object]) -> None:
        raise RuntimeError("nobody listens")

    deaf = Writer([engine.connect(writable=True)], [broken])
    deaf.submit(announcing("a")).result(SOON)
    deaf.submit(announcing("b")).result(SOON)
    deaf.close()


class Exit(BaseException):
    """Not an Exception, as SystemExit is not."""


def test_not_even_an_exit_ends_the_thread(bench: Bench) -> None:
    def leave(conn: Connection) -> None:
        add(conn, "bad")
        raise Exit()

    good, bad = bench.together(adding("a"), leave)
    assert good.result() == "a"
    assert isinstance(bad.exception(), Exit)
    assert bench.writer.submit(adding("b")).result(SOON) == "b"
    assert bench.notes() == ["a", "b"]


def test_one_cancelled_while_it_waits_is_never_run(bench: Bench) -> None:
    bench.hold()
    cancelled, kept = bench.writer.submit(adding("no")), bench.writer.submit(adding("yes"))
    assert cancelled.cancel()
    bench.let_go()
    assert kept.result(SOON) == "yes"
    with pytest.raises(CancelledError):
        cancelled.result()
    assert bench.notes() == ["yes"]


def test_one_that_runs_cannot_be_cancelled(bench: Bench) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slow(conn: Connection) -> str:
        begun.set()
        assert go_on.wait(SOON)
        return add(conn, "a")

    future = bench.writer.submit(slow)
    assert begun.wait(SOON)
    assert not future.cancel()
    go_on.set()
    assert future.result(SOON) == "a"


def test_close_finishes_what_was_accepted(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "BATCH_MAX", 7)
    bench = Bench(engine)
    bench.hold()
    futures = [bench.writer.submit(adding(str(n))) for n in range(40)]
    closing = threading.Thread(target=bench.writer.close)
    closing.start()
    bench.let_go()
    closing.join(SOON)
    assert [future.result(0) for future in futures] == [str(n) for n in range(40)]
    assert len(bench.notes()) == 40


def test_what_comes_after_close_is_refused_and_does_not_wait_for_ever(engine: Engine) -> None:
    closed = Writer([engine.connect(writable=True)], [])
    closed.close()
    with pytest.raises(DatabaseUnavailable):
        closed.submit(adding("late")).result(SOON)
    closed.close()


def test_nobody_who_submits_while_it_closes_waits_for_ever(engine: Engine) -> None:
    busy = Writer([engine.connect(writable=True)], [])
    futures: list[Future[Any]] = []
    started = threading.Event()

    def submit_many() -> None:
        for n in range(2000):
            futures.append(busy.submit(adding(str(n))))
            started.set()

    submitting = threading.Thread(target=submit_many)
    submitting.start()
    assert started.wait(SOON)
    busy.close()
    submitting.join(SOON)
    outcomes = [future.exception(SOON) for future in futures]
    assert {type(outcome) for outcome in outcomes} <= {type(None), DatabaseUnavailable}
    # In the order of acceptance: nothing that was refused came before something that was done.
    assert [outcome is None for outcome in outcomes] == sorted((o is None for o in outcomes), reverse=True)


def test_a_lock_held_elsewhere_is_unavailability_and_passes(
    sqlite_engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.05)
    bench = Bench(sqlite_engine)
    other = sqlite_engine.connect(writable=True)
    other.begin()
    refused = [bench.writer.submit(adding("c")), bench.writer.submit(adding("d"))]
    for future in refused:
        assert isinstance(future.exception(SOON), DatabaseUnavailable)
    other.rollback()
    assert bench.writer.submit(adding("e")).result(SOON) == "e"
    bench.writer.close()
    other.close()
    assert {"c", "d"}.isdisjoint(bench.notes())


def test_a_full_disk_is_unavailability_for_the_whole_batch_and_nothing_is_half_done(sqlite_bench: Bench) -> None:
    sqlite_bench.writer.submit(lambda conn: conn.one(Query("full", "PRAGMA max_page_count = 1"))).result(SOON)
    futures = sqlite_bench.together(announcing("a"), announcing("b" * 100_000), announcing("c"))
    for future in futures:
        assert isinstance(future.exception(), DatabaseUnavailable)
    assert sqlite_bench.notes() == []
    assert sqlite_bench.told.events == []
    sqlite_bench.writer.submit(lambda conn: conn.one(Query("room", "PRAGMA max_page_count = 100000"))).result(SOON)
    assert sqlite_bench.writer.submit(adding("a")).result(SOON) == "a"


def test_a_commit_that_the_database_refuses_fails_whom_it_concerns(engine: Engine) -> None:
    conn = engine.connect(writable=True)
    conn.begin()
    conn.run_script("CREATE TABLE about (note INTEGER REFERENCES notes (id) DEFERRABLE INITIALLY DEFERRED);")
    conn.commit()
    conn.close()
    bench = Bench(engine)
    dangling = Query("dangling", "INSERT INTO about (note) VALUES (99)")
    good, bad, after = bench.together(announcing("a"), lambda conn: conn.run(dangling), announcing("b"))
    assert good.exception() is None
    assert isinstance(bad.exception(), DatabaseError)
    assert after.exception() is None
    assert bench.told.events == ["a", "b"]
    bench.writer.close()


def commit_elsewhere(engine: Engine, text: str) -> None:
    conn = engine.connect(writable=True)
    conn.begin()
    add(conn, text)
    conn.commit()
    conn.close()


def test_a_commit_of_another_process_is_told(sqlite_bench: Bench, sqlite_engine: SqliteEngine) -> None:
    sqlite_bench.writer.submit(announcing("ours")).result(SOON)
    commit_elsewhere(sqlite_engine, "theirs")
    sqlite_bench.told.wait_for(ForeignCommit())
    assert sqlite_bench.told.events == ["ours", ForeignCommit()]


def test_a_commit_of_another_process_is_told_to_a_busy_writer_too(
    sqlite_bench: Bench, sqlite_engine: SqliteEngine
) -> None:
    stop = threading.Event()

    def submit_again(_done: object = None) -> None:
        if not stop.is_set():
            sqlite_bench.writer.submit(everything).add_done_callback(submit_again)

    submit_again()
    try:
        commit_elsewhere(sqlite_engine, "theirs")
        sqlite_bench.told.wait_for(ForeignCommit())
    finally:
        stop.set()


def test_our_own_commits_are_not_taken_for_anothers(
    sqlite_bench: Bench, monkeypatch: pytest.MonkeyPatch, sqlite_engine: SqliteEngine
) -> None:
    for n in range(5):
        sqlite_bench.writer.submit(adding(str(n))).result(SOON)
    commit_elsewhere(sqlite_engine, "theirs")
    sqlite_bench.told.wait_for(ForeignCommit())
    assert sqlite_bench.told.events == [ForeignCommit()]


def test_commits_and_writes_are_counted(bench: Bench) -> None:
    bench.together(adding("a"), adding("b"), refuse)
    assert (bench.writer.commits, bench.writer.writes) == (2, 3)
