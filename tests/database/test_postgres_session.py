from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from restante.database import postgres_session
from restante.database.postgres_session import UNSENT_MAX, Session


@pytest.fixture
def session(empty_postgres_url: str) -> Iterator[Session]:
    session = Session({"conninfo": empty_postgres_url})
    session.set_up()
    session.run_script("CREATE TABLE notes (text TEXT PRIMARY KEY)")
    yield session
    session.close()


ADD = "INSERT INTO notes (text) VALUES ($1)"
ALL = "SELECT text FROM notes ORDER BY text"


def asked(session: Session, text: str) -> list[tuple[Any, ...]]:
    session.open()
    rows = session.tuples(session.send(text))
    session.end()
    return rows


def test_nothing_is_waited_for_until_somebody_wants_an_answer(session: Session) -> None:
    session.open()
    session.send("BEGIN")
    session.send_many(ADD, [("a",), ("b",)])
    rows = session.send(ALL)
    number = session.send("SELECT 1")
    assert (rows.result, number.result) == (None, None)
    assert session.tuples(rows) == [("a",), ("b",)]
    # What was sent before and with it has come along.
    assert number.result is not None
    assert session.tuples(number) == [(1,)]
    assert session.tuples(rows) == [("a",), ("b",)]
    committed = session.send("COMMIT")
    session.end()
    assert committed.said == b"COMMIT"
    assert asked(session, ALL) == [("a",), ("b",)]


def test_rows_come_by_name_if_wanted(session: Session) -> None:
    session.open()
    assert session.dicts(session.send("SELECT 1 AS one, 'x' AS two")) == [{"one": 1, "two": "x"}]
    added = session.send(ADD, ["a"])
    assert session.dicts(added) == []
    assert added.changed == 1
    session.end()


def test_any_number_of_rows_can_be_on_their_way(session: Session) -> None:
    """More than both sides' buffers hold, in both directions."""
    echo = "SELECT $1 || $1"
    session.open()
    session.send("BEGIN")
    session.send_many(echo, [(f"{number:010000}",) for number in range(3 * UNSENT_MAX)])
    session.send_many(ADD, [(f"{number:05}",) for number in range(3 * UNSENT_MAX)])
    assert len(session.tuples(session.send(ALL))) == 3 * UNSENT_MAX
    session.undo()


def test_statements_are_prepared_once_and_not_without_end(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = "SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'restante%'"
    for number in (1, 2, 3, 2, 1):
        asked(session, f"SELECT {number}")
    assert asked(session, prepared) == [(4,)]
    monkeypatch.setattr(postgres_session, "PREPARED_MAX", 3)
    assert asked(session, prepared) == [(1,)]
    assert asked(session, "SELECT 1") == [(1,)]


def test_what_could_not_be_prepared_can_be_when_it_is_right(session: Session) -> None:
    for _ in range(2):
        session.open()
        with pytest.raises(psycopg.errors.UndefinedTable):
            session.tuples(session.send("SELECT text FROM later"))
        session.end()
    session.run_script("CREATE TABLE later (text TEXT)")
    assert asked(session, "SELECT text FROM later") == []


def test_what_failed_shows_with_the_first_answer_behind_it(session: Session) -> None:
    session.open()
    session.send("BEGIN")
    session.send_many(ADD, [("a",), ("a",)])
    left_out = session.send(ALL)
    with pytest.raises(psycopg.errors.UniqueViolation):
        session.tuples(left_out)
    with pytest.raises(psycopg.InterfaceError, match="left out"):
        session.tuples(left_out)
    session.undo()
    assert asked(session, ALL) == []


def test_what_failed_shows_at_the_end_at_the_latest(session: Session) -> None:
    session.open()
    session.send("BEGIN")
    session.send_many(ADD, [("a",), ("a",)])
    session.send("COMMIT")
    with pytest.raises(psycopg.errors.UniqueViolation):
        session.end()
    session.undo()
    assert asked(session, ALL) == []


def test_what_was_prepared_before_it_was_undone_is_prepared_again(session: Session) -> None:
    for _ in range(3):
        session.open()
        session.send("BEGIN")
        session.send_many(ADD, [("a",)])
        assert session.tuples(session.send(ALL)) == [("a",)]
        session.undo()


def test_the_schema_may_change_in_between(session: Session) -> None:
    for _ in range(2):
        session.open()
        session.send("BEGIN")
        session.send_many(ADD, [("a",)])
        session.send("ALTER TABLE notes ADD COLUMN number BIGINT")
        session.send(ADD, ["b"])
        session.send("ALTER TABLE notes DROP COLUMN number")
        assert session.tuples(session.send(ALL)) == [("a",), ("b",)]
        session.undo()


def test_who_was_hung_up_on_is_noticed_before_anything_is_sent(session: Session, empty_postgres_url: str) -> None:
    assert not session.is_gone()
    ((pid,),) = asked(session, "SELECT pg_backend_pid()")
    with psycopg.connect(empty_postgres_url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))
    assert session.is_gone()
    assert session.is_lost


def test_who_only_hears_something_is_not_gone(session: Session) -> None:
    """What is told unasked, as to who listens, is no hanging up."""
    asked(session, "LISTEN something")
    asked(session, "NOTIFY something")
    assert not session.is_gone()
    assert asked(session, "SELECT 1") == [(1,)]


def test_statements_are_planned_once_as_seeks(session: Session) -> None:
    settings = "'jit', 'plan_cache_mode', 'enable_seqscan', 'enable_bitmapscan'"
    rows = asked(session, f"SELECT name, setting FROM pg_settings WHERE name IN ({settings})")
    assert dict(rows) == {
        "jit": "off",
        "plan_cache_mode": "force_generic_plan",
        "enable_seqscan": "off",
        "enable_bitmapscan": "off",
    }
