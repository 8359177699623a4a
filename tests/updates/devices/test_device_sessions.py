import msgspec
import pytest

from restante.core.errors import NotAllowed, NotAuthenticated, NotFound
from restante.database.database import Database
from restante.identity.devices import device_codes, refresh_tokens, registration_codes
from restante.identity.devices.device_codes import DeviceCodeStatus, ForeignDevice, IssuedCodes
from restante.identity.devices.refresh_key import RefreshKey
from restante.identity.devices.refresh_tokens import RefreshExchange, RefreshRefusal
from restante.identity.master_key import MasterKey
from restante.updates.devices import device_sessions, devices
from restante.updates.devices.device_sessions import RegistrationApproval, SessionApproval, make_token_pair
from tests.conftest import ManualClock
from tests.identity.people_and_devices import CODE_KEY, CODE_LIMITS, MONTH_SECONDS, add_device, details
from tests.updates.auth_app import serving

KEY = RefreshKey(MasterKey(bytes(32)))


def approved(database: Database, user_id: int) -> IssuedCodes:
    codes = database.write_now(
        device_codes.start,
        CODE_KEY,
        CODE_LIMITS,
        scopes=[],
        interval_seconds=5,
        expires_in=900,
        address="",
        user_agent="",
    )
    database.write_now(device_codes.decide, codes.user_code, user_id, approve=True)
    return codes


def test_registration_with_code_is_for_the_user_of_the_code(database: Database, user_id: int) -> None:
    code = database.write_now(registration_codes.create, user_id)
    registered = database.write_now(device_sessions.register_with_code, code, None, details(), KEY, MONTH_SECONDS)
    assert registered.device.user_id == user_id
    result = database.write_now(refresh_tokens.exchange, KEY, registered.refresh_token, MONTH_SECONDS)
    assert isinstance(result, RefreshExchange)
    assert (result.user_id, result.device_id) == (user_id, registered.device.id)
    with pytest.raises(NotAuthenticated):
        database.write_now(device_sessions.register_with_code, code, None, details(), KEY, MONTH_SECONDS)


def test_failed_registration_leaves_the_code_and_no_device(database: Database, user_id: int) -> None:
    revoked = details()
    device = database.write_now(devices.register, user_id, revoked)
    database.write_now(devices.revoke, device.id)
    code = database.write_now(registration_codes.create, user_id)
    with pytest.raises(NotAllowed):
        database.write_now(device_sessions.register_with_code, code, None, revoked, KEY, MONTH_SECONDS)
    with pytest.raises(NotAllowed):
        database.write_now(device_sessions.register_with_code, code, user_id + 1, details(), KEY, MONTH_SECONDS)
    assert len(database.read_now(devices.list_page, None, 0, 10)) == 1
    database.write_now(device_sessions.register_with_code, code, user_id, details(), KEY, MONTH_SECONDS)


def test_second_registration_ends_the_earlier_tokens(database: Database, user_id: int) -> None:
    description = details()
    first = database.write_now(device_sessions.register_for_user, user_id, description, KEY, MONTH_SECONDS)
    second = database.write_now(device_sessions.register_for_user, user_id, description, KEY, MONTH_SECONDS)
    assert first.device.id == second.device.id
    assert (
        database.write_now(refresh_tokens.exchange, KEY, first.refresh_token, MONTH_SECONDS) is RefreshRefusal.rotated
    )
    assert isinstance(
        database.write_now(refresh_tokens.exchange, KEY, second.refresh_token, MONTH_SECONDS), RefreshExchange
    )


def test_registration_for_unknown_user_is_refused(database: Database) -> None:
    with pytest.raises(NotFound):
        database.write_now(device_sessions.register_for_user, 99, details(), KEY, MONTH_SECONDS)


def test_approved_code_gives_a_registration_code(database: Database, user_id: int) -> None:
    result = database.write_now(
        device_sessions.poll, CODE_KEY, approved(database, user_id).device_code, None, KEY, MONTH_SECONDS
    )
    assert isinstance(result, RegistrationApproval)
    assert database.write_now(registration_codes.redeem, result.registration_code) == user_id


def test_approved_code_gives_a_registered_device_its_tokens(database: Database, user_id: int) -> None:
    device_id = add_device(database, user_id)
    code = approved(database, user_id).device_code
    result = database.write_now(device_sessions.poll, CODE_KEY, code, device_id, KEY, MONTH_SECONDS)
    assert isinstance(result, SessionApproval)
    assert isinstance(
        database.write_now(refresh_tokens.exchange, KEY, result.refresh_token, MONTH_SECONDS), RefreshExchange
    )


def test_foreign_device_and_early_poll_get_no_tokens(database: Database, user_id: int) -> None:
    code = approved(database, user_id).device_code
    assert database.write_now(device_sessions.poll, CODE_KEY, code, 999, KEY, MONTH_SECONDS) == ForeignDevice()
    assert (
        database.write_now(device_sessions.poll, CODE_KEY, code, None, KEY, MONTH_SECONDS) is DeviceCodeStatus.slow_down
    )


async def test_token_pair_has_the_documented_fields(database: Database, clock: ManualClock) -> None:
    async with serving(database, clock) as app:
        sent = msgspec.to_builtins(make_token_pair(app.tokens, 1, 2, "rt_x", 0))
    assert sent.keys() == {"access_token", "refresh_token", "token_type", "expires_in"}
    assert (sent["refresh_token"], sent["token_type"], sent["expires_in"]) == ("rt_x", "Bearer", 3600)
