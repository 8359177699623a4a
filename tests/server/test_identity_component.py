from restante.database.clocks.clock import DatabaseClock
from restante.database.database import Database
from restante.delivery.retention import Retention
from restante.identity.devices import refresh_tokens, registration_codes
from restante.identity.devices.refresh_key import RefreshKey
from restante.identity.master_key import MasterKey
from restante.identity.people import sessions
from restante.server.config.settings import Settings
from restante.server.identity_component import IdentityComponent
from tests.conftest import ManualClock
from tests.identity.people_and_devices import MONTH_SECONDS, SESSION_SECONDS, add_device, add_user

MASTER = MasterKey(bytes(32))


async def test_sweeps_delete_expired_rows_of_every_table(database: Database, clock: ManualClock) -> None:
    component = IdentityComponent(database, MASTER, Settings(), DatabaseClock(), is_binding_required=False)
    retention = Retention(database, component.sweeps())
    user_id = add_user(database)
    device_id = add_device(database, user_id)
    database.write_now(sessions.start, user_id, SESSION_SECONDS)
    database.write_now(registration_codes.create, user_id)
    database.write_now(refresh_tokens.start_family, RefreshKey(MASTER), user_id, device_id, MONTH_SECONDS)
    assert await retention.run_once() == 0
    clock.advance(31 * 86400)
    assert await retention.run_once() == 3
