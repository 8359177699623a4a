import time

import pytest

from restante.core.errors import NotAuthenticated, TooManyRequests
from restante.database.database import Database
from restante.identity import sessions
from restante.identity.sign_in import ADDRESS_BURST, EMAIL_BURST, Attempts, SignIn
from tests.conftest import ManualClock
from tests.identity.population import PASSWORD, add_user


@pytest.fixture
def sign_in(database: Database, clock: ManualClock) -> SignIn:
    return SignIn(database, session_seconds=100, clock=lambda: clock.now_ms / 1000)


async def test_the_right_password_gives_a_session(database: Database, clock: ManualClock, sign_in: SignIn) -> None:
    user_id = add_user(database)
    signed_in = await sign_in.sign_in("Ada@Example.com", PASSWORD, "192.0.2.1")
    assert signed_in.person.user_id == user_id
    assert database.read_now(sessions.find, signed_in.token) == signed_in.person
    clock.advance(100)
    assert database.read_now(sessions.find, signed_in.token) is None


async def test_a_wrong_password_and_an_unknown_email_look_the_same(database: Database, sign_in: SignIn) -> None:
    add_user(database)
    messages = set()
    for email in ("ada@example.com", "nobody@example.com"):
        with pytest.raises(NotAuthenticated) as refused:
            await sign_in.sign_in(email, "wrong", "192.0.2.1")
        messages.add(refused.value.message)
    assert len(messages) == 1


async def test_an_unknown_email_costs_as_much_work(sign_in: SignIn) -> None:
    started = time.process_time()
    with pytest.raises(NotAuthenticated):
        await sign_in.sign_in("nobody@example.com", "wrong", "192.0.2.1")
    assert time.process_time() - started > 0.02


async def test_a_refused_attempt_is_not_hashed_for(sign_in: SignIn) -> None:
    for _ in range(EMAIL_BURST):
        with pytest.raises(NotAuthenticated):
            await sign_in.sign_in("nobody@example.com", "wrong", "192.0.2.1")
    started = time.process_time()
    with pytest.raises(TooManyRequests):
        await sign_in.sign_in("nobody@example.com", "wrong", "192.0.2.1")
    assert time.process_time() - started < 0.02


def test_attempts_are_limited_per_email() -> None:
    attempts = Attempts()
    for n in range(EMAIL_BURST):
        attempts.count("ada@example.com", f"192.0.2.{n}", 0.0)
    with pytest.raises(TooManyRequests) as refused:
        attempts.count("ADA@example.com", "198.51.100.1", 0.0)
    assert refused.value.retry_after_seconds == 30
    attempts.count("ben@example.com", "198.51.100.1", 0.0)
    attempts.count("ada@example.com", "198.51.100.1", 30.0)


def test_attempts_are_limited_per_address() -> None:
    attempts = Attempts()
    for n in range(ADDRESS_BURST):
        attempts.count(f"{n}@example.com", "192.0.2.1", 0.0)
    with pytest.raises(TooManyRequests) as refused:
        attempts.count("fresh@example.com", "192.0.2.1", 0.0)
    assert refused.value.retry_after_seconds == 2
    attempts.count("fresh@example.com", "192.0.2.2", 0.0)
