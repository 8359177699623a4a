import asyncio
from pathlib import Path

import pytest

from restante.database.database import Database
from restante.identity import refresh_tokens
from restante.identity.refresh_tokens import REFRESH_TOKEN_SECONDS, Exchange, Refusal
from restante.updates import devices
from tests.conftest import ManualClock
from tests.identity.population import add_device, add_user


@pytest.fixture
def user_id(database: Database) -> int:
    return add_user(database)


@pytest.fixture
def device_id(database: Database, user_id: int) -> int:
    return add_device(database, user_id)


@pytest.fixture
def token(database: Database, user_id: int, device_id: int) -> str:
    return database.write_now(refresh_tokens.start_family, user_id, device_id)


def exchanged(database: Database, token: str) -> str:
    result = database.write_now(refresh_tokens.exchange, token)
    assert isinstance(result, Exchange)
    return result.refresh_token


def refused(database: Database, token: str) -> Refusal:
    result = database.write_now(refresh_tokens.exchange, token)
    assert isinstance(result, Refusal)
    return result


def test_a_token_is_exchanged_for_its_successor(database: Database, token: str, user_id: int, device_id: int) -> None:
    result = database.write_now(refresh_tokens.exchange, token)
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
    other = database.write_now(refresh_tokens.start_family, user_id, add_device(database, user_id))
    exchanged(database, token)
    assert refused(database, token) is Refusal.rotated
    exchanged(database, other)


async def test_of_many_at_once_one_wins(database: Database, token: str) -> None:
    results = await asyncio.gather(*(database.write(refresh_tokens.exchange, token) for _ in range(20)))
    assert sum(isinstance(result, Exchange) for result in results) == 1
    assert results.count(Refusal.rotated) == 19


def test_a_new_session_takes_the_place_of_the_old(database: Database, user_id: int, device_id: int, token: str) -> None:
    newer = database.write_now(refresh_tokens.start_family, user_id, device_id)
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


@pytest.mark.parametrize("text", ["", "rt_", "rt_!!!!", "rt_" + "A" * 60, "rt_" + "A" * 64, "ÿ\ud800", "A" * 1024])
def test_what_is_no_token_of_ours_is_not_known(database: Database, text: str) -> None:
    assert refused(database, text) is Refusal.unknown


def test_neither_half_of_the_token_is_in_the_database(database: Database, token: str, tmp_path: Path) -> None:
    kept = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    raw = refresh_tokens._read(token)
    assert raw is not None
    assert raw[: refresh_tokens.FAMILY_BYTES] not in kept
    assert raw[refresh_tokens.FAMILY_BYTES :] not in kept
    assert token.encode() not in kept


def test_expired_families_are_cleared(database: Database, clock: ManualClock, token: str) -> None:
    clock.advance(REFRESH_TOKEN_SECONDS - 1)
    assert database.write_now(refresh_tokens.forget_expired) == 0
    clock.advance(1)
    assert database.write_now(refresh_tokens.forget_expired) == 1
