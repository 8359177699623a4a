"""What whoever opens transactions may rely on, whichever engine it is."""

import pytest

from restante.database.engine import Engine
from restante.database.errors import DatabaseError
from restante.database.sqlite import SqliteEngine
from tests.database.notes import ADD, everything


@pytest.fixture
def any_engine(engine: Engine) -> Engine:
    return engine


def test_an_engine_has_a_name(any_engine: Engine, engine_name: str) -> None:
    assert any_engine.name == engine_name


def test_what_is_committed_is_seen_by_others_and_what_is_not_is_not(any_engine: Engine) -> None:
    writing, reading = any_engine.connect(writable=True), any_engine.connect(writable=False)
    writing.begin()
    writing.run(ADD, text="a")
    assert everything(reading) == []
    writing.commit()
    assert everything(reading) == ["a"]
    writing.begin()
    writing.run(ADD, text="b")
    writing.rollback()
    assert everything(reading) == ["a"]
    writing.close()
    reading.close()


def test_a_reader_sees_one_moment(any_engine: Engine) -> None:
    writing, reading = any_engine.connect(writable=True), any_engine.connect(writable=False)
    reading.begin()
    assert everything(reading) == []
    writing.begin()
    writing.run(ADD, text="a")
    writing.commit()
    assert everything(reading) == []
    reading.rollback()
    assert everything(reading) == ["a"]
    writing.close()
    reading.close()


def test_rollback_where_nothing_is_open_does_nothing(any_engine: Engine) -> None:
    conn = any_engine.connect(writable=True)
    conn.rollback()
    conn.close()


def test_foreign_commits_change_with_others_commits_only(sqlite_engine: SqliteEngine) -> None:
    ours, theirs = sqlite_engine.connect(writable=True), sqlite_engine.connect(writable=True)
    before = ours.foreign_commits()
    for conn, text in ((ours, "ours"), (theirs, "theirs")):
        conn.begin()
        conn.run(ADD, text=text)
        conn.commit()
        assert (ours.foreign_commits() == before) == (conn is ours)
    ours.close()
    theirs.close()


def test_changes_tell_whether_anything_was_changed_or_announced(any_engine: Engine) -> None:
    conn = any_engine.connect(writable=True)
    conn.begin()
    readings = [conn.changes]
    everything(conn)
    readings.append(conn.changes)
    conn.run(ADD, text="a")
    readings.append(conn.changes)
    conn.announce("a")
    readings.append(conn.changes)
    assert readings[0] == readings[1] < readings[2] < readings[3]
    conn.rollback()
    conn.close()


def test_a_script_is_part_of_the_transaction(any_engine: Engine) -> None:
    conn = any_engine.connect(writable=True)
    conn.begin()
    conn.run_script("INSERT INTO notes (text) VALUES ('a');\nINSERT INTO notes (text) VALUES ('b');\n")
    assert everything(conn) == ["a", "b"]
    conn.rollback()
    assert everything(conn) == []
    conn.begin()
    with pytest.raises(DatabaseError):
        conn.run_script("INSERT INTO notes (text) VALUES ('a');\nINSERT INTO nowhere VALUES (1);")
    conn.rollback()
    assert everything(conn) == []
    conn.close()
