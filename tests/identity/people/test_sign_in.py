import time

import pytest

from restante.core.errors import NotAuthenticated, TooManyRequests
from restante.database.database import Database
from restante.identity.master_key import MasterKey
from restante.identity.people import sessions
from restante.identity.people.sign_in import SignIn
from restante.identity.people.sign_in_limits import PAIR
from tests.conftest import ManualClock
from tests.identity.people_and_devices import PASSWORD, add_user


@pytest.fixture
def sign_in(database: Database) -> SignIn:
    return SignIn(database, MasterKey(bytes(32)), session_seconds=100)


async def test_right_password_starts_a_session(database: Database, clock: ManualClock, sign_in: SignIn) -> None:
    user_id = add_user(database)
    signed_in = await sign_in.sign_in("Ada@Example.com", PASSWORD, "192.0.2.1")
    assert signed_in.person.user_id == user_id
    assert database.read_now(sessions.find, signed_in.token) == signed_in.person
    clock.advance(100)
    assert database.read_now(sessions.find, signed_in.token) is None


async def test_wrong_password_and_unknown_email_get_the_same_error(database: Database, sign_in: SignIn) -> None:
    add_user(database)
    messages = set()
    for email in ("ada@example.com", "nobody@example.com"):
        with pytest.raises(NotAuthenticated) as refused:
            await sign_in.sign_in(email, "wrong", "192.0.2.1")
        messages.add(refused.value.message)
    assert len(messages) == 1


async def test_unknown_email_costs_as_much_work(sign_in: SignIn) -> None:
    started = time.process_time()
    with pytest.raises(NotAuthenticated):
        await sign_in.sign_in("nobody@example.com", "wrong", "192.0.2.1")
    assert time.process_time() - started > 0.02


async def test_rate_limited_attempt_is_not_hashed(sign_in: SignIn) -> None:
    for _ in range(PAIR.burst):
        with pytest.raises(NotAuthenticated):
            await sign_in.sign_in("nobody@example.com", "wrong", "192.0.2.1")
    started = time.process_time()
    with pytest.raises(TooManyRequests):
        await sign_in.sign_in("nobody@example.com", "wrong", "192.0.2.1")
    assert time.process_time() - started < 0.02
