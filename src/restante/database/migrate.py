"""Schema migrations: numbered .sql files, applied in order, each once, all pending ones in one transaction."""

from importlib.resources import files
from typing import NamedTuple

from restante.database.connection import Connection
from restante.database.engine import Engine, EngineConnection
from restante.database.errors import DatabaseError
from restante.database.queries import Query

_CREATE = """
CREATE TABLE IF NOT EXISTS schema_migrations
    (number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL);
"""
_RECORDS = Query(
    "migration_table",
    "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'schema_migrations'",
    (("postgres", "SELECT 1 WHERE to_regclass('schema_migrations') IS NOT NULL"),),
)
_APPLIED = Query("applied_migrations", "SELECT number, applied_at FROM schema_migrations")
_RECORD = Query(
    "record_migration",
    "INSERT INTO schema_migrations (number, name, applied_at) VALUES (:number, :name, :now_ms)",
)


class Migration(NamedTuple):
    number: int
    name: str
    source: str


def available() -> list[Migration]:
    folder = files("restante.database") / "migrations"
    found = []
    for file in folder.iterdir():
        if file.name.endswith(".sql"):
            number, _, name = file.name.removesuffix(".sql").partition("_")
            found.append(Migration(int(number), name, file.read_text(encoding="utf-8")))
    return sorted(found)


def migrate(engine: Engine) -> list[Migration]:
    """Bring the database to the newest schema; what was applied."""
    conn = engine.connect(writable=True)
    try:
        conn.begin()
        try:
            applied = _apply_pending(conn)
            conn.commit()
        except BaseException:
            conn.rollback()
            raise
        return applied
    finally:
        conn.close()


def applied(conn: Connection) -> dict[int, int]:
    """When each migration was applied, by number; none where nothing was ever migrated."""
    return {} if is_new(conn) else _applied(conn)


def pending(conn: Connection) -> list[Migration]:
    """What a migrated database still lacks; DatabaseError if it was never migrated or is of a newer version."""
    done = _applied(conn)
    known = available()
    unknown = done.keys() - {migration.number for migration in known}
    if unknown:
        raise DatabaseError(
            f"the database has migration {max(unknown)}, which this version does not know: use a newer version"
        )
    return [migration for migration in known if migration.number not in done]


def is_new(conn: Connection) -> bool:
    """Whether nothing was ever migrated here."""
    return conn.one(_RECORDS) is None


def _applied(conn: Connection) -> dict[int, int]:
    return {row["number"]: row["applied_at"] for row in conn.all(_APPLIED)}


def _apply_pending(conn: EngineConnection) -> list[Migration]:
    # Of several servers that start together one migrates, and the others find that it is done.
    conn.lock("schema", 0)
    conn.run_script(_CREATE)
    lacking = pending(conn)
    for migration in lacking:
        conn.run_script(migration.source)
        conn.run(_RECORD, number=migration.number, name=migration.name, now_ms=conn.now_ms)
    return lacking
