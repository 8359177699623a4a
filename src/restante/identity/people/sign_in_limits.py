"""Limits of attempts to sign in, counted in the database: all workers and nodes share them.

    from an address where the person signed in before    (person, address)                     20, then 1 in 10 s
    from any other address                               (e-mail, address)                     10, then 1 in 30 s
                                                         e-mail, all other addresses together  100, then 1 in 10 s
                                                         address, all e-mails together         30, then 1 in 2 s

An attempt counts before its password is hashed, and is given back if it succeeds. Strangers cannot use up the budget of
a known address: they do not lock the owner out. IPv6 addresses count by their /64 network. The database holds keyed
hashes of e-mails and addresses, and only as long as they matter.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from restante.core.address_group import address_group
from restante.core.errors import TooManyRequests
from restante.core.keyed_hash import KeyedHash
from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.identity.master_key import MasterKey

SQL = queries_beside(__file__)

KNOWN_DAYS = 90
KNOWN_PER_PERSON_MAX = 50
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Budget:
    """So many attempts at once, then one in each interval."""

    name: str
    burst: int
    interval_ms: int


KNOWN = Budget("known", 20, 10_000)
PAIR = Budget("pair", 10, 30_000)
EMAIL = Budget("email", 100, 10_000)
ADDRESS = Budget("address", 30, 2_000)


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt to sign in, as the limits see it."""

    budgets: tuple[tuple[Budget, bytes], ...]
    address_hash: bytes
    is_known: bool


class SignInLimits:
    def __init__(self, master_key: MasterKey) -> None:
        self._hash = KeyedHash(master_key.derive_key("sign-in limits"))

    def attempt(self, conn: Connection, email: str, user_id: int | None, address: str) -> Attempt:
        email, group = email.strip().lower(), address_group(address)
        address_hash = self._name("known address", group)
        if user_id is not None and _is_known(conn, user_id, address_hash):
            return Attempt(((KNOWN, self._name("known", email, group)),), address_hash, is_known=True)
        budgets = (
            (PAIR, self._name("pair", email, group)),
            (EMAIL, self._name("email", email)),
            (ADDRESS, self._name("address", group)),
        )
        return Attempt(budgets, address_hash, is_known=False)

    def _name(self, *parts: str) -> bytes:
        return self._hash.digest("\0".join(parts).encode("utf-8", "surrogatepass"))


def check(conn: Connection, attempt: Attempt) -> None:
    """Raise TooManyRequests if the attempt exceeds a limit. Changes nothing."""
    _full_times(conn, attempt)


def count(conn: Connection, attempt: Attempt) -> None:
    """Count the attempt, or raise TooManyRequests if it exceeds a limit."""
    conn.lock("sign_in", *sorted(name.hex() for _, name in attempt.budgets))
    for (budget, name), full_at in zip(attempt.budgets, _full_times(conn, attempt), strict=True):
        conn.run(SQL.set_full_at, budget=name, full_at=full_at + budget.interval_ms)


def succeed(conn: Connection, attempt: Attempt, user_id: int) -> None:
    """Give the attempt back, and store its address as known."""
    conn.lock("sign_in", *sorted(name.hex() for _, name in attempt.budgets))
    for budget, name in attempt.budgets:
        conn.run(SQL.give_back, budget=name, interval_ms=budget.interval_ms)
    conn.run(SQL.remember_address, user_id=user_id, address_hash=attempt.address_hash, now_ms=conn.now_ms)
    conn.run(SQL.forget_older_addresses, user_id=user_id, count=KNOWN_PER_PERSON_MAX)


def delete_expired(conn: Connection) -> int:
    """Delete what no longer matters; returns how many rows there were."""
    budgets = conn.run(SQL.delete_full, now_ms=conn.now_ms)
    return budgets + conn.run(SQL.delete_old_addresses, before_ms=conn.now_ms - KNOWN_DAYS * DAY_MS)


def _full_times(conn: Connection, attempt: Attempt) -> list[int]:
    """When each budget is full again, now if it is full; raises TooManyRequests if one is used up."""
    times = [_full_at(conn, name) for _, name in attempt.budgets]
    wait_ms = max(_waits_ms(attempt, times, conn.now_ms))
    if wait_ms > 0:
        raise TooManyRequests("too many attempts to sign in", retry_after_seconds=math.ceil(wait_ms / 1000))
    return times


def _waits_ms(attempt: Attempt, times: list[int], now_ms: int) -> Iterable[int]:
    for (budget, _), full_at in zip(attempt.budgets, times, strict=True):
        yield full_at - now_ms - (budget.burst - 1) * budget.interval_ms


def _full_at(conn: Connection, name: bytes) -> int:
    row = conn.one(SQL.full_at, budget=name)
    return conn.now_ms if row is None else max(row["full_at"], conn.now_ms)


def _is_known(conn: Connection, user_id: int, address_hash: bytes) -> bool:
    after_ms = conn.now_ms - KNOWN_DAYS * DAY_MS
    return conn.one(SQL.known_address, user_id=user_id, address_hash=address_hash, after_ms=after_ms) is not None
