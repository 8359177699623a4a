import asyncio
from pathlib import Path

import pytest

from restante.database.database import Database
from restante.database.queries import Query
from restante.identity import refresh_tokens
from restante.identity.master_key import MasterKey
from restante.identity.refresh_key import RefreshKey
from restante.identity.refresh_tokens import REFRESH_TOKEN_SECONDS, Exchange, Refusal
from restante.updates import devices
from tests.conftest import ManualClock
from tests.identity.population import add_device, add_user

KEY = RefreshKey(MasterKey(bytes(32)))


@pytest.fixture
def user_id(database: Database) -> int:
    return add_user(database)


@pytest.fixture
def device_id(database: Database, user_id: int) -> int:
    return add_device(database, user_id)


@pytest.fixture
def token(database: Database, user_id: int, device_id: int) -> str:
    return database.write_now(refresh_tokens.start_family, KEY, user_id, device_id)


def exchanged(database: Database, token: str) -> str:
    result = database.write_now(refresh_tokens.exchange, KEY, token)
    assert isinstance(result, Exchange)
    return result.refresh_token


def later(token: str, exchanges: int) -> str:
    """The token that so many exchanges make of this one, as a device holds it that the database knows nothing of."""
    shown = KEY.read(token)
    assert shown is not None
    return KEY.write(shown.family, shown.counter + exchanges)


def refused(database: Database, token: str) -> Refusal:
    result = database.write_now(refresh_tokens.exchange, KEY, token)
    assert isinstance(result, Refusal)
    return result


def test_a_token_is_exchanged_for_its_successor(database: Database, token: str, user_id: int, device_id: int) -> None:
    result = database.write_now(refresh_tokens.exchange, KEY, token)
    assert isinstance(result, Exchange)
    assert (result.user_id, result.device_id) == (user_id, device_id)
    assert result.refresh_token != token
    assert exchanged(database, result.refresh_token) not in (token, result.refresh_token)


def test_a_token_used_twice_ends_the_family(database: Database, token: str) -> None:
    newest = exchanged(database, exchanged(database, token))
    assert refused(database, token) is Refusal.rotated
    assert refused(database, newest) is Refusal.unknown
    assert refused(database, token) is Refusal.rotated


def test_the_end_of_one_family_leaves_the_others(database: Database, user_id: int, token: str) -> None:
    other = database.write_now(refresh_tokens.start_family, KEY, user_id, add_device(database, user_id))
    exchanged(database, token)
    assert refused(database, token) is Refusal.rotated
    exchanged(database, other)


async def test_of_many_at_once_one_wins(database: Database, token: str) -> None:
    results = await asyncio.gather(*(database.write(refresh_tokens.exchange, KEY, token) for _ in range(20)))
    assert sum(isinstance(result, Exchange) for result in results) == 1
    assert results.count(Refusal.rotated) == 19


def test_a_token_newer_than_the_database_is_exchanged(database: Database, token: str) -> None:
    successor = exchanged(database, later(token, 3))
    assert successor == later(token, 4)
    exchanged(database, successor)


@pytest.mark.parametrize("exchanges", [0, 2, 3])
def test_once_it_is_exchanged_all_before_it_are_used(database: Database, token: str, exchanges: int) -> None:
    successor = exchanged(database, later(token, 3))
    assert refused(database, later(token, exchanges)) is Refusal.rotated
    assert refused(database, successor) is Refusal.unknown


async def test_of_many_with_a_newer_token_one_wins(database: Database, token: str) -> None:
    newer = later(token, 3)
    results = await asyncio.gather(*(database.write(refresh_tokens.exchange, KEY, newer) for _ in range(20)))
    assert sum(isinstance(result, Exchange) for result in results) == 1
    assert results.count(Refusal.rotated) == 19


def test_a_newer_token_does_not_bring_back_an_ended_family(
    database: Database, user_id: int, device_id: int, token: str
) -> None:
    newest = exchanged(database, token)
    assert refused(database, token) is Refusal.rotated
    assert refused(database, later(newest, 3)) is Refusal.unknown
    superseded = database.write_now(refresh_tokens.start_family, KEY, user_id, device_id)
    database.write_now(refresh_tokens.start_family, KEY, user_id, device_id)
    assert refused(database, later(superseded, 3)) is Refusal.rotated
    database.write_now(devices.revoke, device_id)
    assert refused(database, later(newest, 3)) is Refusal.device_inactive


@pytest.mark.parametrize("exchanges", [-1, 0, 1])
def test_a_forger_ends_nobodys_family(database: Database, token: str, exchanges: int) -> None:
    token = exchanged(database, token)
    shown = KEY.read(token)
    assert shown is not None
    forged = RefreshKey(MasterKey(b"x" * 32)).write(shown.family, shown.counter + exchanges)
    assert refused(database, forged) is Refusal.unknown
    exchanged(database, token)


def test_a_family_is_one_row_however_often_it_refreshes(database: Database, token: str) -> None:
    for _ in range(10):
        token = exchanged(database, token)
    count = Query("count_families", "SELECT COUNT(*) AS families FROM refresh_families")
    row = database.read_now(lambda conn: conn.one(count))
    assert row is not None
    assert row["families"] == 1


def test_a_new_session_takes_the_place_of_the_old(database: Database, user_id: int, device_id: int, token: str) -> None:
    newer = database.write_now(refresh_tokens.start_family, KEY, user_id, device_id)
    assert refused(database, token) is Refusal.rotated
    exchanged(database, newer)


def test_a_token_lives_thirty_days_from_its_own_beginning(database: Database, clock: ManualClock, token: str) -> None:
    assert REFRESH_TOKEN_SECONDS == 30 * 86400
    clock.advance(REFRESH_TOKEN_SECONDS - 0.001)
    second = exchanged(database, token)
    clock.advance(REFRESH_TOKEN_SECONDS)
    assert refused(database, second) is Refusal.unknown


def test_a_revoked_device_gets_nothing(database: Database, device_id: int, token: str) -> None:
    database.write_now(devices.revoke, device_id)
    assert refused(database, token) is Refusal.device_inactive


@pytest.mark.parametrize("text", ["", "rt_", "rt_!!!!", "rt_" + "A" * 64, "rt_" + "A" * 75, "ÿ\ud800", "A" * 1024])
def test_what_is_no_token_of_ours_is_not_known(database: Database, text: str) -> None:
    assert refused(database, text) is Refusal.unknown


def test_nothing_of_the_token_is_in_the_database(database: Database, token: str, tmp_path: Path) -> None:
    kept = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    shown = KEY.read(token)
    assert shown is not None
    assert shown.family not in kept
    assert token.encode() not in kept


def test_expired_families_are_cleared(database: Database, clock: ManualClock, token: str) -> None:
    clock.advance(REFRESH_TOKEN_SECONDS - 1)
    assert database.write_now(refresh_tokens.forget_expired) == 0
    clock.advance(1)
    assert database.write_now(refresh_tokens.forget_expired) == 1
