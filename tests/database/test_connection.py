"""What domain code may rely on, whichever engine it runs on."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from restante.database.engine import Engine, EngineConnection
from restante.database.errors import DatabaseError, UniqueViolation
from restante.database.queries import Query
from tests.conftest import START_MS, ManualClock
from tests.database.notes import ADD, ALL

ADD_RETURNING = Query("add", "INSERT INTO notes (text) VALUES (:text) RETURNING id, text")
RENAME = Query("rename", "UPDATE notes SET text = text || '!' WHERE text >= :least")


@dataclass
class Note:
    id: int
    text: str


@pytest.fixture
def conn(engine: Engine) -> Iterator[EngineConnection]:
    conn = _connected(engine)
    conn.begin()
    yield conn
    conn.rollback()
    conn.close()


def _connected(engine: Engine) -> EngineConnection:
    return engine.connect(writable=True)


def test_the_clock_is_read_once_in_a_transaction(conn: EngineConnection, clock: ManualClock) -> None:
    assert conn.now_ms == START_MS
    clock.advance(5)
    assert conn.now_ms == START_MS
    conn.rollback()
    conn.begin()
    assert conn.now_ms == START_MS + 5000


def test_rows_are_read_by_name_and_become_dataclasses(conn: EngineConnection) -> None:
    row = conn.one(ADD_RETURNING, text="a")
    assert row is not None
    assert Note(**row) == Note(1, "a")


def test_one_is_the_first_or_none(conn: EngineConnection) -> None:
    assert conn.one(ALL) is None
    conn.run_many(ADD, [{"text": "a"}, {"text": "b"}])
    row = conn.one(ALL)
    assert row is not None
    assert row["text"] == "a"
    assert [row["text"] for row in conn.all(ALL)] == ["a", "b"]


def test_run_says_how_many_rows_it_changed(conn: EngineConnection) -> None:
    conn.run_many(ADD, [{"text": text} for text in "abc"])
    assert conn.run(RENAME, least="b") == 2
    assert conn.run(RENAME, least="z") == 0


def test_run_many_of_nothing_does_nothing(conn: EngineConnection) -> None:
    conn.run_many(ADD, [])
    assert conn.all(ALL) == []


def test_commit_gives_what_was_announced_in_order_and_once(conn: EngineConnection) -> None:
    conn.announce("a")
    conn.announce("b")
    assert conn.commit() == ["a", "b"]
    conn.begin()
    assert conn.commit() == []


def test_rollback_takes_back_what_was_announced(conn: EngineConnection) -> None:
    conn.announce("a")
    conn.rollback()
    conn.begin()
    assert conn.commit() == []


SWAP = Query("swap", "UPDATE notes SET text = :new || ':' || :old WHERE text = :old AND ':old' = ':old'")


def test_values_are_plain_tuples_in_the_order_of_the_columns(conn: EngineConnection) -> None:
    conn.run_many(ADD, [{"text": "a"}, {"text": "b"}])
    assert conn.values(Query("pairs", "SELECT text, id FROM notes WHERE id <= :most ORDER BY id"), most=1) == [("a", 1)]
    assert [row["text"] for row in conn.all(ALL)] == ["a", "b"]


def test_what_is_told_later_was_read_when_it_was_asked_for(conn: EngineConnection) -> None:
    conn.run(ADD, text="a")
    before = conn.values_later(Query("texts", "SELECT text FROM notes ORDER BY id"))
    conn.run_rows(ADD, [("b",)])
    after = conn.values_later(Query("texts", "SELECT text FROM notes ORDER BY id"))
    assert after() == [("a",), ("b",)]
    assert before() == [("a",)]
    assert before() == [("a",)]


def test_rows_to_run_have_their_values_in_the_order_the_query_first_names_them(conn: EngineConnection) -> None:
    conn.run_rows(ADD, [("a",), ("b",), ("c",)])
    conn.run_rows(SWAP, [("x", "a"), ("y", "c")])
    assert [row["text"] for row in conn.all(ALL)] == ["x:a", "b", "y:c"]
    conn.run_rows(ADD, [])


def test_what_the_database_refuses_of_many_rows_is_our_error(conn: EngineConnection) -> None:
    """At the latest when the transaction is to be committed."""

    def add_twice() -> None:
        conn.run_rows(ADD, [("a",), ("a",)])
        conn.commit()

    with pytest.raises(UniqueViolation):
        add_twice()
    conn.rollback()
    conn.begin()
    assert conn.all(ALL) == []
    with pytest.raises(DatabaseError):
        conn.values(Query("nowhere", "SELECT 1 FROM nowhere"))
