import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from restante.database.postgres import session as postgres_session
from restante.database.postgres.session import UNREAD_MAX, Session

TIMEOUT_SECONDS = 60.0


@pytest.fixture
def session(empty_postgres_url: str) -> Iterator[Session]:
    session = Session({"conninfo": empty_postgres_url})
    session.set_up()
    session.run_script("CREATE TABLE notes (text TEXT PRIMARY KEY)")
    yield session
    session.close()


ADD = "INSERT INTO notes (text) VALUES ($1)"
ALL = "SELECT text FROM notes ORDER BY text"


def run(session: Session, text: str) -> list[tuple[Any, ...]]:
    session.begin_pipeline()
    rows = session.tuples(session.send(text))
    session.end_pipeline()
    return rows


def test_nothing_waits_until_a_result_is_read(session: Session) -> None:
    session.begin_pipeline()
    session.send("BEGIN")
    session.send_many(ADD, [("a",), ("b",)])
    rows = session.send(ALL)
    number = session.send("SELECT 1")
    assert (rows.result, number.result) == (None, None)
    assert session.tuples(rows) == [("a",), ("b",)]
    # The results of the statements sent with it have arrived too.
    assert number.result is not None
    assert session.tuples(number) == [(1,)]
    assert session.tuples(rows) == [("a",), ("b",)]
    committed = session.send("COMMIT")
    session.end_pipeline()
    assert committed.command_tag == b"COMMIT"
    assert run(session, ALL) == [("a",), ("b",)]


def test_server_runs_the_first_statement_before_a_result_is_read(session: Session, empty_postgres_url: str) -> None:
    session.begin_pipeline()
    session.send("BEGIN")
    end = time.monotonic() + TIMEOUT_SECONDS
    with psycopg.connect(empty_postgres_url, autocommit=True) as other:
        while not other.execute("SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query = 'BEGIN'").fetchall():
            assert time.monotonic() < end
    session.rollback()


def test_dicts_returns_rows_by_column_name(session: Session) -> None:
    session.begin_pipeline()
    assert session.dicts(session.send("SELECT 1 AS one, 'x' AS two")) == [{"one": 1, "two": "x"}]
    added = session.send(ADD, ["a"])
    assert session.dicts(added) == []
    assert added.row_count == 1
    session.end_pipeline()


def test_more_statements_and_rows_than_buffers_hold_are_sent(session: Session) -> None:
    """In both directions."""
    echo = "SELECT $1 || $1"
    session.begin_pipeline()
    session.send("BEGIN")
    session.send_many(echo, [(f"{number:010000}",) for number in range(3 * UNREAD_MAX)])
    session.send_many(ADD, [(f"{number:05}",) for number in range(3 * UNREAD_MAX)])
    assert len(session.tuples(session.send(ALL))) == 3 * UNREAD_MAX
    session.rollback()


def test_statements_are_prepared_once_up_to_a_bound(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = "SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'restante%'"
    for number in (1, 2, 3, 2, 1):
        run(session, f"SELECT {number}")
    assert run(session, prepared) == [(4,)]
    monkeypatch.setattr(postgres_session, "PREPARED_MAX", 3)
    assert run(session, prepared) == [(1,)]
    assert run(session, "SELECT 1") == [(1,)]


def test_statement_that_failed_to_prepare_is_prepared_again(session: Session) -> None:
    for _ in range(2):
        session.begin_pipeline()
        with pytest.raises(psycopg.errors.UndefinedTable):
            session.tuples(session.send("SELECT text FROM later"))
        session.end_pipeline()
    session.run_script("CREATE TABLE later (text TEXT)")
    assert run(session, "SELECT text FROM later") == []


def test_error_is_raised_by_the_next_read_of_a_result(session: Session) -> None:
    session.begin_pipeline()
    session.send("BEGIN")
    session.send_many(ADD, [("a",), ("a",)])
    skipped = session.send(ALL)
    with pytest.raises(psycopg.errors.UniqueViolation):
        session.tuples(skipped)
    with pytest.raises(psycopg.InterfaceError, match="skipped"):
        session.tuples(skipped)
    session.rollback()
    assert run(session, ALL) == []


def test_error_is_raised_by_end_pipeline_at_the_latest(session: Session) -> None:
    session.begin_pipeline()
    session.send("BEGIN")
    session.send_many(ADD, [("a",), ("a",)])
    session.send("COMMIT")
    with pytest.raises(psycopg.errors.UniqueViolation):
        session.end_pipeline()
    session.rollback()
    assert run(session, ALL) == []


def test_statements_stay_usable_after_a_rollback(session: Session) -> None:
    for _ in range(3):
        session.begin_pipeline()
        session.send("BEGIN")
        session.send_many(ADD, [("a",)])
        assert session.tuples(session.send(ALL)) == [("a",)]
        session.rollback()


def test_schema_may_change_between_statements(session: Session) -> None:
    for _ in range(2):
        session.begin_pipeline()
        session.send("BEGIN")
        session.send_many(ADD, [("a",)])
        session.send("ALTER TABLE notes ADD COLUMN number BIGINT")
        session.send(ADD, ["b"])
        session.send("ALTER TABLE notes DROP COLUMN number")
        assert session.tuples(session.send(ALL)) == [("a",), ("b",)]
        session.rollback()


def test_connection_lost_while_idle_is_detected(session: Session, empty_postgres_url: str) -> None:
    assert not session.was_lost_while_idle()
    ((pid,),) = run(session, "SELECT pg_backend_pid()")
    with psycopg.connect(empty_postgres_url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))
    assert session.was_lost_while_idle()
    assert session.is_lost


def test_notification_is_not_taken_for_a_lost_connection(session: Session) -> None:
    """A NOTIFY arrives unrequested, too."""
    run(session, "LISTEN something")
    run(session, "NOTIFY something")
    assert not session.was_lost_while_idle()
    assert run(session, "SELECT 1") == [(1,)]


def test_planner_settings_force_generic_index_plans(session: Session) -> None:
    settings = "'jit', 'plan_cache_mode', 'enable_seqscan', 'enable_bitmapscan'"
    rows = run(session, f"SELECT name, setting FROM pg_settings WHERE name IN ({settings})")
    assert dict(rows) == {
        "jit": "off",
        "plan_cache_mode": "force_generic_plan",
        "enable_seqscan": "off",
        "enable_bitmapscan": "off",
    }
