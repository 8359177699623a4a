from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from restante.commands.audit.audit_trail import PART_ROWS
from restante.database import migrate as migrations
from restante.database.engine import Engine
from restante.database.errors import DatabaseError
from restante.database.migrate import Migration, available, is_new, migrate, pending
from restante.database.queries import Query
from restante.database.sqlite import SqliteEngine
from tests.conftest import START_MS, ManualClock
from tests.defaults import new_postgres_engine

TABLES = Query("tables", "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 't%' ORDER BY name")
RECORDED = Query("recorded", "SELECT number, name, applied_at FROM schema_migrations ORDER BY number")
ONE = Migration(1, "one", "CREATE TABLE t1 (x INTEGER);")
TWO = Migration(2, "two", "CREATE TABLE t2 (x INTEGER);\nINSERT INTO t1 (x) VALUES (2);")
BROKEN = Migration(3, "broken", "CREATE TABLE t3 (x INTEGER);\nINSERT INTO nowhere VALUES (1);")


@pytest.fixture
def engine(tmp_path: Path, clock: ManualClock) -> SqliteEngine:
    return SqliteEngine(tmp_path / "empty.db", clock=clock)


def set_available(monkeypatch: pytest.MonkeyPatch, *steps: Migration) -> None:
    monkeypatch.setattr(migrations, "available", lambda: list(steps))


def rows(engine: Engine, query: Query) -> list[tuple[object, ...]]:
    conn = engine.connect(writable=False)
    try:
        return [tuple(row[column] for column in row.keys()) for row in conn.all(query)]  # noqa: SIM118 — no dict
    finally:
        conn.close()


def test_migrations_of_the_product_have_numbers_of_their_own() -> None:
    """Gaps are allowed: numbers are reserved for parts of the work that are done at the same time."""
    numbers = [step.number for step in available()]
    assert numbers == sorted(set(numbers))


def test_migrations_of_the_product_are_applied_once(engine: SqliteEngine) -> None:
    assert migrate(engine) == available()
    assert migrate(engine) == []


def test_applied_migrations_are_recorded(engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    set_available(monkeypatch, ONE, TWO)
    migrate(engine)
    assert rows(engine, RECORDED) == [(1, "one", START_MS), (2, "two", START_MS)]


def test_only_pending_migrations_are_applied(engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    set_available(monkeypatch, ONE)
    migrate(engine)
    set_available(monkeypatch, ONE, TWO)
    conn = engine.connect(writable=False)
    assert pending(conn) == [TWO]
    conn.close()
    assert migrate(engine) == [TWO]
    assert rows(engine, TABLES) == [("t1",), ("t2",)]


def test_failing_migration_changes_nothing(engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    set_available(monkeypatch, ONE)
    migrate(engine)
    set_available(monkeypatch, ONE, TWO, BROKEN)
    with pytest.raises(DatabaseError):
        migrate(engine)
    assert rows(engine, TABLES) == [("t1",)]
    assert [row[0] for row in rows(engine, RECORDED)] == [1]


def test_database_of_a_newer_version_is_refused(engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    set_available(monkeypatch, ONE, TWO)
    migrate(engine)
    set_available(monkeypatch, ONE)
    with pytest.raises(DatabaseError, match="migration 2"):
        migrate(engine)


def test_pending_is_refused_for_a_new_database(engine: SqliteEngine) -> None:
    engine.connect(writable=True).close()
    conn = engine.connect(writable=False)
    with pytest.raises(DatabaseError):
        pending(conn)
    conn.close()


def test_one_of_ten_servers_that_start_together_migrates(empty_postgres_url: str) -> None:
    engines = [new_postgres_engine(empty_postgres_url) for _ in range(10)]
    with ThreadPoolExecutor(10) as pool:
        applied = list(pool.map(migrate, engines))
    assert sorted(map(len, applied)) == [0] * 9 + [len(available())]


def test_is_new_until_migrated(empty_postgres_url: str, engine: SqliteEngine) -> None:
    engine.connect(writable=True).close()
    for each in (engine, new_postgres_engine(empty_postgres_url)):
        for expected in (True, False):
            with closing(each.connect(writable=False)) as conn:
                assert is_new(conn) is expected
            migrate(each)


def test_audit_checkpoints_survive_the_migration_to_parts(
    empty_postgres_url: str, engine: SqliteEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Since migration 15 each part of a chain has its own checkpoint."""
    before, every = [step for step in available() if step.number < 15], available()
    store = Query("store", "INSERT INTO audit_checkpoints VALUES (0, 3, x'01', 10, x'02'), (7, 1000, x'03', 20, x'04')")
    stored = Query("stored", "SELECT chain, part, n, at FROM audit_checkpoints ORDER BY chain")
    for each in (engine, new_postgres_engine(empty_postgres_url)):
        set_available(monkeypatch, *before)
        migrate(each)
        with closing(each.connect(writable=True)) as conn:
            conn.begin()
            conn.run(store)
            conn.commit()
        set_available(monkeypatch, *every)
        migrate(each)
        assert rows(each, stored) == [(0, 0, 3, 10), (7, 1000 // PART_ROWS, 1000, 20)]
