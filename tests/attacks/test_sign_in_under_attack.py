"""Strangers guess passwords: they lock no person out, delay no person, and hash no more than a few at a time."""

import asyncio
import threading
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest

from restante.core.errors import NotAuthenticated, RestanteError, TooManyRequests, Unavailable
from restante.database.database import Database
from restante.identity.master_key import MasterKey
from restante.identity.people.sign_in import WAITING_MAX, SignedIn, SignIn
from restante.identity.people.sign_in_limits import PAIR
from tests.conftest import ManualClock
from tests.identity.people_and_devices import PASSWORD, SESSION_SECONDS, add_user
from tests.updates.auth_app import serving

EMAIL = "ada@example.com"
HOME, STRANGER = "192.0.2.1", "198.51.100.1"
MASTER = MasterKey(bytes(32))


class HeldHashes:
    """Compares passwords without hashing them; holds each comparison until `release`; counts how many run at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._released = threading.Event()
        self.running = self.most = self.total = 0

    def is_correct(self, _password_hash: str | None, password: str) -> bool:
        with self._lock:
            self.running += 1
            self.total += 1
            self.most = max(self.most, self.running)
        assert self._released.wait(60)
        with self._lock:
            self.running -= 1
        return password == PASSWORD

    def release(self) -> None:
        self._released.set()


@pytest.fixture
def hashes() -> HeldHashes:
    return HeldHashes()


def sign_in_of(database: Database, hashes: HeldHashes) -> SignIn:
    return SignIn(database, MASTER, session_seconds=SESSION_SECONDS, is_correct=hashes.is_correct)


async def outcome(sign_in: SignIn, address: str, password: str = "wrong", email: str = EMAIL) -> type[object]:
    try:
        return type(await sign_in.sign_in(email, password, address))
    except RestanteError as error:
        return type(error)


async def test_strangers_do_not_lock_the_owner_out_at_a_known_address(database: Database, hashes: HeldHashes) -> None:
    add_user(database)
    hashes.release()
    sign_in = sign_in_of(database, hashes)
    assert await outcome(sign_in, HOME, PASSWORD) is SignedIn
    for _ in range(PAIR.burst):
        assert await outcome(sign_in, STRANGER) is NotAuthenticated
    assert await outcome(sign_in, STRANGER) is TooManyRequests
    assert await outcome(sign_in, STRANGER, PASSWORD) is TooManyRequests
    # Neither where the owner signed in before, nor elsewhere.
    assert await outcome(sign_in, HOME, PASSWORD) is SignedIn
    assert await outcome(sign_in, "203.0.113.1", PASSWORD) is SignedIn


async def test_limits_are_shared_by_all_processes(database: Database, hashes: HeldHashes) -> None:
    add_user(database)
    hashes.release()
    workers = [sign_in_of(database, hashes) for _ in range(2)]
    for n in range(PAIR.burst):
        assert await outcome(workers[n % 2], STRANGER) is NotAuthenticated
    assert [await outcome(worker, STRANGER) for worker in workers] == [TooManyRequests] * 2
    assert await outcome(workers[0], HOME, PASSWORD) is SignedIn
    for n in range(2 * PAIR.burst):
        assert await outcome(workers[n % 2], HOME) is NotAuthenticated
    assert await outcome(workers[1], "203.0.113.9", PASSWORD) is SignedIn


async def test_many_tries_from_ten_addresses_do_not_queue_hashing(database: Database, hashes: HeldHashes) -> None:
    add_user(database)
    hashes.release()
    sign_in = sign_in_of(database, hashes)
    assert await outcome(sign_in, HOME, PASSWORD) is SignedIn

    held = HeldHashes()
    attacked = sign_in_of(database, held)
    tries = [asyncio.create_task(outcome(attacked, f"198.51.100.{n % 10}")) for n in range(200)]
    # All but those with a place in the queue end at once, while no hash has finished.
    refused = islice(asyncio.as_completed(tries), 200 - (WAITING_MAX + 1))
    assert {await ended for ended in refused} <= {Unavailable, TooManyRequests}
    # The owner does not wait for any of them.
    owner = asyncio.create_task(outcome(attacked, HOME, PASSWORD))
    held.release()
    assert await owner is SignedIn
    ended_as = Counter(await asyncio.gather(*tries))
    assert ended_as[NotAuthenticated] == WAITING_MAX + 1
    assert held.total == WAITING_MAX + 2
    assert held.most <= 2


async def test_owner_is_served_while_the_queue_of_strangers_is_full(database: Database, hashes: HeldHashes) -> None:
    add_user(database)
    hashes.release()
    assert await outcome(sign_in_of(database, hashes), HOME, PASSWORD) is SignedIn

    class OnlyStrangersWait(HeldHashes):
        def is_correct(self, password_hash: str | None, password: str) -> bool:
            return password == PASSWORD or super().is_correct(password_hash, password)

    held = OnlyStrangersWait()
    sign_in = sign_in_of(database, held)
    strangers = [asyncio.create_task(outcome(sign_in, STRANGER, email=f"{n}@example.com")) for n in range(20)]
    refused = islice(asyncio.as_completed(strangers), 20 - (WAITING_MAX + 1))
    assert {await ended for ended in refused} == {Unavailable}
    assert await outcome(sign_in, HOME, PASSWORD) is SignedIn
    held.release()
    await asyncio.gather(*strangers)


async def test_full_queue_is_503_with_retry_after(database: Database, clock: ManualClock, hashes: HeldHashes) -> None:
    async with serving(database, clock, is_correct=hashes.is_correct) as app, app.client() as client:
        body = {"action": "login", "email": "nobody@example.com", "password": "wrong"}
        tries = [asyncio.create_task(client.post("/auth/general", json=body)) for _ in range(WAITING_MAX + 2)]
        refused = await next(asyncio.as_completed(tries))
        assert refused.status_code == 503
        assert refused.json()["error"]["code"] == 50300
        assert refused.headers["retry-after"] == "2"
        hashes.release()
        assert sorted(each.status_code for each in await asyncio.gather(*tries)) == [401] * (WAITING_MAX + 1) + [503]


@pytest.mark.embedded
async def test_no_email_or_address_is_stored(database: Database, hashes: HeldHashes, tmp_path: Path) -> None:
    add_user(database, "owner@example.com")
    hashes.release()
    sign_in = sign_in_of(database, hashes)
    await outcome(sign_in, "203.0.113.77", email="victim@example.org")
    await outcome(sign_in, "203.0.113.78", PASSWORD, email="owner@example.com")
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.is_file())
    assert b"owner@example.com" in stored
    assert b"203.0.113.7" not in stored
    assert b"victim@example.org" not in stored
