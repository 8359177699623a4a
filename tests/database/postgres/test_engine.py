import threading
import time
from collections.abc import Iterator

import psycopg
import pytest

from restante.core.errors import BadInput
from restante.database.commit_events import CommitOutcomeUnknown
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.errors import (
    CommitUncertain,
    DatabaseError,
    DatabaseUnavailable,
    LockHeld,
    TransactionConflict,
    UniqueViolation,
)
from restante.database.postgres.engine import PostgresConnection, PostgresEngine, lock_key
from restante.database.queries import Query
from tests.database.conftest import create_notes
from tests.database.notes_table import ADD, add, add_with_event, everything
from tests.defaults import new_postgres_engine
from tests.services.postgres import PostgresServer, postgres_server

TIMEOUT_SECONDS = 30.0


def query(text: str) -> Query:
    return Query("test", text)


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
    """Make the server end the session of the other connection."""
    row = other.one(query("SELECT pg_backend_pid() AS pid"))
    assert row is not None
    conn.all(query("SELECT pg_terminate_backend(CAST(:pid AS INTEGER), 10000)"), pid=row["pid"])


def test_clock_is_that_of_the_server_and_read_once(empty_postgres_url: str) -> None:
    conn = new_postgres_engine(empty_postgres_url).connect(writable=True)
    conn.begin()
    row = conn.one(query("SELECT EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS now"))
    assert row is not None
    assert abs(conn.now_ms - float(row["now"])) < 60_000
    first = conn.now_ms
    conn.all(query("SELECT pg_sleep(0.005)"))
    assert conn.now_ms == first
    conn.rollback()
    conn.begin()
    assert conn.now_ms > first
    conn.close()


def test_synchronous_commit_is_switched_on(postgres: PostgresServer) -> None:
    url = postgres.create()
    name = url.partition("?")[0].rpartition("/")[2]
    postgres.run(f"ALTER DATABASE {name} SET synchronous_commit = off")
    conn = new_postgres_engine(url).connect(writable=True)
    row = conn.one(query("SELECT current_setting('synchronous_commit') AS setting"))
    assert row is not None
    assert row["setting"] == "on"
    conn.close()
    postgres.drop(url)


def test_integers_booleans_bytes_and_null_are_stored_unchanged(conn: PostgresConnection) -> None:
    conn.run_script("CREATE TABLE t (a INTEGER, b INTEGER, c BLOB, d REAL, e TEXT);")
    insert = query("INSERT INTO t (a, b, c, d, e) VALUES (:a, :b, :c, :d, :e) RETURNING *")
    values = {"a": 2**62, "b": True, "c": b"\0\xff", "d": 0.5, "e": "é"}
    assert conn.all(insert, **values) == [{**values, "b": 1}]
    nulls = dict.fromkeys("abcde")
    assert conn.all(insert, **nulls) == [nulls]


def test_text_with_nul_matches_no_row_and_is_refused(conn: PostgresConnection) -> None:
    conn.begin()
    conn.run(ADD, text="a")
    assert conn.all(query("SELECT id FROM notes WHERE text = :text"), text="a\0") == []
    with pytest.raises(BadInput):
        conn.run(ADD, text="b\0")
    conn.commit()
    assert everything(conn) == ["a"]


def test_duplicate_key_raises_unique_violation_with_its_constraint(conn: PostgresConnection) -> None:
    conn.begin()
    conn.run(ADD, text="a")
    with pytest.raises(UniqueViolation) as refused:
        conn.run(ADD, text="a")
    assert refused.value.constraint == "notes_text_key"
    conn.rollback()


def test_error_message_quotes_no_row(conn: PostgresConnection) -> None:
    conn.run_script("CREATE TABLE t (secret TEXT, other INTEGER NOT NULL);")
    with pytest.raises(DatabaseError) as refused:
        conn.run(query("INSERT INTO t (secret) VALUES ('opensesame')"))
    assert not isinstance(refused.value, DatabaseUnavailable)
    assert isinstance(refused.value.__cause__, psycopg.Error)
    assert "opensesame" not in str(refused.value)


def test_transaction_with_a_failed_statement_is_not_committed(conn: PostgresConnection) -> None:
    conn.begin()
    conn.run(ADD, text="a")
    with pytest.raises(DatabaseError):
        conn.run(query("SELECT nothing FROM nowhere"))
    with pytest.raises(DatabaseError, match="rolled back"):
        conn.commit()
    assert everything(conn) == []


