"""Tokens that are verified soon, as for the first polls after a restart: `verify` decides about all others."""

import asyncio

import pytest

from restante.core.errors import NotAllowed, NotAuthenticated
from restante.database.database import Database
from restante.identity import signing_keys
from restante.identity.callers import DeviceCaller
from tests.conftest import ManualClock
from tests.delivery.busy_database import hold_readers
from tests.identity.devices.test_device_tokens import MASTER, TokenFixture
from tests.identity.people_and_devices import add_user


@pytest.fixture
async def fixture(database: Database, clock: ManualClock) -> TokenFixture:
    fixture = TokenFixture(database, clock)
    await fixture.tokens.start()
    return fixture


class Verified:
    """Collects the result of `verify_soon`."""

    def __init__(self, fixture: TokenFixture, token: str) -> None:
        self.result: asyncio.Future[DeviceCaller | None] = asyncio.get_running_loop().create_future()
        self.is_begun = fixture.tokens.verify_soon(token.encode(), self.result.set_result)

    async def caller(self) -> DeviceCaller | None:
        assert self.is_begun
        return await asyncio.wait_for(self.result, 30)


async def test_token_verified_soon_has_the_same_caller_and_is_cached(fixture: TokenFixture) -> None:
    token = fixture.tokens.mint(fixture.user_id, fixture.device_id)
    caller = await Verified(fixture, token).caller()
    assert fixture.tokens.cached(token.encode(), fixture.now()) is caller
    fixture.tokens.forget_all()
    assert await fixture.tokens.verify(token) == caller


async def test_refused_tokens_are_left_to_verify(fixture: TokenFixture) -> None:
    """Each of them is refused by `verify`, too, and none is cached."""
    other = add_user(fixture.database, "ben@example.com")
    at_once = [
        fixture.tokens.mint(fixture.user_id, fixture.device_id)[:-3] + "AAA",
        fixture.own_token(device_id=...),
        fixture.own_token(sub="x"),
        fixture.own_token(exp=fixture.now()),
        fixture.own_token(nbf=fixture.now() + 3600),
        fixture.own_token(iss="other"),
        "",
        "a.b.c",
    ]
    after_the_read = [fixture.own_token(device_id=999), fixture.own_token(sub=str(other)), fixture.own_token(gen=1)]
    for token in at_once:
        assert not Verified(fixture, token).is_begun, token
    for token in after_the_read:
        assert await Verified(fixture, token).caller() is None
    for token in at_once + after_the_read:
        with pytest.raises((NotAuthenticated, NotAllowed)):
            await fixture.tokens.verify(token)
        assert fixture.tokens.cached(token.encode(), fixture.now()) is None


async def test_external_token_is_left_to_verify(fixture: TokenFixture) -> None:
    token = fixture.external_token()
    assert not Verified(fixture, token).is_begun
    assert (await fixture.tokens.verify(token)).device_id == fixture.device_id
    assert not Verified(fixture, token).is_begun


async def test_token_verified_soon_while_all_are_forgotten_is_not_cached(fixture: TokenFixture) -> None:
    token = fixture.tokens.mint(fixture.user_id, fixture.device_id)
    release = hold_readers(fixture.database)
    verified = Verified(fixture, token)
    fixture.tokens.forget_all()
    release()
    assert await verified.caller() is not None
    assert fixture.tokens.cached(token.encode(), fixture.now()) is None


async def test_token_of_a_rotated_key_is_verified_soon(fixture: TokenFixture) -> None:
    old = fixture.tokens.mint(fixture.user_id, fixture.device_id)
    fixture.database.write_now(signing_keys.rotate, signing_keys.make(MASTER), 3600)
    await fixture.tokens.catch_up()
    new = fixture.tokens.mint(fixture.user_id, fixture.device_id)
    assert await Verified(fixture, old).caller() == await Verified(fixture, new).caller()
    fixture.database.write_now(signing_keys.rotate, signing_keys.make(MASTER), 0)
    await fixture.tokens.catch_up()
    assert not Verified(fixture, old).is_begun
    assert not Verified(fixture, new).is_begun


async def test_state_that_cannot_be_read_leaves_the_token_to_verify(fixture: TokenFixture) -> None:
    token = fixture.tokens.mint(fixture.user_id, fixture.device_id)
    fixture.database.close()
    assert await Verified(fixture, token).caller() is None
