import uuid
from pathlib import Path

import pytest

from restante.database.database import Database
from tests.delivery.external_databases import (
    ApplicationDatabase,
    mysql_application,
    postgres_application,
    sqlite_application,
)
from tests.delivery.rows import add_device


@pytest.fixture
def device(database: Database) -> int:
    return database.write_now(add_device)


@pytest.fixture
def other_device(database: Database, device: int) -> int:
    return database.write_now(add_device)


@pytest.fixture(params=["sqlite", "mysql", "postgres"])
def application(request: pytest.FixtureRequest, tmp_path: Path) -> ApplicationDatabase:
    """An external database with an outbox, of every supported kind."""
    return _application_database(request, tmp_path)


@pytest.fixture(params=["mysql", "postgres"])
def locking_application(request: pytest.FixtureRequest, tmp_path: Path) -> ApplicationDatabase:
    """The same, of the kinds in which several transactions can be open."""
    return _application_database(request, tmp_path)


def _application_database(request: pytest.FixtureRequest, tmp_path: Path) -> ApplicationDatabase:
    name = f"shop_{uuid.uuid4().hex[:16]}"
    if request.param == "sqlite":
        return sqlite_application(tmp_path)
    if request.param == "mysql":
        return mysql_application(request.getfixturevalue("mariadb"), name)
    return postgres_application(request.getfixturevalue("postgres"))
