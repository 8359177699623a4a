import pytest

from restante.core.errors import NotAllowed, NotAuthenticated, NotFound
from restante.database.database import Database
from restante.identity import device_codes, refresh_tokens, registration_codes
from restante.identity.device_codes import NotTheirDevice, Standing, Started
from restante.identity.master_key import MasterKey
from restante.identity.refresh_key import RefreshKey
from restante.identity.refresh_tokens import Exchange, Refusal
from restante.updates import device_sessions, devices
from restante.updates.device_sessions import MayCall, MayRegister
from tests.identity.population import add_device, add_user, details

MONTH = 30 * 86400
KEY = RefreshKey(MasterKey(bytes(32)))


@pytest.fixture
def user_id(database: Database) -> int:
    return add_user(database)


def approved(database: Database, user_id: int) -> Started:
    started = database.write_now(
        device_codes.start, scopes=[], interval_seconds=5, expires_in=900, address="", user_agent=""
    )
    database.write_now(device_codes.decide, started.user_code, user_id, approve=True)
    return started


def test_registering_with_a_code_is_for_the_user_of_the_code(database: Database, user_id: int) -> None:
    code = database.write_now(registration_codes.create, user_id)
    registered = database.write_now(device_sessions.register_with_code, code, None, details(), KEY, MONTH)
    assert registered.device.user_id == user_id
    result = database.write_now(refresh_tokens.exchange, KEY, registered.refresh_token)
    assert isinstance(result, Exchange)
    assert (result.user_id, result.device_id) == (user_id, registered.device.id)
    with pytest.raises(NotAuthenticated):
        database.write_now(device_sessions.register_with_code, code, None, details(), KEY, MONTH)


def test_a_failed_registration_leaves_the_code_and_no_device(database: Database, user_id: int) -> None:
    revoked = details()
    device = database.write_now(devices.register, user_id, revoked)
    database.write_now(devices.revoke, device.id)
    code = database.write_now(registration_codes.create, user_id)
    with pytest.raises(NotAllowed):
        database.write_now(device_sessions.register_with_code, code, None, revoked, KEY, MONTH)
    with pytest.raises(NotAllowed):
        database.write_now(device_sessions.register_with_code, code, user_id + 1, details(), KEY, MONTH)
    assert len(database.read_now(devices.list_page, None, 0, 10)) == 1
    database.write_now(device_sessions.register_with_code, code, user_id, details(), KEY, MONTH)


def test_registering_again_ends_the_tokens_before(database: Database, user_id: int) -> None:
    said = details()
    first = database.write_now(device_sessions.register_for_user, user_id, said, KEY, MONTH)
    second = database.write_now(device_sessions.register_for_user, user_id, said, KEY, MONTH)
    assert first.device.id == second.device.id
    assert database.write_now(refresh_tokens.exchange, KEY, first.refresh_token) is Refusal.rotated
    assert isinstance(database.write_now(refresh_tokens.exchange, KEY, second.refresh_token), Exchange)


def test_registering_for_nobody(database: Database) -> None:
    with pytest.raises(NotFound):
        database.write_now(device_sessions.register_for_user, 99, details(), KEY, MONTH)


def test_an_approved_code_gives_a_registration_code(database: Database, user_id: int) -> None:
    result = database.write_now(device_sessions.poll, approved(database, user_id).device_code, None, KEY, MONTH)
    assert isinstance(result, MayRegister)
    assert database.write_now(registration_codes.redeem, result.registration_code) == user_id


def test_an_approved_code_gives_a_registered_device_its_tokens(database: Database, user_id: int) -> None:
    device_id = add_device(database, user_id)
    code = approved(database, user_id).device_code
    result = database.write_now(device_sessions.poll, code, device_id, KEY, MONTH)
    assert isinstance(result, MayCall)
    assert isinstance(database.write_now(refresh_tokens.exchange, KEY, result.refresh_token), Exchange)


def test_what_gives_nothing(database: Database, user_id: int) -> None:
    code = approved(database, user_id).device_code
    assert database.write_now(device_sessions.poll, code, 999, KEY, MONTH) == NotTheirDevice()
    assert database.write_now(device_sessions.poll, code, None, KEY, MONTH) is Standing.slow_down
