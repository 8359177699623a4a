"""Signing in: an e-mail and a password become a session.

A wrong password and an unknown e-mail get the same answer after the same work. Attempts are limited per
e-mail and per address, before any of that work is done.
"""

import asyncio
import math
import time
from collections.abc import Callable
from typing import NamedTuple

from restante.core.errors import NotAuthenticated, TooManyRequests
from restante.core.token_bucket import TokenBuckets
from restante.database.database import Database
from restante.identity import passwords, sessions, users
from restante.identity.callers import Person

EMAIL_BURST = 10
EMAIL_RATE_PER_SECOND = 1 / 30
ADDRESS_BURST = 30
ADDRESS_RATE_PER_SECOND = 1 / 2
_REMEMBERED_MAX = 100_000
# Each takes a processor and 64 MiB for a tenth of a second; those beyond wait for their turn.
HASHES_AT_ONCE = 2


class SignedIn(NamedTuple):
    person: Person
    token: str


class Attempts:
    """How often signing in was tried, for an e-mail and from an address."""

    def __init__(self) -> None:
        self._by_email = TokenBuckets(EMAIL_RATE_PER_SECOND, EMAIL_BURST, _REMEMBERED_MAX)
        self._by_address = TokenBuckets(ADDRESS_RATE_PER_SECOND, ADDRESS_BURST, _REMEMBERED_MAX)

    def count(self, email: str, address: str, now: float) -> None:
        """One more; TooManyRequests if that is one too many."""
        wait = self._by_address.take(hash(address), now)
        wait = wait or self._by_email.take(hash(email.strip().lower()), now)
        if wait:
            raise TooManyRequests("too many attempts to sign in", retry_after_seconds=math.ceil(wait))


class SignIn:
    def __init__(
        self,
        database: Database,
        *,
        session_seconds: int = sessions.SESSION_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._clock = clock
        self._attempts = Attempts()
        self._hashing = asyncio.Semaphore(HASHES_AT_ONCE)
        self.session_seconds = session_seconds

    async def sign_in(self, email: str, password: str, address: str) -> SignedIn:
        """A new session; NotAuthenticated, or TooManyRequests, with no word about which half was wrong."""
        self._attempts.count(email, address, self._clock())
        user = await self._database.read(users.by_email, email)
        known_hash = user.password_hash if user else None
        async with self._hashing:
            is_right = await asyncio.to_thread(passwords.is_right, known_hash, password)
        if user is None or not is_right:
            raise NotAuthenticated("the e-mail or the password is wrong")
        token = await self._database.write(sessions.start, user.id, self.session_seconds)
        return SignedIn(Person(user.id, user.email, user.role), token)
