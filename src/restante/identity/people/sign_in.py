"""Sign-in: exchanges an e-mail and a password for a session.

    limits (database) ─▶ place in the hashing queue ─▶ count the attempt ─▶ hash ─▶ session
         │ 429                  │ 503                                        │ 401

A wrong password and an unknown e-mail get the same response after the same work. Attempts are limited before any of
that work is done (see sign_in_limits.py). Hashing has two short queues, one for addresses where the person signed in
before and one for all others, so that people at known addresses do not wait for strangers.
"""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from restante.core.errors import NotAuthenticated, Unavailable
from restante.database.connection import Connection
from restante.database.database import Database
from restante.identity.callers import Person
from restante.identity.master_key import MasterKey
from restante.identity.people import passwords, sessions, sign_in_limits, users
from restante.identity.people.sign_in_limits import Attempt, SignInLimits
from restante.identity.people.users import User

# Each hash occupies a processor and 64 MiB for a tenth of a second. Two queues: at most two hashes at once.
WAITING_MAX = 8
RETRY_SECONDS = 2


@dataclass(frozen=True, slots=True)
class SignedIn:
    person: Person
    token: str


class HashingQueue:
    """One hash at a time, and few that wait for it. Further ones are refused."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"hashing for {name}")
        self._places_taken = 0

    @contextmanager
    def place(self) -> Iterator[None]:
        """Take a place in the queue; raises Unavailable if there is none."""
        if self._places_taken > WAITING_MAX:
            raise Unavailable("too many people sign in at this moment", retry_after_seconds=RETRY_SECONDS)
        self._places_taken += 1
        try:
            yield
        finally:
            self._places_taken -= 1

    async def run(self, is_correct: Callable[[str | None, str], bool], password_hash: str | None, text: str) -> bool:
        return await asyncio.get_running_loop().run_in_executor(self._thread, is_correct, password_hash, text)


class SignIn:
    def __init__(
        self,
        database: Database,
        master_key: MasterKey,
        *,
        session_seconds: int,
        is_correct: Callable[[str | None, str], bool] = passwords.is_correct,
    ) -> None:
        self._database = database
        self._limits = SignInLimits(master_key)
        self._is_correct = is_correct
        self._known, self._strangers = HashingQueue("known addresses"), HashingQueue("other addresses")
        self.session_seconds = session_seconds

    async def sign_in(self, email: str, password: str, address: str) -> SignedIn:
        """A new session; raises TooManyRequests, Unavailable, or NotAuthenticated, not saying what was wrong."""
        user, attempt = await self._checked(email, password, address)
        token = await self._database.write(self._start, attempt, user.id)
        return SignedIn(Person(user.id, user.email, user.grants), token)

    async def confirm(self, email: str, password: str, address: str, session_token: str) -> None:
        """Confirm a session with the password of its person; raises the same errors, under the same limits."""
        user, attempt = await self._checked(email, password, address)
        await self._database.write(self._confirm, attempt, user.id, session_token)

    async def _checked(self, email: str, password: str, address: str) -> tuple[User, Attempt]:
        """The person with this e-mail and password."""
        user, attempt = await self._database.read(self._begin, email, address)
        queue = self._known if attempt.is_known else self._strangers
        with queue.place():
            await self._database.write(sign_in_limits.count, attempt)
            password_hash = user.password_hash if user else None
            is_correct = await queue.run(self._is_correct, password_hash, password)
        if user is None or not is_correct or user.suspended_at is not None:
            raise NotAuthenticated("the e-mail or the password is wrong")
        return user, attempt

    def _begin(self, conn: Connection, email: str, address: str) -> tuple[User | None, Attempt]:
        user = users.find_by_email(conn, email)
        attempt = self._limits.attempt(conn, email, None if user is None else user.id, address)
        sign_in_limits.check(conn, attempt)
        return user, attempt

    def _start(self, conn: Connection, attempt: Attempt, user_id: int) -> str:
        sign_in_limits.succeed(conn, attempt, user_id)
        return sessions.start(conn, user_id, self.session_seconds)

    def _confirm(self, conn: Connection, attempt: Attempt, user_id: int, session_token: str) -> None:
        sign_in_limits.succeed(conn, attempt, user_id)
        sessions.confirm(conn, session_token)
