"""The guarantees of a connection to the code that opens transactions, on both engines."""

import pytest

from restante.database.engine import Engine
from restante.database.errors import DatabaseError
from restante.database.sqlite import SqliteEngine
from tests.database.notes_table import ADD, everything


def test_engine_has_its_name(engine: Engine, engine_name: str) -> None:
    assert engine.name == engine_name


def test_other_connections_see_committed_changes_only(engine: Engine) -> None:
    writing, reading = engine.connect(writable=True), engine.connect(writable=False)
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


def test_reader_has_a_snapshot(engine: Engine) -> None:
    writing, reading = engine.connect(writable=True), engine.connect(writable=False)
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


def test_rollback_without_a_transaction_does_nothing(engine: Engine) -> None:
    conn = engine.connect(writable=True)
    conn.rollback()
    conn.close()


def test_foreign_version_changes_with_commits_of_others_only(sqlite_engine: SqliteEngine) -> None:
    ours, theirs = sqlite_engine.connect(writable=True), sqlite_engine.connect(writable=True)
    before = ours.foreign_version()
    for conn, text in ((ours, "ours"), (theirs, "theirs")):
        conn.begin()
        conn.run(ADD, text=text)
        conn.commit()
        assert (ours.foreign_version() == before) == (conn is ours)
    ours.close()
    theirs.close()


def test_change_count_grows_with_changed_rows_and_commit_events(engine: Engine) -> None:
    conn = engine.connect(writable=True)
    conn.begin()
    readings = [conn.change_count]
    everything(conn)
    readings.append(conn.change_count)
    conn.run(ADD, text="a")
    readings.append(conn.change_count)
    conn.add_commit_event("a")
    readings.append(conn.change_count)
    assert readings[0] == readings[1] < readings[2] < readings[3]
    conn.rollback()
    conn.close()


def test_script_is_part_of_the_transaction(engine: Engine) -> None:
    conn = engine.connect(writable=True)
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
