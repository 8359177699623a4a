import sqlite3
import time
from pathlib import Path

import pytest

from restante.database import sqlite
from restante.database.errors import DatabaseError, DatabaseUnavailable, UniqueViolation
from restante.database.queries import Query
from restante.database.sqlite import SqliteEngine, wall_clock_ms
from tests.database.notes import ADD, everything


def asked(text: str) -> Query:
    return Query("asked", text)


def test_a_commit_is_flushed_before_it_counts(sqlite_engine: SqliteEngine) -> None:
    conn = sqlite_engine.connect(writable=True)
    settings = {
        name: conn.all(asked(f"PRAGMA {name}"))[0][name] for name in ("journal_mode", "synchronous", "foreign_keys")
    }
    assert settings == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}
    conn.close()


def test_a_reading_connection_cannot_write(sqlite_engine: SqliteEngine) -> None:
    conn = sqlite_engine.connect(writable=False)
    conn.begin()
    with pytest.raises(DatabaseError):
        conn.run(ADD, text="a")
    conn.rollback()
    conn.close()


def test_a_reading_connection_makes_no_file(tmp_path: Path) -> None:
    path = tmp_path / "absent.db"
    with pytest.raises(DatabaseUnavailable):
        SqliteEngine(path).connect(writable=False)
    assert not path.exists()


def test_a_path_may_hold_what_an_address_may_not(tmp_path: Path) -> None:
    folder = tmp_path / "a b?c#d%41é"
    folder.mkdir()
    SqliteEngine(folder / "x.db").connect(writable=True).close()
    assert (folder / "x.db").exists()


def test_a_second_key_is_a_unique_violation_that_says_which(sqlite_engine: SqliteEngine) -> None:
    conn = sqlite_engine.connect(writable=True)
    conn.begin()
    conn.run(ADD, text="a")
    with pytest.raises(UniqueViolation) as refused:
        conn.run(ADD, text="a")
    assert refused.value.constraint == "notes.text"
    with pytest.raises(UniqueViolation):
        conn.run_many(asked("INSERT INTO notes (id, text) VALUES (1, :text)"), [{"text": "b"}])
    # The statement was undone, not the transaction.
    assert everything(conn) == ["a"]
    conn.rollback()
    conn.close()


def test_a_wrong_statement_is_a_database_error_and_not_unavailability(sqlite_engine: SqliteEngine) -> None:
    conn = sqlite_engine.connect(writable=True)
    for run in (conn.all, conn.one, conn.run):
        with pytest.raises(DatabaseError) as refused:
            run(asked("SELECT nothing FROM nowhere"))
        assert not isinstance(refused.value, DatabaseUnavailable)
        assert isinstance(refused.value.__cause__, sqlite3.Error)
    conn.close()


def test_a_lock_held_elsewhere_is_unavailability(sqlite_engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "BUSY_SECONDS", 0.02)
    first, second = sqlite_engine.connect(writable=True), sqlite_engine.connect(writable=True)
    first.begin()
    with pytest.raises(DatabaseUnavailable):
        second.begin()
    first.rollback()
    second.begin()
    second.rollback()
    first.close()
    second.close()


def test_a_file_that_is_no_database_is_unavailability(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(b"not a database, and long enough to be seen as none" * 100)
    with pytest.raises(DatabaseUnavailable):
        SqliteEngine(path).connect(writable=True)


def test_a_closed_connection_is_a_database_error(sqlite_engine: SqliteEngine) -> None:
    conn = sqlite_engine.connect(writable=True)
    conn.close()
    with pytest.raises(DatabaseError):
        conn.begin()


def test_foreign_keys_hold(sqlite_engine: SqliteEngine) -> None:
    conn = sqlite_engine.connect(writable=True)
    conn.begin()
    conn.run_script("CREATE TABLE about (note INTEGER NOT NULL REFERENCES notes (id));")
    with pytest.raises(DatabaseError):
        conn.run(asked("INSERT INTO about (note) VALUES (99)"))
    conn.rollback()
    conn.close()


def test_a_script_may_hold_triggers_comments_and_quoted_semicolons(sqlite_engine: SqliteEngine) -> None:
    conn = sqlite_engine.connect(writable=True)
    conn.begin()
    conn.run_script(
        """
        -- A comment; with a semicolon.
        CREATE TRIGGER echo AFTER INSERT ON notes WHEN new.text = 'a' BEGIN
            INSERT INTO notes (text) VALUES ('echo; of a');
            INSERT INTO notes (text) VALUES ('again');
        END;
        INSERT INTO notes (text)
        VALUES ('a');
        -- The last word.
        /* What another engine does;
        and how; */
        """
    )
    assert everything(conn) == ["a", "echo; of a", "again"]
    conn.rollback()
    conn.close()


def test_a_script_that_does_not_end_is_refused(sqlite_engine: SqliteEngine) -> None:
    conn = sqlite_engine.connect(writable=True)
    conn.begin()
    with pytest.raises(ValueError, match="does not end"):
        conn.run_script("INSERT INTO notes (text) VALUES ('a');\nINSERT INTO notes")
    conn.rollback()
    conn.close()


def test_the_wall_clock_counts_milliseconds() -> None:
    assert abs(wall_clock_ms() - time.time() * 1000) < 1000
