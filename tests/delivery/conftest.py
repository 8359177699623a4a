import pytest

from restante.database.database import Database
from tests.delivery.rows import add_device


@pytest.fixture
def device(database: Database) -> int:
    return database.write_now(add_device)


@pytest.fixture
def neighbour(database: Database, device: int) -> int:
    return database.write_now(add_device)
