import asyncio
from pathlib import Path

import pytest

from restante.database.database import Database
from restante.database.queries import Query
from restante.identity.devices import refresh_tokens
from restante.identity.devices.refresh_key import RefreshKey
from restante.identity.devices.refresh_tokens import RefreshExchange, RefreshRefusal
from restante.identity.master_key import MasterKey
from restante.server.config.settings import Settings
from restante.updates.devices import devices
from tests.conftest import ManualClock
from tests.identity.people_and_devices import MONTH_SECONDS, add_device, add_user

KEY = RefreshKey(MasterKey(bytes(32)))


@pytest.fixture
def user_id(database: Database) -> int:
    return add_user(database)


@pytest.fixture
def device_id(database: Database, user_id: int) -> int:
    return add_device(database, user_id)


@pytest.fixture
def token(database: Database, user_id: int, device_id: int) -> str:
    return database.write_now(refresh_tokens.start_family, KEY, user_id, device_id, MONTH_SECONDS)


def exchanged(database: Database, token: str) -> str:
    result = database.write_now(refresh_tokens.exchange, KEY, token, MONTH_SECONDS)
    assert isinstance(result, RefreshExchange)
    return result.refresh_token


def later(token: str, exchanges: int) -> str:
    """The token that results from so many exchanges, held by a device after the database was restored."""
    parts = KEY.read(token)
    assert parts is not None
    return KEY.write(parts.family, parts.counter + exchanges)


def refused(database: Database, token: str) -> RefreshRefusal:
    result = database.write_now(refresh_tokens.exchange, KEY, token, MONTH_SECONDS)
    assert isinstance(result, RefreshRefusal)
    return result


def test_token_is_exchanged_for_its_successor(database: Database, token: str, user_id: int, device_id: int) -> None:
    result = database.write_now(refresh_tokens.exchange, KEY, token, MONTH_SECONDS)
    assert isinstance(result, RefreshExchange)
    assert (result.user_id, result.device_id) == (user_id, device_id)
    assert result.refresh_token != token
    assert exchanged(database, result.refresh_token) not in (token, result.refresh_token)


def test_token_used_twice_ends_the_family(database: Database, token: str) -> None:
    newest = exchanged(database, exchanged(database, token))
    assert refused(database, token) is RefreshRefusal.rotated
    assert refused(database, newest) is RefreshRefusal.unknown
    assert refused(database, token) is RefreshRefusal.rotated


def test_end_of_one_family_leaves_the_others(database: Database, user_id: int, token: str) -> None:
    other = database.write_now(refresh_tokens.start_family, KEY, user_id, add_device(database, user_id), MONTH_SECONDS)
    exchanged(database, token)
    assert refused(database, token) is RefreshRefusal.rotated
    exchanged(database, other)


async def test_one_of_many_concurrent_exchanges_wins(database: Database, token: str) -> None:
    results = await asyncio.gather(
        *(database.write(refresh_tokens.exchange, KEY, token, MONTH_SECONDS) for _ in range(20))
    )
    assert sum(isinstance(result, RefreshExchange) for result in results) == 1
    assert results.count(RefreshRefusal.rotated) == 19


def test_token_newer_than_the_database_is_exchanged(database: Database, token: str) -> None:
    successor = exchanged(database, later(token, 3))
    assert successor == later(token, 4)
    exchanged(database, successor)


@pytest.mark.parametrize("exchanges", [0, 2, 3])
def test_tokens_before_an_exchanged_newer_one_count_as_used(database: Database, token: str, exchanges: int) -> None:
    successor = exchanged(database, later(token, 3))
    assert refused(database, later(token, exchanges)) is RefreshRefusal.rotated
    assert refused(database, successor) is RefreshRefusal.unknown


async def test_one_of_many_concurrent_exchanges_of_a_newer_token_wins(database: Database, token: str) -> None:
    newer = later(token, 3)
    results = await asyncio.gather(
        *(database.write(refresh_tokens.exchange, KEY, newer, MONTH_SECONDS) for _ in range(20))
    )
    assert sum(isinstance(result, RefreshExchange) for result in results) == 1
    assert results.count(RefreshRefusal.rotated) == 19


def test_newer_token_does_not_revive_an_ended_family(
    database: Database, user_id: int, device_id: int, token: str
) -> None:
    newest = exchanged(database, token)
    assert refused(database, token) is RefreshRefusal.rotated
    assert refused(database, later(newest, 3)) is RefreshRefusal.unknown
    superseded = database.write_now(refresh_tokens.start_family, KEY, user_id, device_id, MONTH_SECONDS)
    database.write_now(refresh_tokens.start_family, KEY, user_id, device_id, MONTH_SECONDS)
    assert refused(database, later(superseded, 3)) is RefreshRefusal.rotated
    database.write_now(devices.revoke, device_id)
    assert refused(database, later(newest, 3)) is RefreshRefusal.device_inactive


@pytest.mark.parametrize("exchanges", [-1, 0, 1])
def test_forged_token_ends_no_family(database: Database, token: str, exchanges: int) -> None:
    token = exchanged(database, token)
    parts = KEY.read(token)
    assert parts is not None
    forged = RefreshKey(MasterKey(b"x" * 32)).write(parts.family, parts.counter + exchanges)
    assert refused(database, forged) is RefreshRefusal.unknown
    exchanged(database, token)


def test_family_is_one_row_after_many_exchanges(database: Database, token: str) -> None:
    for _ in range(10):
        token = exchanged(database, token)
    count = Query("count_families", "SELECT COUNT(*) AS families FROM refresh_families")
    row = database.read_now(lambda conn: conn.one(count))
    assert row is not None
    assert row["families"] == 1


def test_new_session_replaces_the_old_one(database: Database, user_id: int, device_id: int, token: str) -> None:
    newer = database.write_now(refresh_tokens.start_family, KEY, user_id, device_id, MONTH_SECONDS)
    assert refused(database, token) is RefreshRefusal.rotated
    exchanged(database, newer)


def test_lifetime_starts_again_with_each_token(database: Database, clock: ManualClock, token: str) -> None:
    assert Settings().refresh_token_days * 86400 == MONTH_SECONDS
    clock.advance(MONTH_SECONDS - 0.001)
    second = exchanged(database, token)
    clock.advance(MONTH_SECONDS)
    assert refused(database, second) is RefreshRefusal.unknown


def test_token_of_revoked_device_is_refused(database: Database, device_id: int, token: str) -> None:
    database.write_now(devices.revoke, device_id)
    assert refused(database, token) is RefreshRefusal.device_inactive


@pytest.mark.parametrize("text", ["", "rt_", "rt_!!!!", "rt_" + "A" * 64, "rt_" + "A" * 75, "ÿ\ud800", "A" * 1024])
def test_other_text_is_unknown(database: Database, text: str) -> None:
    assert refused(database, text) is RefreshRefusal.unknown


def test_neither_token_nor_family_is_stored(database: Database, token: str, tmp_path: Path) -> None:
    kept = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    parts = KEY.read(token)
    assert parts is not None
    assert parts.family not in kept
    assert token.encode() not in kept


def test_expired_families_are_deleted(database: Database, clock: ManualClock, token: str) -> None:
    clock.advance(MONTH_SECONDS - 1)
    assert database.write_now(refresh_tokens.delete_expired) == 0
    clock.advance(1)
    assert database.write_now(refresh_tokens.delete_expired) == 1
