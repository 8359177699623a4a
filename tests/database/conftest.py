from collections.abc import Iterator
from pathlib import Path

import pytest

from restante.database.database import Database
from restante.database.sqlite import SqliteEngine
from tests.conftest import ManualClock
from tests.database import notes


@pytest.fixture
def engine(tmp_path: Path, clock: ManualClock) -> SqliteEngine:
    """An engine whose database has the one table of these tests."""
    engine = SqliteEngine(tmp_path / "notes.db", clock=clock)
    conn = engine.connect(writable=True)
    conn.begin()
    conn.run_script(notes.CREATE)
    conn.commit()
    conn.close()
    return engine


@pytest.fixture
def database(engine: SqliteEngine) -> Iterator[Database]:
    database = Database(engine)
    yield database
    database.close()
