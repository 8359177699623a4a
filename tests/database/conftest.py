from collections.abc import Iterator
from pathlib import Path

import pytest

from restante.database.database import Database
from restante.database.engine import Engine
from restante.database.postgres import PostgresEngine
from restante.database.sqlite import SqliteEngine
from tests.conftest import ManualClock
from tests.database import notes


@pytest.fixture
def sqlite_engine(tmp_path: Path, clock: ManualClock) -> SqliteEngine:
    """An engine whose database has the one table of these tests."""
    engine = SqliteEngine(tmp_path / "notes.db", clock=clock)
    create_notes(engine)
    return engine


@pytest.fixture
def postgres_engine(empty_postgres_url: str, clock: ManualClock) -> PostgresEngine:
    """The same on PostgreSQL."""
    engine = PostgresEngine(empty_postgres_url, writers=2, readers=2, clock=clock)
    create_notes(engine)
    return engine


@pytest.fixture
def engine(engine_name: str, request: pytest.FixtureRequest) -> Engine:
    engine: Engine = request.getfixturevalue(f"{engine_name}_engine")
    return engine


@pytest.fixture
def database(engine: Engine) -> Iterator[Database]:
    database = Database(engine)
    yield database
    database.close()


def create_notes(engine: Engine) -> None:
    conn = engine.connect(writable=True)
    conn.begin()
    conn.run_script(notes.CREATE)
    conn.commit()
    conn.close()
