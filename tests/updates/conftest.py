from collections.abc import AsyncIterator

import pytest

from restante.database.database import Database
from tests.conftest import ManualClock
from tests.identity.people_and_devices import add_user
from tests.updates.auth_app import AuthApp, SignedInPerson, serving
from tests.updates.updates_fixture import DeviceFleet, FleetDevice, UpdatesApi, open_api


@pytest.fixture
def fleet(database: Database) -> DeviceFleet:
    return DeviceFleet(database)


@pytest.fixture
async def api(fleet: DeviceFleet) -> UpdatesApi:
    return await open_api(fleet)


@pytest.fixture
def device(fleet: DeviceFleet) -> FleetDevice:
    return fleet.add_device()


@pytest.fixture
async def app(database: Database, clock: ManualClock) -> AsyncIterator[AuthApp]:
    async with serving(database, clock) as app:
        yield app


@pytest.fixture
async def person(app: AuthApp) -> SignedInPerson:
    return await app.signed_in()


@pytest.fixture
def user_id(database: Database) -> int:
    return add_user(database)
