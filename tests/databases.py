"""New, migrated databases for tests, made as cheaply as possible: a SQLite file is copied, a PostgreSQL database is
emptied. Hypothesis state machines need many of them, one after another."""

import itertools
import tempfile
from abc import ABC, abstractmethod
from functools import cache
from pathlib import Path

from restante.database.engine import Engine
from restante.database.migrate import migrate
from restante.database.queries import Query
from restante.database.sqlite import Clock, SqliteConnection, SqliteEngine
from tests.defaults import new_postgres_engine
from tests.services.postgres import PostgresServer


@cache
def migrated_file() -> bytes:
    """The bytes of a migrated database without rows, created once."""
    with tempfile.TemporaryDirectory() as folder:
        engine = SqliteEngine(Path(folder) / "migrated.db")
        migrate(engine)
        return engine.path.read_bytes()


def write_migrated(path: Path) -> Path:
    path.write_bytes(migrated_file())
    return path


class UnflushedEngine(SqliteEngine):
    """SQLite without waiting for the disk, for tests that do not test durability."""

    def connect(self, *, writable: bool) -> SqliteConnection:
        conn = super().connect(writable=writable)
        conn.run(Query("unflushed", "PRAGMA synchronous = OFF"))
        return conn


class FreshDatabases(ABC):
    @abstractmethod
    def new(self, clock: Clock, slot: int = 0) -> Engine:
        """A new database; it replaces the previous one of the same slot."""

    @abstractmethod
    def scale(self, examples: int) -> int:
        """How many of so many examples to run on this engine."""


class FreshFiles(FreshDatabases):
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count()

    def new(self, clock: Clock, slot: int = 0) -> Engine:
        for old in self._folder.glob(f"{slot}-*"):
            old.unlink()
        return UnflushedEngine(write_migrated(self._folder / f"{slot}-{next(self._numbers)}.db"), clock=clock)

    def scale(self, examples: int) -> int:
        return examples


class FreshPostgres(FreshDatabases):
    """Databases with several writers, as on a node. An example costs several times as much as on SQLite."""

    def __init__(self, server: PostgresServer, urls: list[str]) -> None:
        self._server = server
        self._urls = urls

    def new(self, clock: Clock, slot: int = 0) -> Engine:
        self._server.empty(self._urls[slot])
        return new_postgres_engine(self._urls[slot], writers=3, readers=2, clock=clock)

    def scale(self, examples: int) -> int:
        return max(5, examples // 5)
