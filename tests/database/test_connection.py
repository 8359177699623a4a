"""The guarantees of a connection to domain code, on both engines."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from restante.database.engine import Engine, EngineConnection
from restante.database.errors import DatabaseError, UniqueViolation
from restante.database.queries import Query
from tests.conftest import START_MS, ManualClock
from tests.database.notes_table import ADD, ALL

ADD_RETURNING = Query("add", "INSERT INTO notes (text) VALUES (:text) RETURNING id, text")
RENAME = Query("rename", "UPDATE notes SET text = text || '!' WHERE text >= :least")


@dataclass
class Note:
    id: int
    text: str


@pytest.fixture
def conn(engine: Engine) -> Iterator[EngineConnection]:
    conn = engine.connect(writable=True)
    conn.begin()
    yield conn
    conn.rollback()
    conn.close()


def test_clock_is_read_once_per_transaction(conn: EngineConnection, clock: ManualClock) -> None:
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


def test_one_returns_the_first_row_or_none(conn: EngineConnection) -> None:
    assert conn.one(ALL) is None
    conn.run_many(ADD, [{"text": "a"}, {"text": "b"}])
    row = conn.one(ALL)
    assert row is not None
    assert row["text"] == "a"
    assert [row["text"] for row in conn.all(ALL)] == ["a", "b"]


def test_run_returns_the_number_of_changed_rows(conn: EngineConnection) -> None:
    conn.run_many(ADD, [{"text": text} for text in "abc"])
    assert conn.run(RENAME, least="b") == 2
    assert conn.run(RENAME, least="z") == 0


def test_run_many_without_rows_does_nothing(conn: EngineConnection) -> None:
    conn.run_many(ADD, [])
    assert conn.all(ALL) == []


def test_commit_returns_its_events_once_and_in_order(conn: EngineConnection) -> None:
    conn.add_commit_event("a")
    conn.add_commit_event("b")
    assert conn.commit() == ["a", "b"]
    conn.begin()
    assert conn.commit() == []


def test_rollback_discards_commit_events(conn: EngineConnection) -> None:
    conn.add_commit_event("a")
    conn.rollback()
    conn.begin()
    assert conn.commit() == []


SWAP = Query("swap", "UPDATE notes SET text = :new || ':' || :old WHERE text = :old AND ':old' = ':old'")


def test_values_returns_tuples_in_column_order(conn: EngineConnection) -> None:
    conn.run_many(ADD, [{"text": "a"}, {"text": "b"}])
    assert conn.values(Query("pairs", "SELECT text, id FROM notes WHERE id <= :most ORDER BY id"), most=1) == [("a", 1)]
    assert [row["text"] for row in conn.all(ALL)] == ["a", "b"]


def test_prefetch_reads_when_it_is_called(conn: EngineConnection) -> None:
    conn.run(ADD, text="a")
    before = conn.prefetch(Query("texts", "SELECT text FROM notes ORDER BY id"))
    conn.run_rows(ADD, [("b",)])
    after = conn.prefetch(Query("texts", "SELECT text FROM notes ORDER BY id"))
    assert after() == [("a",), ("b",)]
    assert before() == [("a",)]
    assert before() == [("a",)]


def test_run_rows_takes_values_in_order_of_first_use(conn: EngineConnection) -> None:
    conn.run_rows(ADD, [("a",), ("b",), ("c",)])
    conn.run_rows(SWAP, [("x", "a"), ("y", "c")])
    assert [row["text"] for row in conn.all(ALL)] == ["x:a", "b", "y:c"]
    conn.run_rows(ADD, [])


def test_refused_row_of_run_rows_raises_our_error(conn: EngineConnection) -> None:
    """At the latest at the commit."""

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
