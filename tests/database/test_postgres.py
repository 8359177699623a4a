import threading
import time
from collections.abc import Iterator

import psycopg
import pytest

from restante.core.errors import BadInput
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.errors import (
    CommitUncertain,
    Contended,
    DatabaseError,
    DatabaseUnavailable,
    Interfered,
    UniqueViolation,
)
from restante.database.postgres import PostgresConnection, PostgresEngine, lock_key
from restante.database.queries import Query
from restante.database.writer import NewsLost
from tests.database.conftest import create_notes
from tests.database.notes import ADD, add, add_and_announce, everything
from tests.services.postgres import PostgresServer, postgres_server

SOON = 30.0


def asked(text: str) -> Query:
    return Query("asked", text)


@pytest.fixture
def conn(postgres_engine: PostgresEngine) -> Iterator[PostgresConnection]:
    conn = postgres_engine.connect(writable=True)
    yield conn
    conn.close()


@pytest.fixture
def other(postgres_engine: PostgresEngine) -> Iterator[PostgresConnection]:
    conn = postgres_engine.connect(writable=True)
    yield conn
    conn.close()


def end_session(conn: PostgresConnection, other: PostgresConnection) -> None:
    """Have the server end the other's session, as an operator may."""
    row = other.one(asked("SELECT pg_backend_pid() AS pid"))
    assert row is not None
    conn.all(asked("SELECT pg_terminate_backend(CAST(:pid AS INTEGER), 10000)"), pid=row["pid"])


def test_the_clock_is_the_servers_and_read_once(empty_postgres_url: str) -> None:
    conn = PostgresEngine(empty_postgres_url).connect(writable=True)
    conn.begin()
    row = conn.one(asked("SELECT EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS now"))
    assert row is not None
    assert abs(conn.now_ms - float(row["now"])) < 60_000
    first = conn.now_ms
    conn.all(asked("SELECT pg_sleep(0.005)"))
    assert conn.now_ms == first
    conn.rollback()
    conn.begin()
    assert conn.now_ms > first
    conn.close()


def test_a_commit_is_durable_before_it_counts(postgres: PostgresServer) -> None:
    url = postgres.create()
    name = url.partition("?")[0].rpartition("/")[2]
    postgres.run(f"ALTER DATABASE {name} SET synchronous_commit = off")
    conn = PostgresEngine(url).connect(writable=True)
    row = conn.one(asked("SELECT current_setting('synchronous_commit') AS said"))
    assert row is not None
    assert row["said"] == "on"
    conn.close()
    postgres.drop(url)


def test_numbers_truths_bytes_and_nothing_go_in_and_come_out(conn: PostgresConnection) -> None:
    conn.run_script("CREATE TABLE t (a INTEGER, b INTEGER, c BLOB, d REAL, e TEXT);")
    insert = asked("INSERT INTO t (a, b, c, d, e) VALUES (:a, :b, :c, :d, :e) RETURNING *")
    there = {"a": 2**62, "b": True, "c": b"\0\xff", "d": 0.5, "e": "é"}
    assert conn.all(insert, **there) == [{**there, "b": 1}]
    absent = dict.fromkeys("abcde")
    assert conn.all(insert, **absent) == [absent]


def test_a_text_that_cannot_be_kept_equals_nothing_and_is_refused(conn: PostgresConnection) -> None:
    conn.begin()
    conn.run(ADD, text="a")
    assert conn.all(asked("SELECT id FROM notes WHERE text = :text"), text="a\0") == []
    with pytest.raises(BadInput):
        conn.run(ADD, text="b\0")
    conn.commit()
    assert everything(conn) == ["a"]


def test_a_second_key_is_a_unique_violation_that_says_which(conn: PostgresConnection) -> None:
    conn.begin()
    conn.run(ADD, text="a")
    with pytest.raises(UniqueViolation) as refused:
        conn.run(ADD, text="a")
    assert refused.value.constraint == "notes_text_key"
    conn.rollback()


def test_a_wrong_statement_is_a_database_error_that_quotes_no_row(conn: PostgresConnection) -> None:
    conn.run_script("CREATE TABLE t (secret TEXT, other INTEGER NOT NULL);")
    with pytest.raises(DatabaseError) as refused:
        conn.run(asked("INSERT INTO t (secret) VALUES ('opensesame')"))
    assert not isinstance(refused.value, DatabaseUnavailable)
    assert isinstance(refused.value.__cause__, psycopg.Error)
    assert "opensesame" not in str(refused.value)


