from collections.abc import Iterator

import psycopg
import pytest

from restante.database.postgres_session import Session


@pytest.fixture
def session(empty_postgres_url: str) -> Iterator[Session]:
    session = Session({"conninfo": empty_postgres_url})
    session.set_up()
    session.run_script("CREATE TABLE notes (text TEXT PRIMARY KEY)")
    yield session
    session.close()


ADD = "INSERT INTO notes (text) VALUES ($1)"
ALL = "SELECT text FROM notes ORDER BY text"


def journeys(session: Session) -> list[str]:
    """What is sent and waited for from here on, as the server is told to flush its answers."""
    sent: list[str] = []
    assert session._pipeline is not None
    sync = session._pipeline.sync

    def counted() -> None:
        sent.append("journey")
        sync()

    session._pipeline.sync = counted  # type: ignore[method-assign]
    return sent


def test_nothing_is_waited_for_until_somebody_wants_an_answer(session: Session) -> None:
    session.open()
    waited = journeys(session)
    session.send("BEGIN")
    session.send_many(ADD, [("a",), ("b",)])
    rows = session.send(ALL)
    number = session.send("SELECT 1")
    assert waited == []
    assert session.fetch(rows) == [("a",), ("b",)]
    assert session.fetch(number) == [(1,)]
    assert waited == ["journey"]
    session.send("COMMIT")
    session.end()
    assert session.fetch(session.send(ALL)) == [("a",), ("b",)]


def test_rows_come_by_name_if_wanted(session: Session) -> None:
    assert session.fetch(session.send("SELECT 1 AS one, 'x' AS two", named=True)) == [{"one": 1, "two": "x"}]
    assert session.fetch(session.send(ADD, ["a"])) == []


def test_what_failed_shows_with_the_first_answer_behind_it(session: Session) -> None:
    session.open()
    session.send("BEGIN")
    session.send_many(ADD, [("a",), ("a",)])
    left_out = session.send(ALL)
    with pytest.raises(psycopg.errors.UniqueViolation):
        session.fetch(left_out)
    with pytest.raises(psycopg.InterfaceError, match="left out"):
        session.fetch(left_out)
    session.undo()
    assert session.fetch(session.send(ALL)) == []


def test_what_failed_shows_at_the_end_at_the_latest(session: Session) -> None:
    session.open()
    session.send("BEGIN")
    session.send_many(ADD, [("a",), ("a",)])
    session.send("COMMIT")
    with pytest.raises(psycopg.errors.UniqueViolation):
        session.end()
    session.undo()
    session.open()
    assert session.fetch(session.send(ALL)) == []
    session.end()


def test_what_was_prepared_before_it_was_undone_is_prepared_again(session: Session) -> None:
    for _ in range(3):
        session.open()
        session.send("BEGIN")
        session.send_many(ADD, [("a",)])
        assert session.fetch(session.send(ALL)) == [("a",)]
        session.undo()


def test_a_change_of_the_schema_travels_alone(session: Session) -> None:
    for _ in range(2):
        session.open()
        session.send("BEGIN")
        session.send_many(ADD, [("a",)])
        session.send("ALTER TABLE notes ADD COLUMN number BIGINT")
        session.send(ADD, ["b"])
        session.send("ALTER TABLE notes DROP COLUMN number")
        assert session.fetch(session.send(ALL)) == [("a",), ("b",)]
        session.undo()


def test_who_was_hung_up_on_is_noticed_before_anything_is_sent(session: Session, empty_postgres_url: str) -> None:
    assert not session.is_gone()
    ((pid,),) = session.fetch(session.send("SELECT pg_backend_pid()"))
    with psycopg.connect(empty_postgres_url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 10000)", (pid,))
    assert session.is_gone()
    assert session.is_lost


def test_who_only_hears_something_is_not_gone(session: Session) -> None:
    """What is told unasked, as to who listens, is no hanging up."""
    session.fetch(session.send("LISTEN something"))
    session.fetch(session.send("NOTIFY something"))
    assert not session.is_gone()
    assert session.fetch(session.send("SELECT 1")) == [(1,)]


def test_statements_are_planned_once_as_seeks(session: Session) -> None:
    settings = "'jit', 'plan_cache_mode', 'enable_seqscan', 'enable_bitmapscan'"
    rows = session.fetch(session.send(f"SELECT name, setting FROM pg_settings WHERE name IN ({settings})"))
    assert dict(rows) == {
        "jit": "off",
        "plan_cache_mode": "force_generic_plan",
        "enable_seqscan": "off",
        "enable_bitmapscan": "off",
    }
