from pathlib import Path

import pytest

from restante.core.errors import NotAuthenticated
from restante.database.connection import Connection
from restante.database.database import Database
from restante.identity.devices import registration_codes
from tests.conftest import ManualClock
from tests.identity.people_and_devices import add_user


def test_code_is_redeemed_once(database: Database) -> None:
    user_id = add_user(database)
    code = database.write_now(registration_codes.create, user_id)
    assert database.write_now(registration_codes.redeem, code) == user_id
    with pytest.raises(NotAuthenticated):
        database.write_now(registration_codes.redeem, code)


def test_code_expires(database: Database, clock: ManualClock) -> None:
    early, late = (database.write_now(registration_codes.create, add_user(database, f"{n}@example.com")) for n in "ab")
    clock.advance(registration_codes.CODE_SECONDS - 0.001)
    database.write_now(registration_codes.redeem, early)
    clock.advance(0.001)
    with pytest.raises(NotAuthenticated):
        database.write_now(registration_codes.redeem, late)


def test_code_of_a_failed_registration_is_not_used_up(database: Database) -> None:
    code = database.write_now(registration_codes.create, add_user(database))

    def redeem_and_fail(conn: Connection) -> None:
        registration_codes.redeem(conn, code)
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 — the one raised above
        database.write_now(redeem_and_fail)
    database.write_now(registration_codes.redeem, code)


def test_unknown_code_is_refused(database: Database) -> None:
    with pytest.raises(NotAuthenticated):
        database.write_now(registration_codes.redeem, "nothing")


def test_code_is_not_stored(database: Database, tmp_path: Path) -> None:
    code = database.write_now(registration_codes.create, add_user(database))
    assert code.encode() not in b"".join(file.read_bytes() for file in tmp_path.iterdir())


def test_expired_codes_are_deleted(database: Database, clock: ManualClock) -> None:
    database.write_now(registration_codes.create, add_user(database))
    assert database.write_now(registration_codes.delete_expired) == 0
    clock.advance(registration_codes.CODE_SECONDS)
    assert database.write_now(registration_codes.delete_expired) == 1