def test_a_transaction_in_which_a_statement_failed_is_never_committed(conn: PostgresConnection) -> None:
    conn.begin()
    conn.run(ADD, text="a")
    with pytest.raises(DatabaseError):
        conn.run(asked("SELECT nothing FROM nowhere"))
    with pytest.raises(DatabaseError, match="rolled back"):
        conn.commit()
    assert everything(conn) == []


def test_a_reading_connection_cannot_write(postgres_engine: PostgresEngine) -> None:
    conn = postgres_engine.connect(writable=False)
    conn.begin()
    with pytest.raises(DatabaseError):
        conn.run(ADD, text="a")
    conn.close()


def test_a_closed_connection_is_a_database_error(postgres_engine: PostgresEngine) -> None:
    conn = postgres_engine.connect(writable=True)
    conn.close()
    with pytest.raises(DatabaseError):
        conn.begin()


def test_an_address_that_is_none_is_refused_without_quoting_it() -> None:
    with pytest.raises(DatabaseError) as refused:
        PostgresEngine("postgresql://ada:opensesame@[host/x")
    assert "opensesame" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_a_server_that_is_not_there_is_unavailability(postgres: PostgresServer) -> None:
    with pytest.raises(DatabaseUnavailable) as refused:
        PostgresEngine(f"postgresql://ada:opensesame@/x?host={postgres.folder}/nowhere").connect(writable=True)
    assert "opensesame" not in str(refused.value)


def test_who_waits_for_a_lock_gets_it_when_the_transaction_ends(
    conn: PostgresConnection, other: PostgresConnection
) -> None:
    order: list[str] = []
    conn.begin()
    hold(conn, 1)

    def wait() -> None:
        other.begin()
        hold(other, 1)
        order.append("second")
        other.rollback()

    waiting = threading.Thread(target=wait)
    waiting.start()
    until_somebody_waits(conn)
    order.append("first")
    conn.commit()
    waiting.join(SOON)
    assert order == ["first", "second"]


def hold(conn: PostgresConnection, *keys: int) -> None:
    """Lock, and wait for it: what is behind a lock is answered when it is held."""
    conn.lock("site", *keys)
    conn.all(asked("SELECT 1"))


def until_somebody_waits(conn: PostgresConnection) -> None:
    end = time.monotonic() + SOON
    while not conn.all(asked("SELECT 1 FROM pg_locks WHERE NOT granted")):
        assert time.monotonic() < end, "nobody waits"


def test_the_clock_is_read_after_the_first_lock_is_held(empty_postgres_url: str) -> None:
    engine = PostgresEngine(empty_postgres_url)
    first, second = engine.connect(writable=True), engine.connect(writable=True)
    first.begin()
    hold(first, 1)
    seen: list[int] = []

    def wait() -> None:
        second.begin()
        hold(second, 1)
        seen.append(second.now_ms)

    waiting = threading.Thread(target=wait)
    waiting.start()
    until_somebody_waits(first)
    at_the_end = first.all(asked("SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT) AS now"))[0][
        "now"
    ]
    first.commit()
    waiting.join(SOON)
    assert seen[0] >= at_the_end - 1
    first.close()
    second.close()


def test_locks_are_by_kind_and_key_and_held_once(conn: PostgresConnection, other: PostgresConnection) -> None:
    conn.begin()
    hold(conn, 1, 2, 2)
    hold(conn, 2)
    other.begin(patient=False)
    other.lock("device", 1)
    other.lock("site", 3)
    with pytest.raises(Contended):
        other.lock("site", 2)
    assert len({lock_key("site", 1), lock_key("site", 2), lock_key("device", 1), lock_key("site", "1:2")}) == 4
    conn.rollback()
    other.lock("site", 2)
    other.rollback()


def test_who_shares_a_transaction_waits_only_while_nobody_waits_for_it(
    conn: PostgresConnection, other: PostgresConnection
) -> None:
    other.begin()
    hold(other, 1)
    conn.begin(patient=False)
    add(conn, "a")
    with pytest.raises(Contended):
        conn.lock("site", 1)
    conn.commit()
    other.rollback()


def test_a_shared_transaction_holds_a_bounded_number_of_locks(conn: PostgresConnection) -> None:
    conn.begin(patient=False)
    for key in range(64):
        conn.lock("site", key)
    with pytest.raises(Contended):
        conn.lock("site", 64)
    conn.rollback()
    conn.begin(patient=True)
    conn.lock("site", *range(200))
    conn.rollback()


