from restante.database.database import Database
from restante.identity import refresh_tokens, registration_codes, retention, sessions
from restante.identity.master_key import MasterKey
from restante.identity.refresh_key import RefreshKey
from tests.conftest import ManualClock
from tests.identity.population import add_device, add_user


def test_everything_that_expired_is_cleared(database: Database, clock: ManualClock) -> None:
    user_id = add_user(database)
    device_id = add_device(database, user_id)
    database.write_now(sessions.start, user_id)
    database.write_now(registration_codes.create, user_id)
    database.write_now(refresh_tokens.start_family, RefreshKey(MasterKey(bytes(32))), user_id, device_id)
    assert database.write_now(retention.forget_expired) == 0
    clock.advance(31 * 86400)
    assert database.write_now(retention.forget_expired) == 3
