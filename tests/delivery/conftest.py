import uuid
from pathlib import Path

import pytest

from restante.database.database import Database
from tests.delivery.outside import Place, in_mysql, in_postgres, in_sqlite
from tests.delivery.rows import add_device


@pytest.fixture
def device(database: Database) -> int:
    return database.write_now(add_device)


@pytest.fixture
def neighbour(database: Database, device: int) -> int:
    return database.write_now(add_device)


@pytest.fixture(params=["sqlite", "mysql", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """An outbox in a database of the user's, of every kind there is."""
    return _place(request, tmp_path)


@pytest.fixture(params=["mysql", "postgres"])
def locking_place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """One in a database that several may have transactions open in."""
    return _place(request, tmp_path)


def _place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    name = f"shop_{uuid.uuid4().hex[:16]}"
    if request.param == "sqlite":
        return in_sqlite(tmp_path)
    if request.param == "mysql":
        return in_mysql(request.getfixturevalue("mariadb"), name)
    return in_postgres(request.getfixturevalue("postgres"))