def test_two_that_wait_for_each_other_are_told(conn: PostgresConnection, other: PostgresConnection) -> None:
    outcomes: list[BaseException | None] = []
    both_hold = threading.Barrier(2)

    def cross(conn: PostgresConnection, first: int, second: int) -> None:
        try:
            conn.begin()
            hold(conn, first)
            both_hold.wait(SOON)
            conn.lock("site", second)
            conn.commit()
            outcomes.append(None)
        except DatabaseError as error:
            conn.rollback()
            outcomes.append(error)

    threads = [threading.Thread(target=cross, args=args) for args in ((conn, 1, 2), (other, 2, 1))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SOON)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == [Interfered.__name__, "NoneType"]


def test_a_lost_connection_costs_its_transaction_and_no_other(
    conn: PostgresConnection, other: PostgresConnection
) -> None:
    other.begin()
    add(other, "a")
    end_session(conn, other)
    with pytest.raises(DatabaseUnavailable):
        add(other, "b")
    other.rollback()
    other.begin()
    add(other, "c")
    other.commit()
    assert everything(conn) == ["c"]


def test_a_connection_lost_while_nobody_used_it_costs_nobody_anything(
    conn: PostgresConnection, other: PostgresConnection
) -> None:
    end_session(conn, other)
    other.begin()
    add(other, "a")
    other.commit()
    assert everything(conn) == ["a"]


def test_a_commit_without_an_answer_is_uncertain(conn: PostgresConnection, other: PostgresConnection) -> None:
    other.begin()
    add(other, "a")
    end_session(conn, other)
    with pytest.raises(CommitUncertain):
        other.commit()


def test_an_uncertain_commit_is_reported_as_such_and_knowledge_is_dropped(postgres_engine: PostgresEngine) -> None:
    database = Database(postgres_engine)
    heard: list[object] = []
    database.on_commit(heard.extend)

    def end_own_session(conn: Connection) -> None:
        assert isinstance(conn, PostgresConnection)
        helper = postgres_engine.connect(writable=True)
        add_and_announce(conn, "a")
        end_session(helper, conn)
        helper.close()

    with pytest.raises(CommitUncertain):
        database.write_now(end_own_session)
    assert NewsLost() in heard
    assert "a" not in heard
    database.write_now(add, "b")
    assert database.read_now(everything) == ["b"]
    database.close()


def test_it_goes_on_when_the_server_has_come_back() -> None:
    with postgres_server() as server:
        engine = PostgresEngine(server.create(), writers=2)
        create_notes(engine)
        database = Database(engine)
        database.write_now(add, "a")
        assert database.read_now(everything) == ["a"]
        server.stop()
        for _ in range(3):
            with pytest.raises(DatabaseUnavailable):
                database.write_now(add, "b")
            with pytest.raises(DatabaseUnavailable):
                database.read_now(everything)
        server.start()
        for text in "cdef":
            database.write_now(add, text)
        assert database.read_now(everything) == ["a", "c", "d", "e", "f"]
        database.close()


def test_a_password_and_a_wrong_one(postgres: PostgresServer, empty_postgres_url: str) -> None:
    postgres.run("CREATE ROLE ada LOGIN PASSWORD 'spoken softly'")
    try:
        url = empty_postgres_url.replace("restante@", "ada:spoken%20softly@")
        PostgresEngine(url).connect(writable=True).close()
    finally:
        postgres.run("DROP ROLE ada")


def test_commits_about_one_thing_are_told_in_the_order_they_were_committed_in(
    postgres_engine: PostgresEngine, conn: PostgresConnection
) -> None:
    """Also where the second has said all that it has to say before the first has let go of what both are about."""
    database = Database(postgres_engine)
    heard: list[object] = []
    database.on_commit(heard.extend)
    holds, may_go_on, has_said = threading.Event(), threading.Event(), threading.Event()

    def first(conn: Connection) -> None:
        conn.lock("site", 1)
        conn.all(asked("SELECT 1"))
        holds.set()
        assert may_go_on.wait(SOON)
        conn.announce("first")

    def second(conn: Connection) -> None:
        conn.lock("site", 1)
        conn.run_many(ADD, [{"text": "a"}])
        conn.announce("second")
        has_said.set()

    try:
        outcomes = [database.submit(first)]
        assert holds.wait(SOON)
        outcomes.append(database.submit(second))
        assert has_said.wait(SOON)
        until_somebody_waits(conn)
        may_go_on.set()
        for outcome in outcomes:
            outcome.result(SOON)
    finally:
        may_go_on.set()
        database.close()
    assert heard == ["first", "second"]


def test_rows_before_one_that_cannot_be_kept_are_undone_with_it(postgres_engine: PostgresEngine) -> None:
    database = Database(postgres_engine)
    try:
        with pytest.raises(BadInput):
            database.write_now(lambda conn: conn.run_many(ADD, [{"text": "a"}, {"text": "b\0"}]))
        assert database.read_now(everything) == []
    finally:
        database.close()