def test_read_only_connection_cannot_write(postgres_engine: PostgresEngine) -> None:
    conn = postgres_engine.connect(writable=False)
    conn.begin()
    with pytest.raises(DatabaseError):
        conn.run(ADD, text="a")
    conn.close()


def test_closed_connection_raises_database_error(postgres_engine: PostgresEngine) -> None:
    conn = postgres_engine.connect(writable=True)
    conn.close()
    with pytest.raises(DatabaseError):
        conn.begin()


def test_invalid_url_is_refused_without_quoting_it() -> None:
    with pytest.raises(DatabaseError) as refused:
        new_postgres_engine("postgresql://ada:opensesame@[host/x")
    assert "opensesame" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_missing_server_raises_unavailable(postgres: PostgresServer) -> None:
    with pytest.raises(DatabaseUnavailable) as refused:
        new_postgres_engine(f"postgresql://ada:opensesame@/x?host={postgres.folder}/nowhere").connect(writable=True)
    assert "opensesame" not in str(refused.value)


def test_lock_is_acquired_when_the_other_transaction_ends(conn: PostgresConnection, other: PostgresConnection) -> None:
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
    wait_for_lock_waiter(conn)
    order.append("first")
    conn.commit()
    waiting.join(TIMEOUT_SECONDS)
    assert order == ["first", "second"]


def hold(conn: PostgresConnection, *keys: int) -> None:
    """Lock, and wait until the lock is held: a later statement returns only then."""
    conn.lock("site", *keys)
    conn.all(query("SELECT 1"))


def wait_for_lock_waiter(conn: PostgresConnection) -> None:
    end = time.monotonic() + TIMEOUT_SECONDS
    while not conn.all(query("SELECT 1 FROM pg_locks WHERE NOT granted")):
        assert time.monotonic() < end, "no transaction waits for a lock"


def test_clock_is_read_after_the_first_lock_is_held(empty_postgres_url: str) -> None:
    engine = new_postgres_engine(empty_postgres_url)
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
    wait_for_lock_waiter(first)
    at_the_end = first.all(query("SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT) AS now"))[0][
        "now"
    ]
    first.commit()
    waiting.join(TIMEOUT_SECONDS)
    assert seen[0] >= at_the_end - 1
    first.close()
    second.close()


def test_statements_can_read_the_time_of_the_first_lock_before_it_is_known(empty_postgres_url: str) -> None:
    conn = new_postgres_engine(empty_postgres_url).connect(writable=True)
    setting = query("SELECT CAST(current_setting('restante.now_ms') AS BIGINT)")
    conn.begin()
    conn.lock("a", 1, 2, 3)
    assert conn.now_parameter is None
    first = conn.prefetch(setting)
    conn.lock("a", 4)
    second = conn.prefetch(setting)
    assert first() == second() == [(conn.now_ms,)]
    assert conn.now_parameter == conn.now_ms
    conn.rollback()
    conn.close()


def test_time_parameter_is_known_without_a_lock_and_with_a_given_clock(
    empty_postgres_url: str, conn: PostgresConnection
) -> None:
    unlocked = new_postgres_engine(empty_postgres_url).connect(writable=True)
    unlocked.begin()
    before = unlocked.now_parameter
    unlocked.lock("a", 1)
    assert before == unlocked.now_parameter == unlocked.now_ms
    unlocked.rollback()
    unlocked.close()
    conn.begin()
    conn.lock("a", 1)
    assert conn.now_parameter == conn.now_ms
    conn.rollback()


def test_locks_are_by_kind_and_key(conn: PostgresConnection, other: PostgresConnection) -> None:
    conn.begin()
    hold(conn, 1, 2, 2)
    hold(conn, 2)
    other.begin(waits_for_locks=False)
    other.lock("device", 1)
    other.lock("site", 3)
    with pytest.raises(LockHeld):
        other.lock("site", 2)
    assert len({lock_key("site", 1), lock_key("site", 2), lock_key("device", 1), lock_key("site", "1:2")}) == 4
    conn.rollback()
    other.lock("site", 2)
    other.rollback()


def test_shared_transaction_with_changes_does_not_wait_for_a_lock(
    conn: PostgresConnection, other: PostgresConnection
) -> None:
    other.begin()
    hold(other, 1)
    conn.begin(waits_for_locks=False)
    add(conn, "a")
    with pytest.raises(LockHeld):
        conn.lock("site", 1)
    conn.commit()
    other.rollback()


