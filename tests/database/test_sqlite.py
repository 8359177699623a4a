import sqlite3
import time
from pathlib import Path

import pytest

from restante.database import sqlite
from restante.database.errors import DatabaseError, DatabaseUnavailable, UniqueViolation
from restante.database.queries import Query
from restante.database.sqlite import SqliteEngine, wall_clock_ms
from tests.database.notes_table import ADD, everything


def query(text: str) -> Query:
    return Query("test", text)


def test_commits_are_flushed_to_disk(sqlite_engine: SqliteEngine) -> None:
    conn = sqlite_engine.connect(writable=True)
    settings = {
        name: conn.all(query(f"PRAGMA {name}"))[0][name] for name in ("journal_mode", "synchronous", "foreign_keys")
    }
    assert settings == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1}
    conn.close()


def test_read_only_connection_cannot_write(sqlite_engine: SqliteEngine) -> None:
    conn = sqlite_engine.connect(writable=False)
    conn.begin()
    with pytest.raises(DatabaseError):
        conn.run(ADD, text="a")
    conn.rollback()
    conn.close()


def test_read_only_connection_creates_no_file(tmp_path: Path) -> None:
    path = tmp_path / "absent.db"
    with pytest.raises(DatabaseUnavailable):
        SqliteEngine(path).connect(writable=False)
    assert not path.exists()


def test_path_may_contain_characters_reserved_in_urls(tmp_path: Path) -> None:
    folder = tmp_path / "a b?c#d%41é"
    folder.mkdir()
    SqliteEngine(folder / "x.db").connect(writable=True).close()
    assert (folder / "x.db").exists()


def test_duplicate_key_raises_unique_violation_with_its_constraint(sqlite_engine: SqliteEngine) -> None:
    conn = sqlite_engine.connect(writable=True)
    conn.begin()
    conn.run(ADD, text="a")
    with pytest.raises(UniqueViolation) as refused:
        conn.run(ADD, text="a")
    assert refused.value.constraint == "notes.text"
    with pytest.raises(UniqueViolation):
        conn.run_many(query("INSERT INTO notes (id, text) VALUES (1, :text)"), [{"text": "b"}])
    # Only the statement was undone.
    assert everything(conn) == ["a"]
    conn.rollback()
    conn.close()


def test_wrong_statement_raises_database_error_not_unavailable(sqlite_engine: SqliteEngine) -> None:
    conn = sqlite_engine.connect(writable=True)
    for run in (conn.all, conn.one, conn.run):
        with pytest.raises(DatabaseError) as refused:
            run(query("SELECT nothing FROM nowhere"))
        assert not isinstance(refused.value, DatabaseUnavailable)
        assert isinstance(refused.value.__cause__, sqlite3.Error)
    conn.close()


def test_lock_of_another_connection_raises_unavailable(
    sqlite_engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_file_that_is_no_database_raises_unavailable(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(b"not a database, and long enough to be recognised as none" * 100)
    with pytest.raises(DatabaseUnavailable):
        SqliteEngine(path).connect(writable=True)


def test_closed_connection_raises_database_error(sqlite_engine: SqliteEngine) -> None:
    conn = sqlite_engine.connect(writable=True)
    conn.close()
    with pytest.raises(DatabaseError):
        conn.begin()


def test_foreign_keys_are_enforced(sqlite_engine: SqliteEngine) -> None:
    conn = sqlite_engine.connect(writable=True)
    conn.begin()
    conn.run_script("CREATE TABLE comments (note INTEGER NOT NULL REFERENCES notes (id));")
    with pytest.raises(DatabaseError):
        conn.run(query("INSERT INTO comments (note) VALUES (99)"))
    conn.rollback()
    conn.close()


def test_script_may_contain_triggers_comments_and_quoted_semicolons(sqlite_engine: SqliteEngine) -> None:
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
        -- The last comment.
        /* Statements of another engine;
        in a comment; */
        """
    )
    assert everything(conn) == ["a", "echo; of a", "again"]
    conn.rollback()
    conn.close()


def test_unterminated_script_is_refused(sqlite_engine: SqliteEngine) -> None:
    conn = sqlite_engine.connect(writable=True)
    conn.begin()
    with pytest.raises(ValueError, match="unterminated SQL statement"):
        conn.run_script("INSERT INTO notes (text) VALUES ('a');\nINSERT INTO notes")
    conn.rollback()
    conn.close()


def test_wall_clock_counts_milliseconds() -> None:
    assert abs(wall_clock_ms() - time.time() * 1000) < 1000
