"""Fixtures every test may use: a clock that moves when told, and a real, migrated database in a folder of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from restante.database.database import Database
from restante.database.migrate import migrate
from restante.database.sqlite import SqliteEngine
from tests.services.mariadb import MariaDb, running_mariadb
from tests.services.plain_postgres import Postgres, running_postgres

START_MS = 1_800_000_000_000


class ManualClock:
    """The database's clock in tests: stands still until it is moved."""

    def __init__(self) -> None:
        self.now_ms = START_MS

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000)


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDb]:
    """One for all tests of a worker; each makes a database of its own in it."""
    with running_mariadb() as service:
        yield service


@pytest.fixture
def mariadb_alone() -> Iterator[MariaDb]:
    """One to stop and start again."""
    with running_mariadb() as service:
        yield service


@pytest.fixture(scope="session")
def plain_postgres() -> Iterator[Postgres]:
    """One for all tests of a worker; each makes a database of its own in it."""
    with running_postgres() as service:
        yield service


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def engine(tmp_path: Path, clock: ManualClock) -> SqliteEngine:
    engine = SqliteEngine(tmp_path / "restante.db", clock=clock)
    migrate(engine)
    return engine


@pytest.fixture
def database(engine: SqliteEngine) -> Iterator[Database]:
    database = Database(engine)
    yield database
    database.close()
