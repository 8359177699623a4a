import pytest

from restante.database.database import Database
from tests.events import inbox_fixture
from tests.events.inbox_fixture import PollingClient


@pytest.fixture
def client(database: Database) -> PollingClient:
    return database.write_now(inbox_fixture.add_client)