def test_shared_transaction_holds_a_bounded_number_of_locks(conn: PostgresConnection) -> None:
    conn.begin(waits_for_locks=False)
    for key in range(64):
        conn.lock("site", key)
    with pytest.raises(LockHeld):
        conn.lock("site", 64)
    conn.rollback()
    conn.begin(waits_for_locks=True)
    conn.lock("site", *range(200))
    conn.rollback()


def test_deadlock_raises_conflict_in_one_transaction(conn: PostgresConnection, other: PostgresConnection) -> None:
    outcomes: list[BaseException | None] = []
    both_hold = threading.Barrier(2)

    def cross(conn: PostgresConnection, first: int, second: int) -> None:
        try:
            conn.begin()
            hold(conn, first)
            both_hold.wait(TIMEOUT_SECONDS)
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
        thread.join(TIMEOUT_SECONDS)
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["NoneType", TransactionConflict.__name__]


def test_lost_connection_fails_only_its_transaction(conn: PostgresConnection, other: PostgresConnection) -> None:
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


def test_connection_lost_while_idle_is_replaced_silently(conn: PostgresConnection, other: PostgresConnection) -> None:
    end_session(conn, other)
    other.begin()
    add(other, "a")
    other.commit()
    assert everything(conn) == ["a"]


def test_commit_without_confirmation_is_uncertain(conn: PostgresConnection, other: PostgresConnection) -> None:
    other.begin()
    add(other, "a")
    end_session(conn, other)
    with pytest.raises(CommitUncertain):
        other.commit()


def test_uncertain_commit_publishes_outcome_unknown(postgres_engine: PostgresEngine) -> None:
    database = Database(postgres_engine)
    published: list[object] = []
    database.on_commit(published.extend)

    def end_own_session(conn: Connection) -> None:
        assert isinstance(conn, PostgresConnection)
        helper = postgres_engine.connect(writable=True)
        add_with_event(conn, "a")
        end_session(helper, conn)
        helper.close()

    with pytest.raises(CommitUncertain):
        database.write_now(end_own_session)
    assert CommitOutcomeUnknown() in published
    assert "a" not in published
    database.write_now(add, "b")
    assert database.read_now(everything) == ["b"]
    database.close()


def test_database_works_again_after_a_restart_of_the_server() -> None:
    with postgres_server() as server:
        engine = new_postgres_engine(server.create(), writers=2)
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


def test_password_of_the_url_is_used(postgres: PostgresServer, empty_postgres_url: str) -> None:
    postgres.run("CREATE ROLE ada LOGIN PASSWORD 'spoken softly'")
    try:
        url = empty_postgres_url.replace("restante@", "ada:spoken%20softly@")
        new_postgres_engine(url).connect(writable=True).close()
    finally:
        postgres.run("DROP ROLE ada")


def test_commit_events_under_one_lock_are_published_in_commit_order(
    postgres_engine: PostgresEngine, conn: PostgresConnection
) -> None:
    """Even if the second has sent all its statements before the first releases the lock."""
    database = Database(postgres_engine)
    published: list[object] = []
    database.on_commit(published.extend)
    holds_lock, may_continue, has_sent = threading.Event(), threading.Event(), threading.Event()

    def first(conn: Connection) -> None:
        conn.lock("site", 1)
        conn.all(query("SELECT 1"))
        holds_lock.set()
        assert may_continue.wait(TIMEOUT_SECONDS)
        conn.add_commit_event("first")

    def second(conn: Connection) -> None:
        conn.lock("site", 1)
        conn.run_many(ADD, [{"text": "a"}])
        conn.add_commit_event("second")
        has_sent.set()

    try:
        outcomes = [database.submit(first)]
        assert holds_lock.wait(TIMEOUT_SECONDS)
        outcomes.append(database.submit(second))
        assert has_sent.wait(TIMEOUT_SECONDS)
        wait_for_lock_waiter(conn)
        may_continue.set()
        for outcome in outcomes:
            outcome.result(TIMEOUT_SECONDS)
    finally:
        may_continue.set()
        database.close()
    assert published == ["first", "second"]


def test_rows_before_a_refused_one_are_undone_with_it(postgres_engine: PostgresEngine) -> None:
    database = Database(postgres_engine)
    try:
        with pytest.raises(BadInput):
            database.write_now(lambda conn: conn.run_many(ADD, [{"text": "a"}, {"text": "b\0"}]))
        assert database.read_now(everything) == []
    finally:
        database.close()
