"""Schema migrations: numbered .sql files, each applied once, in order. All pending ones share one transaction."""

from dataclasses import dataclass
from importlib.resources import files

from restante.database.connection import Connection
from restante.database.engine import Engine, EngineConnection
from restante.database.errors import DatabaseError
from restante.database.queries import Query

_CREATE = """
CREATE TABLE IF NOT EXISTS schema_migrations
    (number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL);
"""
_RECORD_TABLE = Query(
    "migration_table",
    "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'schema_migrations'",
    (("postgres", "SELECT 1 WHERE to_regclass('schema_migrations') IS NOT NULL"),),
)
_APPLIED = Query("applied_migrations", "SELECT number, applied_at FROM schema_migrations")
_RECORD = Query(
    "record_migration",
    "INSERT INTO schema_migrations (number, name, applied_at) VALUES (:number, :name, :now_ms)",
)


@dataclass(frozen=True, slots=True)
class Migration:
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
    return sorted(found, key=lambda migration: migration.number)


def migrate(engine: Engine) -> list[Migration]:
    """Bring the database to the newest schema. Returns the migrations that were applied."""
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
    """The time at which each migration was applied, by number; empty for a new database."""
    return {} if is_new(conn) else _applied(conn)


def pending(conn: Connection) -> list[Migration]:
    """The migrations that are still to be applied. DatabaseError if the database is new or of a newer version."""
    done = _applied(conn)
    known = available()
    unknown = done.keys() - {migration.number for migration in known}
    if unknown:
        raise DatabaseError(
            f"the database has migration {max(unknown)}, which this version does not know: use a newer version"
        )
    return [migration for migration in known if migration.number not in done]


def is_new(conn: Connection) -> bool:
    """Whether the database was never migrated."""
    return conn.one(_RECORD_TABLE) is None


def _applied(conn: Connection) -> dict[int, int]:
    return {row["number"]: row["applied_at"] for row in conn.all(_APPLIED)}


def _apply_pending(conn: EngineConnection) -> list[Migration]:
    # Of several servers that start together, one migrates; the others then find nothing pending.
    conn.lock("schema", 0)
    conn.run_script(_CREATE)
    steps = pending(conn)
    for migration in steps:
        conn.run_script(migration.source)
        conn.run(_RECORD, number=migration.number, name=migration.name, now_ms=conn.now_ms)
    return steps
