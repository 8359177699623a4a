import pytest

from restante.database.database import Database
from tests.commands.edge_fixture import CommandsHarness
from tests.commands.operator_fixture import MinerFleet, OperatorApi, open_operator_api
from tests.conftest import ManualClock


@pytest.fixture
def fleet(database: Database, clock: ManualClock) -> MinerFleet:
    return MinerFleet(database, clock)


@pytest.fixture
async def api(fleet: MinerFleet) -> OperatorApi:
    return await open_operator_api(fleet)


@pytest.fixture
def harness(database: Database) -> CommandsHarness:
    return CommandsHarness(database)


@pytest.fixture
def site(harness: CommandsHarness) -> int:
    return harness.add_site()
