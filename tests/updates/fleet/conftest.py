import pytest

from restante.database.database import Database
from tests.updates.fleet.fleet_fixture import DescribedFleet


@pytest.fixture
def fleet(database: Database) -> DescribedFleet:
    return DescribedFleet(database)
