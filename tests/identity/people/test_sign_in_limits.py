import pytest

from restante.core.errors import TooManyRequests
from restante.database.database import Database
from restante.database.queries import Query
from restante.identity.master_key import MasterKey
from restante.identity.people import sign_in_limits, users
from restante.identity.people.sign_in_limits import ADDRESS, EMAIL, KNOWN, KNOWN_DAYS, PAIR, Attempt, SignInLimits
from tests.conftest import ManualClock
from tests.identity.people_and_devices import add_user, password_hash

EMAIL_TEXT = "ada@example.com"
HOME, STRANGER = "192.0.2.1", "198.51.100.1"
LIMITS = SignInLimits(MasterKey(bytes(32)))

_BUDGETS = Query("budgets", "SELECT count(*) AS rows FROM sign_in_budgets")
_ADDRESSES = Query("addresses", "SELECT count(*) AS rows FROM known_addresses")


def attempt(database: Database, address: str, email: str = EMAIL_TEXT, user_id: int | None = None) -> Attempt:
    return database.read_now(LIMITS.attempt, email, user_id, address)


def count(database: Database, address: str, email: str = EMAIL_TEXT, user_id: int | None = None) -> None:
    database.write_now(sign_in_limits.count, attempt(database, address, email, user_id))


def rows(database: Database, query: Query) -> int:
    row = database.read_now(lambda conn: conn.one(query))
    assert row is not None
    return int(row["rows"])


def test_attempts_are_limited_per_email_and_address(database: Database, clock: ManualClock) -> None:
    for _ in range(PAIR.burst):
        count(database, STRANGER)
    with pytest.raises(TooManyRequests) as refused:
        count(database, STRANGER, "ADA@example.com ")
    assert refused.value.retry_after_seconds == 30
    count(database, HOME)
    count(database, STRANGER, "ben@example.com")
    clock.advance(30)
    count(database, STRANGER)


def test_attempts_are_limited_per_address(database: Database) -> None:
    for n in range(ADDRESS.burst):
        count(database, STRANGER, f"{n}@example.com")
    with pytest.raises(TooManyRequests) as refused:
        count(database, STRANGER, "fresh@example.com")
    assert refused.value.retry_after_seconds == 2
    count(database, HOME, "fresh@example.com")


def test_addresses_of_one_ipv6_network_share_their_budget(database: Database) -> None:
    for n in range(PAIR.burst):
        count(database, f"2001:db8::{n}")
    with pytest.raises(TooManyRequests):
        count(database, "2001:db8::ffff")
    count(database, "2001:db8:0:1::1")


def test_attempts_of_many_unknown_addresses_are_limited_per_email(database: Database) -> None:
    user_id = add_user(database)
    database.write_now(sign_in_limits.succeed, attempt(database, HOME, user_id=user_id), user_id)
    for n in range(EMAIL.burst):
        count(database, f"198.51.100.{n}", user_id=user_id)
    with pytest.raises(TooManyRequests):
        count(database, "203.0.113.1", user_id=user_id)
    count(database, HOME, user_id=user_id)


def test_known_address_has_a_budget_of_its_own_and_is_limited_too(database: Database) -> None:
    user_id = add_user(database)
    database.write_now(sign_in_limits.succeed, attempt(database, HOME, user_id=user_id), user_id)
    for _ in range(KNOWN.burst):
        count(database, HOME, user_id=user_id)
    with pytest.raises(TooManyRequests) as refused:
        count(database, HOME, user_id=user_id)
    assert refused.value.retry_after_seconds == 10


def test_success_does_not_count(database: Database) -> None:
    user_id = add_user(database)
    for _ in range(5 * ADDRESS.burst):
        each = attempt(database, STRANGER, user_id=user_id)
        database.write_now(sign_in_limits.count, each)
        database.write_now(sign_in_limits.succeed, each, user_id)
    assert attempt(database, STRANGER, user_id=user_id).is_known


def test_address_is_known_to_its_person_only_and_for_a_time(database: Database, clock: ManualClock) -> None:
    ada, ben = add_user(database), add_user(database, "ben@example.com")
    database.write_now(sign_in_limits.succeed, attempt(database, HOME, user_id=ada), ada)
    assert attempt(database, HOME, user_id=ada).is_known
    assert not attempt(database, STRANGER, user_id=ada).is_known
    assert not attempt(database, HOME, "ben@example.com", ben).is_known
    clock.advance(KNOWN_DAYS * 86_400)
    assert not attempt(database, HOME, user_id=ada).is_known


def test_new_password_forgets_known_addresses(database: Database) -> None:
    user_id = add_user(database)
    database.write_now(sign_in_limits.succeed, attempt(database, HOME, user_id=user_id), user_id)
    database.write_now(users.set_password, user_id, password_hash())
    assert not attempt(database, HOME, user_id=user_id).is_known


def test_only_the_newest_addresses_of_a_person_are_kept(database: Database, clock: ManualClock) -> None:
    user_id = add_user(database)
    for n in range(sign_in_limits.KNOWN_PER_PERSON_MAX + 5):
        clock.advance(1)
        database.write_now(sign_in_limits.succeed, attempt(database, f"192.0.2.{n}", user_id=user_id), user_id)
    assert rows(database, _ADDRESSES) == sign_in_limits.KNOWN_PER_PERSON_MAX
    assert not attempt(database, "192.0.2.4", user_id=user_id).is_known
    assert attempt(database, "192.0.2.5", user_id=user_id).is_known


def test_rows_are_deleted_when_they_no_longer_matter(database: Database, clock: ManualClock) -> None:
    user_id = add_user(database)
    count(database, STRANGER, "ben@example.com")
    database.write_now(sign_in_limits.succeed, attempt(database, HOME, user_id=user_id), user_id)
    assert (rows(database, _BUDGETS), rows(database, _ADDRESSES)) == (3, 1)
    assert database.write_now(sign_in_limits.delete_expired) == 0
    clock.advance(30)
    assert database.write_now(sign_in_limits.delete_expired) == 3
    clock.advance(KNOWN_DAYS * 86_400)
    assert database.write_now(sign_in_limits.delete_expired) == 1
    assert (rows(database, _BUDGETS), rows(database, _ADDRESSES)) == (0, 0)
