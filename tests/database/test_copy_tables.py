from collections.abc import Callable
from pathlib import Path

import pytest

from restante.database import copy_tables
from restante.database.connection import Connection
from restante.database.copy_tables import CopyProgress, CopySummary, copy
from restante.database.database import Database
from restante.database.engine import Engine
from restante.database.errors import DatabaseError
from restante.database.migrate import migrate
from restante.database.queries import Query
from restante.database.sqlite import SqliteEngine
from tests.defaults import new_postgres_engine

USERS = 10
SESSIONS = 7
CHUNK_ROWS = 3
EMPTY = "the target is not empty"

_ADD_USER = Query(
    "add_user",
    "INSERT INTO users (email, password_hash, role, created_at) VALUES (:email, 'häsh \"\\', 'viewer', :id)",
)
_ADD_SESSION = Query(
    "add_session",
    "INSERT INTO sessions (token_hash, user_id, created_at, expires_at) VALUES (:token_hash, 1, 1, 2)",
)
_ADD_EVENT = Query(
    "add_event",
    "INSERT INTO safety_events (site_id, device_id, miner_id, action, reason, temp_max, ts, received_at)"
    " VALUES (1, 1, 1, 'stop', 'hot', :temp_max, :ts, 1)",
)
_DELETE_NEWEST = Query("delete_newest", "DELETE FROM users WHERE id = :id")
_RENAME = Query("rename", "UPDATE users SET email = 'changed@example.com' WHERE id = 2")
_USERS = Query("users", "SELECT id, email, password_hash FROM users ORDER BY id")
_SESSIONS = Query("sessions", "SELECT token_hash FROM sessions ORDER BY token_hash")
_NEXT_ID = Query(
    "next_id",
    "INSERT INTO users (email, password_hash, role, created_at) VALUES ('n', 'n', 'viewer', 1) RETURNING id",
)


class Stopped(Exception):
    """Interrupts the copy."""


def fill(conn: Connection) -> None:
    for number in range(1, USERS + 2):
        conn.run(_ADD_USER, email=f"user{number}@example.com", id=number)
    # An id that was issued and deleted: it must not be issued again.
    conn.run(_DELETE_NEWEST, id=USERS + 1)
    for number in range(SESSIONS):
        conn.run(_ADD_SESSION, token_hash=bytes([number, 0, 255]))
    conn.run(_ADD_EVENT, temp_max=81.1, ts=1)
    conn.run(_ADD_EVENT, temp_max=None, ts=2)


def migrated(path: Path) -> SqliteEngine:
    engine = SqliteEngine(path)
    migrate(engine)
    return engine


def write(engine: Engine, work: Callable[[Connection], object]) -> None:
    database = Database(engine)
    try:
        database.write_now(work)
    finally:
        database.close()


def rows(engine: Engine, query: Query) -> list[tuple[object, ...]]:
    database = Database(engine)
    try:
        return [tuple(dict(row).values()) for row in database.read_now(lambda conn: conn.all(query))]
    finally:
        database.close()


def ignore(_progress: CopyProgress) -> None:
    return None


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_tables, "CHUNK_ROWS", CHUNK_ROWS)


@pytest.fixture
def source(tmp_path: Path) -> SqliteEngine:
    engine = migrated(tmp_path / "source.db")
    write(engine, fill)
    return engine


@pytest.fixture
def target(engine_name: str, tmp_path: Path, request: pytest.FixtureRequest) -> Engine:
    if engine_name == "postgres":
        return new_postgres_engine(request.getfixturevalue("postgres_url"))
    return migrated(tmp_path / "target.db")


def test_all_rows_are_copied(source: SqliteEngine, target: Engine) -> None:
    summary = copy(source, target, ignore)
    assert isinstance(summary, CopySummary)
    assert summary.rows >= USERS + SESSIONS + 2
    for query in (_USERS, _SESSIONS):
        assert rows(target, query) == rows(source, query)
    write(target, copy_tables.refuse_unfinished)


def test_progress_is_reported(source: SqliteEngine, target: Engine) -> None:
    reported: list[CopyProgress] = []
    copy(source, target, reported.append)
    assert [each.copied for each in reported if each.table == "users" and not each.compared] == [0, 3, 6, 9, 10]
    assert reported[-1].copied == reported[-1].total
    assert max(each.compared for each in reported if each.table == "sessions") == SESSIONS


@pytest.mark.parametrize("after", range(1, 6))
def test_interrupted_copy_is_resumed(source: SqliteEngine, target: Engine, after: int) -> None:
    left = after

    def interrupt(progress: CopyProgress) -> None:
        nonlocal left
        if progress.table in ("users", "sessions") and progress.copied:
            left -= 1
            if not left:
                raise Stopped

    with pytest.raises(Stopped):
        copy(source, target, interrupt)
    with pytest.raises(DatabaseError, match="has not finished"):
        write(target, copy_tables.refuse_unfinished)
    begun = {
        row[0]: row[1] for row in rows(target, Query("progress", "SELECT table_name, row_count FROM copy_progress"))
    }
    resumed: list[CopyProgress] = []
    copy(source, target, resumed.append)
    first = {each.table: each.copied for each in reversed(resumed) if not each.compared}
    assert first["users"] == begun["users"]
    assert rows(target, _USERS) == rows(source, _USERS)
    assert rows(target, _SESSIONS) == rows(source, _SESSIONS)


def test_target_with_data_is_not_touched(source: SqliteEngine, target: Engine) -> None:
    write(target, lambda conn: conn.run(_ADD_USER, email="mine@example.com", id=1))
    before = rows(target, _USERS)
    with pytest.raises(DatabaseError, match=EMPTY):
        copy(source, target, ignore)
    with pytest.raises(DatabaseError, match=EMPTY):
        copy(source, target, ignore, start_over=True)
    assert rows(target, _USERS) == before


def test_changed_source_is_detected_and_copied_again(source: SqliteEngine, target: Engine) -> None:
    def interrupt(progress: CopyProgress) -> None:
        if progress.table == "users" and progress.copied >= 2 * CHUNK_ROWS:
            raise Stopped

    with pytest.raises(Stopped):
        copy(source, target, interrupt)
    write(source, lambda conn: conn.run(_RENAME))
    with pytest.raises(DatabaseError, match="users differs"):
        copy(source, target, ignore)
    with pytest.raises(DatabaseError, match="has not finished"):
        write(target, copy_tables.refuse_unfinished)
    copy(source, target, ignore, start_over=True)
    assert rows(target, _USERS) == rows(source, _USERS)


def test_no_id_is_issued_twice(source: SqliteEngine, target: Engine) -> None:
    copy(source, target, ignore)
    issued: list[int] = []
    write(target, lambda conn: issued.extend(row["id"] for row in conn.all(_NEXT_ID)))
    assert issued == [USERS + 2]
