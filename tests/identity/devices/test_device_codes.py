import re
from pathlib import Path

import pytest

from restante.core.errors import NotFound
from restante.database.database import Database
from restante.identity.devices import device_codes
from restante.identity.devices.device_codes import Approved, DeviceCodeStatus, ForeignDevice, IssuedCodes
from restante.updates.devices import devices
from tests.conftest import ManualClock
from tests.identity.people_and_devices import CODE_KEY, CODE_LIMITS, add_device, add_user

INTERVAL = 5


@pytest.fixture
def user_id(database: Database) -> int:
    return add_user(database)


@pytest.fixture
def codes(database: Database) -> IssuedCodes:
    return database.write_now(
        device_codes.start,
        CODE_KEY,
        CODE_LIMITS,
        scopes=["updates"],
        interval_seconds=INTERVAL,
        expires_in=900,
        address="192.0.2.7",
        user_agent="agent/1",
    )


def approve(database: Database, codes: IssuedCodes, user_id: int) -> None:
    database.write_now(device_codes.decide, codes.user_code, user_id, approve=True)


def test_user_code_is_two_groups_of_consonants(codes: IssuedCodes) -> None:
    assert re.fullmatch("[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}", codes.user_code)


def test_pending_approval_is_found_however_the_code_is_typed(database: Database, codes: IssuedCodes) -> None:
    bare = codes.user_code.replace("-", "")
    for typed in (codes.user_code, bare, bare.lower(), f" {bare[:2]} {bare[2:]} "):
        pending = database.read_now(device_codes.find_pending, typed)
        assert (pending.user_code, pending.scopes) == (codes.user_code, ["updates"])
        assert (pending.address, pending.user_agent) == ("192.0.2.7", "agent/1")


@pytest.mark.parametrize("typed", ["", "-", "BBBB-BBBB", "\x00", "ÄÖÜ" * 20])
def test_unknown_user_code_is_not_found(database: Database, codes: IssuedCodes, typed: str) -> None:
    with pytest.raises(NotFound):
        database.read_now(device_codes.find_pending, typed)
    with pytest.raises(NotFound):
        database.write_now(device_codes.decide, typed, 1, approve=True)


def test_poll_returns_pending_then_approved_once(
    database: Database, clock: ManualClock, codes: IssuedCodes, user_id: int
) -> None:
    assert (
        database.write_now(device_codes.poll, CODE_KEY, codes.device_code, None)
        is DeviceCodeStatus.authorization_pending
    )
    approve(database, codes, user_id)
    clock.advance(INTERVAL)
    assert database.write_now(device_codes.poll, CODE_KEY, codes.device_code, None) == Approved(user_id)
    clock.advance(INTERVAL)
    assert database.write_now(device_codes.poll, CODE_KEY, codes.device_code, None) is DeviceCodeStatus.expired


def test_poll_after_denial_returns_access_denied(database: Database, codes: IssuedCodes, user_id: int) -> None:
    database.write_now(device_codes.decide, codes.user_code, user_id, approve=False)
    assert database.write_now(device_codes.poll, CODE_KEY, codes.device_code, None) is DeviceCodeStatus.access_denied


def test_second_decision_is_refused(database: Database, codes: IssuedCodes, user_id: int) -> None:
    database.write_now(device_codes.decide, codes.user_code, user_id, approve=False)
    with pytest.raises(NotFound):
        approve(database, codes, user_id)


def test_too_early_poll_gets_slow_down_and_consumes_nothing(
    database: Database, clock: ManualClock, codes: IssuedCodes, user_id: int
) -> None:
    database.write_now(device_codes.poll, CODE_KEY, codes.device_code, None)
    approve(database, codes, user_id)
    clock.advance(INTERVAL - 0.001)
    assert database.write_now(device_codes.poll, CODE_KEY, codes.device_code, None) is DeviceCodeStatus.slow_down
    # A poll that got slow_down does not restart the interval.
    clock.advance(0.001)
    assert database.write_now(device_codes.poll, CODE_KEY, codes.device_code, None) == Approved(user_id)


def test_code_expires(database: Database, clock: ManualClock, codes: IssuedCodes, user_id: int) -> None:
    clock.advance(899.999)
    database.read_now(device_codes.find_pending, codes.user_code)
    clock.advance(0.001)
    with pytest.raises(NotFound):
        database.read_now(device_codes.find_pending, codes.user_code)
    with pytest.raises(NotFound):
        approve(database, codes, user_id)
    assert database.write_now(device_codes.poll, CODE_KEY, codes.device_code, None) is DeviceCodeStatus.expired


def test_approval_that_was_not_polled_expires(
    database: Database, clock: ManualClock, codes: IssuedCodes, user_id: int
) -> None:
    approve(database, codes, user_id)
    clock.advance(900)
    assert database.write_now(device_codes.poll, CODE_KEY, codes.device_code, None) is DeviceCodeStatus.expired


def test_poll_for_a_foreign_device_consumes_nothing(
    database: Database, clock: ManualClock, codes: IssuedCodes, user_id: int
) -> None:
    revoked = add_device(database, user_id)
    database.write_now(devices.revoke, revoked)
    own, foreign = (
        add_device(database, user_id),
        add_device(database, add_user(database, "ben@example.com")),
    )
    approve(database, codes, user_id)
    for device_id in (foreign, revoked, 10**6):
        assert database.write_now(device_codes.poll, CODE_KEY, codes.device_code, device_id) == ForeignDevice()
        clock.advance(INTERVAL)
    assert database.write_now(device_codes.poll, CODE_KEY, codes.device_code, own) == Approved(user_id)


@pytest.mark.parametrize(
    "code",
    [
        "",
        "nothing",
        "ü",
        "\ud800",
        "A" * 48,
        "A" * 47 + "=",
        pytest.param(CODE_KEY.make()[::-1], id="a code backwards"),
    ],
)
def test_unknown_device_code_is_not_found(database: Database, code: str) -> None:
    with pytest.raises(NotFound):
        database.write_now(device_codes.poll, CODE_KEY, code, None)


def test_device_code_is_not_stored(database: Database, codes: IssuedCodes, tmp_path: Path) -> None:
    assert codes.device_code.encode() not in b"".join(file.read_bytes() for file in tmp_path.iterdir())


def test_codes_are_deleted_when_they_expire(database: Database, clock: ManualClock, codes: IssuedCodes) -> None:
    clock.advance(899.999)
    assert database.write_now(device_codes.delete_expired) == 0
    clock.advance(0.001)
    assert database.write_now(device_codes.delete_expired) == 1
