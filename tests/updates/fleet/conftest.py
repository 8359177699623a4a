from collections.abc import AsyncIterator

import pytest

from restante.database.database import Database
from tests.conftest import ManualClock
from tests.updates.fleet.fleet_api import FleetApi
from tests.updates.fleet.fleet_fixture import DescribedFleet


@pytest.fixture
def fleet(database: Database) -> DescribedFleet:
    return DescribedFleet(database)


@pytest.fixture
async def fleet_api(fleet: DescribedFleet, clock: ManualClock) -> AsyncIterator[FleetApi]:
    api = FleetApi(fleet, clock)
    await api.tokens.start()
    async with api.client:
        yield api
