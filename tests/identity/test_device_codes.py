import re
from pathlib import Path

import pytest

from restante.core.errors import NotFound
from restante.database.database import Database
from restante.identity import device_codes
from restante.identity.device_codes import Approved, NotTheirDevice, Standing, Started
from restante.updates import devices
from tests.conftest import ManualClock
from tests.identity.population import add_device, add_user

INTERVAL = 5


@pytest.fixture
def user_id(database: Database) -> int:
    return add_user(database)


@pytest.fixture
def started(database: Database) -> Started:
    return database.write_now(
        device_codes.start,
        scopes=["updates"],
        interval_seconds=INTERVAL,
        expires_in=900,
        address="192.0.2.7",
        user_agent="agent/1",
    )


def approve(database: Database, started: Started, user_id: int) -> None:
    database.write_now(device_codes.decide, started.user_code, user_id, approve=True)


def test_the_user_code_can_be_read_out_loud(started: Started) -> None:
    assert re.fullmatch("[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}", started.user_code)


def test_what_waits_is_found_however_the_code_is_typed(database: Database, started: Started) -> None:
    bare = started.user_code.replace("-", "")
    for typed in (started.user_code, bare, bare.lower(), f" {bare[:2]} {bare[2:]} "):
        waiting = database.read_now(device_codes.find_waiting, typed)
        assert (waiting.user_code, waiting.scopes) == (started.user_code, ["updates"])
        assert (waiting.address, waiting.user_agent) == ("192.0.2.7", "agent/1")


@pytest.mark.parametrize("typed", ["", "-", "BBBB-BBBB", "\x00", "ÄÖÜ" * 20])
def test_nothing_waits_under_another_code(database: Database, started: Started, typed: str) -> None:
    with pytest.raises(NotFound):
        database.read_now(device_codes.find_waiting, typed)
    with pytest.raises(NotFound):
        database.write_now(device_codes.decide, typed, 1, approve=True)


def test_pending_then_approved_once(database: Database, clock: ManualClock, started: Started, user_id: int) -> None:
    assert database.write_now(device_codes.poll, started.device_code, None) is Standing.authorization_pending
    approve(database, started, user_id)
    clock.advance(INTERVAL)
    assert database.write_now(device_codes.poll, started.device_code, None) == Approved(user_id)
    clock.advance(INTERVAL)
    assert database.write_now(device_codes.poll, started.device_code, None) is Standing.expired


def test_denied(database: Database, started: Started, user_id: int) -> None:
    database.write_now(device_codes.decide, started.user_code, user_id, approve=False)
    assert database.write_now(device_codes.poll, started.device_code, None) is Standing.access_denied


def test_a_decision_stands(database: Database, started: Started, user_id: int) -> None:
    database.write_now(device_codes.decide, started.user_code, user_id, approve=False)
    with pytest.raises(NotFound):
        approve(database, started, user_id)


def test_polling_too_fast_slows_down_and_consumes_nothing(
    database: Database, clock: ManualClock, started: Started, user_id: int
) -> None:
    database.write_now(device_codes.poll, started.device_code, None)
    approve(database, started, user_id)
    clock.advance(INTERVAL - 0.001)
    assert database.write_now(device_codes.poll, started.device_code, None) is Standing.slow_down
    # A poll that was told to slow down does not count as one.
    clock.advance(0.001)
    assert database.write_now(device_codes.poll, started.device_code, None) == Approved(user_id)


def test_a_code_has_its_time(database: Database, clock: ManualClock, started: Started, user_id: int) -> None:
    clock.advance(899.999)
    database.read_now(device_codes.find_waiting, started.user_code)
    clock.advance(0.001)
    with pytest.raises(NotFound):
        database.read_now(device_codes.find_waiting, started.user_code)
    with pytest.raises(NotFound):
        approve(database, started, user_id)
    assert database.write_now(device_codes.poll, started.device_code, None) is Standing.expired


def test_an_approval_that_nobody_fetched_expires(
    database: Database, clock: ManualClock, started: Started, user_id: int
) -> None:
    approve(database, started, user_id)
    clock.advance(900)
    assert database.write_now(device_codes.poll, started.device_code, None) is Standing.expired


def test_a_device_that_is_not_theirs_consumes_nothing(
    database: Database, clock: ManualClock, started: Started, user_id: int
) -> None:
    revoked = add_device(database, user_id)
    database.write_now(devices.revoke, revoked)
    theirs, foreign = (
        add_device(database, user_id),
        add_device(database, add_user(database, "ben@example.com")),
    )
    approve(database, started, user_id)
    for device_id in (foreign, revoked, 10**6):
        assert database.write_now(device_codes.poll, started.device_code, device_id) == NotTheirDevice()
        clock.advance(INTERVAL)
    assert database.write_now(device_codes.poll, started.device_code, theirs) == Approved(user_id)


def test_an_unknown_device_code(database: Database) -> None:
    with pytest.raises(NotFound):
        database.write_now(device_codes.poll, "nothing", None)


def test_the_device_code_is_not_in_the_database(database: Database, started: Started, tmp_path: Path) -> None:
    assert started.device_code.encode() not in b"".join(file.read_bytes() for file in tmp_path.iterdir())


def test_codes_that_expired_yesterday_are_cleared(database: Database, clock: ManualClock, started: Started) -> None:
    clock.advance(900 + device_codes.KEEP_EXPIRED_SECONDS - 1)
    assert database.write_now(device_codes.forget_expired) == 0
    clock.advance(1)
    assert database.write_now(device_codes.forget_expired) == 1
