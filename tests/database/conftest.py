from pathlib import Path

import pytest

from restante.database.engine import Engine
from restante.database.postgres.engine import PostgresEngine
from restante.database.sqlite import SqliteEngine
from tests.conftest import ManualClock
from tests.database import notes_table
from tests.defaults import new_postgres_engine


@pytest.fixture
def sqlite_engine(tmp_path: Path, clock: ManualClock) -> SqliteEngine:
    """An engine whose database has the table of these tests."""
    engine = SqliteEngine(tmp_path / "notes.db", clock=clock)
    create_notes(engine)
    return engine


@pytest.fixture
def postgres_engine(empty_postgres_url: str, clock: ManualClock) -> PostgresEngine:
    """The same on PostgreSQL."""
    engine = new_postgres_engine(empty_postgres_url, writers=2, readers=2, clock=clock)
    create_notes(engine)
    return engine


@pytest.fixture
def engine(engine_name: str, request: pytest.FixtureRequest) -> Engine:
    engine: Engine = request.getfixturevalue(f"{engine_name}_engine")
    return engine


def create_notes(engine: Engine) -> None:
    conn = engine.connect(writable=True)
    conn.begin()
    conn.run_script(notes_table.CREATE)
    conn.commit()
    conn.close()
