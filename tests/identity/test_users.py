import pytest

from restante.core.errors import BadInput, Conflict, NotFound
from restante.database.database import Database
from restante.identity import sessions, users
from restante.identity.callers import Role
from tests.identity.population import add_user


def test_a_user_is_found_again(database: Database) -> None:
    user_id = database.write_now(users.add, " Ada@Example.com ", "a hash", Role.approver)
    user = database.read_now(users.by_email, "ADA@example.COM")
    assert user is not None
    assert (user.id, user.email, user.role, user.password_hash) == (
        user_id,
        "ada@example.com",
        Role.approver,
        "a hash",
    )
    assert database.read_now(users.by_id, user_id) == user
    assert "a hash" not in repr(user)


def test_an_email_is_taken_once_whatever_its_case(database: Database) -> None:
    add_user(database, "ada@example.com")
    with pytest.raises(Conflict):
        add_user(database, "ADA@example.com")
    assert len(database.read_now(users.list_all)) == 1


@pytest.mark.parametrize("email", ["", "ada", "a b@example.com", "@", "a@b@c", "a\x00@b", "a" * 250 + "@b.example"])
def test_what_is_no_email_is_refused(database: Database, email: str) -> None:
    with pytest.raises(BadInput):
        add_user(database, email)


def test_nobody_is_found_under_an_unknown_or_impossible_email(database: Database) -> None:
    assert database.read_now(users.by_email, "nobody@example.com") is None
    assert database.read_now(users.by_email, "\x00") is None
    assert database.read_now(users.by_id, 99) is None


def test_require(database: Database) -> None:
    database.read_now(users.require, add_user(database))
    with pytest.raises(NotFound):
        database.read_now(users.require, 99)


def test_users_are_listed_in_the_order_they_came(database: Database) -> None:
    emails = ["c@example.com", "a@example.com", "b@example.com"]
    for email in emails:
        add_user(database, email)
    assert [user.email for user in database.read_now(users.list_all)] == emails


def test_a_new_password_ends_the_sessions_of_that_user_only(database: Database) -> None:
    ada, ben = add_user(database), add_user(database, "ben@example.com")
    tokens = {user: database.write_now(sessions.start, user) for user in (ada, ben)}
    database.write_now(users.set_password, ada, "another hash")
    changed = database.read_now(users.by_id, ada)
    assert changed is not None
    assert changed.password_hash == "another hash"
    assert database.read_now(sessions.find, tokens[ada]) is None
    assert database.read_now(sessions.find, tokens[ben]) is not None


def test_a_new_password_for_nobody(database: Database) -> None:
    with pytest.raises(NotFound):
        database.write_now(users.set_password, 99, "a hash")
