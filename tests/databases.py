"""New, migrated databases for tests, made as cheaply as each engine allows: a file is copied, a server's database is
emptied. For tests that want one after another, as the machines of Hypothesis do."""

import itertools
import tempfile
from abc import ABC, abstractmethod
from functools import cache
from pathlib import Path

from restante.database.engine import Engine
from restante.database.migrate import migrate
from restante.database.postgres import PostgresEngine
from restante.database.queries import Query
from restante.database.sqlite import Clock, SqliteConnection, SqliteEngine
from tests.services.postgres import PostgresServer


@cache
def migrated_file() -> bytes:
    """A migrated database with nothing in it, made once."""
    with tempfile.TemporaryDirectory() as folder:
        engine = SqliteEngine(Path(folder) / "migrated.db")
        migrate(engine)
        return engine.path.read_bytes()


def write_migrated(path: Path) -> Path:
    path.write_bytes(migrated_file())
    return path


class UnflushedEngine(SqliteEngine):
    """Where no step is a power cut: waiting for the disk would only make it slow."""

    def connect(self, *, writable: bool) -> SqliteConnection:
        conn = super().connect(writable=writable)
        conn.run(Query("unflushed", "PRAGMA synchronous = OFF"))
        return conn


class FreshDatabases(ABC):
    @abstractmethod
    def new(self, clock: Clock, place: int = 0) -> Engine:
        """Nothing is left of the one that was at that place before."""

    @abstractmethod
    def share(self, examples: int) -> int:
        """How many of so many examples are tried here."""


class FreshFiles(FreshDatabases):
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count()

    def new(self, clock: Clock, place: int = 0) -> Engine:
        for old in self._folder.glob(f"{place}-*"):
            old.unlink()
        return UnflushedEngine(write_migrated(self._folder / f"{place}-{next(self._numbers)}.db"), clock=clock)

    def share(self, examples: int) -> int:
        return examples


class FreshPostgres(FreshDatabases):
    """Several writers, as a node has them. An example costs several times as much as on a file."""

    def __init__(self, server: PostgresServer, urls: list[str]) -> None:
        self._server = server
        self._urls = urls

    def new(self, clock: Clock, place: int = 0) -> Engine:
        self._server.empty(self._urls[place])
        return PostgresEngine(self._urls[place], writers=3, readers=2, clock=clock)

    def share(self, examples: int) -> int:
        return max(5, examples // 5)
