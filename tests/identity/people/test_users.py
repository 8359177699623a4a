import pytest

from restante.core.errors import BadInput, Conflict, NotFound
from restante.database.database import Database
from restante.identity.callers import Role
from restante.identity.people import sessions, users
from tests.identity.people_and_devices import SESSION_SECONDS, add_user


def test_user_is_found_by_email_and_id(database: Database) -> None:
    user_id = database.write_now(users.add, " Ada@Example.com ", "a hash", Role.approver)
    user = database.read_now(users.find_by_email, "ADA@example.COM")
    assert user is not None
    assert (user.id, user.email, user.role, user.password_hash) == (
        user_id,
        "ada@example.com",
        Role.approver,
        "a hash",
    )
    assert database.read_now(users.find_by_id, user_id) == user
    assert "a hash" not in repr(user)


def test_email_is_unique_ignoring_case(database: Database) -> None:
    add_user(database, "ada@example.com")
    with pytest.raises(Conflict):
        add_user(database, "ADA@example.com")
    assert len(database.read_now(users.list_all)) == 1


@pytest.mark.parametrize("email", ["", "ada", "a b@example.com", "@", "a@b@c", "a\x00@b", "a" * 250 + "@b.example"])
def test_invalid_email_is_refused(database: Database, email: str) -> None:
    with pytest.raises(BadInput):
        add_user(database, email)


def test_unknown_email_or_id_finds_no_user(database: Database) -> None:
    assert database.read_now(users.find_by_email, "nobody@example.com") is None
    assert database.read_now(users.find_by_email, "\x00") is None
    assert database.read_now(users.find_by_id, 99) is None


def test_check_exists_raises_for_unknown_user(database: Database) -> None:
    database.read_now(users.check_exists, add_user(database))
    with pytest.raises(NotFound):
        database.read_now(users.check_exists, 99)


def test_users_are_listed_in_order_of_creation(database: Database) -> None:
    emails = ["c@example.com", "a@example.com", "b@example.com"]
    for email in emails:
        add_user(database, email)
    assert [user.email for user in database.read_now(users.list_all)] == emails


def test_new_password_ends_the_sessions_of_that_user_only(database: Database) -> None:
    ada, ben = add_user(database), add_user(database, "ben@example.com")
    tokens = {user: database.write_now(sessions.start, user, SESSION_SECONDS) for user in (ada, ben)}
    database.write_now(users.set_password, ada, "another hash")
    changed = database.read_now(users.find_by_id, ada)
    assert changed is not None
    assert changed.password_hash == "another hash"
    assert database.read_now(sessions.find, tokens[ada]) is None
    assert database.read_now(sessions.find, tokens[ben]) is not None


def test_new_password_for_unknown_user_is_refused(database: Database) -> None:
    with pytest.raises(NotFound):
        database.write_now(users.set_password, 99, "a hash")
