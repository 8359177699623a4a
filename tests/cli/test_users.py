import pytest

from restante.identity import passwords, sessions, users
from restante.identity.callers import Role
from tests.cli.conftest import Restante

PASSWORD = "correct horse"


def test_add_makes_somebody_who_can_sign_in(restante: Restante) -> None:
    said = restante.json("user", "add", "You@Example.com", "--role", "admin", "--password-stdin", stdin=f"{PASSWORD}\n")
    assert said == {"id": 1, "email": "you@example.com", "role": "admin"}
    with restante.database() as database:
        user = database.read_now(users.by_email, "you@example.com")
    assert user is not None
    assert user.role is Role.admin
    assert passwords.is_right(user.password_hash, PASSWORD)


@pytest.mark.parametrize("stdin", [PASSWORD, f"{PASSWORD}\n", f"{PASSWORD}\r\n", f"{PASSWORD}\nmore\n"])
def test_the_password_is_the_first_line_without_its_end(restante: Restante, stdin: str) -> None:
    restante.ok("user", "add", "a@example.com", "--role", "viewer", "--password-stdin", stdin=stdin)
    with restante.database() as database:
        user = database.read_now(users.by_email, "a@example.com")
    assert user is not None
    assert passwords.is_right(user.password_hash, PASSWORD)


def test_spaces_belong_to_the_password(restante: Restante) -> None:
    restante.ok("user", "add", "a@example.com", "--role", "viewer", "--password-stdin", stdin=" spaced out \n")
    with restante.database() as database:
        user = database.read_now(users.by_email, "a@example.com")
    assert user is not None
    assert passwords.is_right(user.password_hash, " spaced out ")


def test_a_short_password_is_refused_and_said_so(restante: Restante) -> None:
    said = restante.complaint("user", "add", "a@example.com", "--role", "viewer", "--password-stdin", stdin="ninechars")
    assert said == "password: expected 10 to 1024 characters"
    assert restante.json("user", "list") == []


def test_an_email_that_is_none_is_refused(restante: Restante) -> None:
    said = restante.complaint("user", "add", "nobody", "--role", "viewer", "--password-stdin", stdin=PASSWORD)
    assert said == "email: expected an e-mail address"


def test_an_email_is_taken_once(restante: Restante) -> None:
    restante.ok("user", "add", "a@example.com", "--role", "viewer", "--password-stdin", stdin=PASSWORD)
    said = restante.complaint("user", "add", "A@example.com", "--role", "admin", "--password-stdin", stdin=PASSWORD)
    assert said == "there is already a user with this e-mail"


@pytest.mark.parametrize("role", [["--role", "king"], []])
def test_a_role_is_one_of_ours(restante: Restante, role: list[str]) -> None:
    result = restante("user", "add", "a@example.com", *role, "--password-stdin", stdin=PASSWORD)
    assert result.exit_code == 2
    assert "role" in result.stderr


def test_without_a_terminal_there_is_no_asking(restante: Restante) -> None:
    said = restante.complaint("user", "add", "a@example.com", "--role", "viewer")
    assert said == "password: expected a terminal to ask on, or --password-stdin"


def test_password_sets_one_and_ends_the_sessions(restante: Restante) -> None:
    for email in ("a@example.com", "b@example.com"):
        restante.ok("user", "add", email, "--role", "viewer", "--password-stdin", stdin=PASSWORD)
    with restante.database() as database:
        tokens = {user_id: database.write_now(sessions.start, user_id) for user_id in (1, 2)}
    said = restante.json("user", "password", "A@Example.com", "--password-stdin", stdin="another horse\n")
    assert said == {"id": 1, "email": "a@example.com"}
    with restante.database() as database:
        a, b = (database.read_now(users.by_id, user_id) for user_id in (1, 2))
        assert a is not None
        assert b is not None
        assert passwords.is_right(a.password_hash, "another horse")
        assert passwords.is_right(b.password_hash, PASSWORD)
        assert database.read_now(sessions.find, tokens[1]) is None
        assert database.read_now(sessions.find, tokens[2]) is not None
    told = restante.ok("user", "password", "a@example.com", "--password-stdin", stdin=PASSWORD)
    assert told == "a@example.com has a new password; every session of theirs is ended.\n"


def test_password_is_refused_as_when_adding(restante: Restante) -> None:
    restante.ok("user", "add", "a@example.com", "--role", "viewer", "--password-stdin", stdin=PASSWORD)
    said = restante.complaint("user", "password", "a@example.com", "--password-stdin", stdin="ninechars")
    assert said == "password: expected 10 to 1024 characters"
    said = restante.complaint("user", "password", "a@example.com")
    assert said == "password: expected a terminal to ask on, or --password-stdin"
    with restante.database() as database:
        user = database.read_now(users.by_email, "a@example.com")
    assert user is not None
    assert passwords.is_right(user.password_hash, PASSWORD)


def test_password_of_nobody(restante: Restante) -> None:
    said = restante.complaint("user", "password", "a@example.com", "--password-stdin", stdin=PASSWORD)
    assert said == "there is no user a@example.com"
    said = restante.complaint("user", "password", "nobody", "--password-stdin", stdin=PASSWORD)
    assert said == "email: expected an e-mail address"


def test_list(restante: Restante) -> None:
    assert restante.ok("user", "list") == "There is no user yet.\n"
    restante.ok("user", "add", "a@example.com", "--role", "operator", "--password-stdin", stdin=PASSWORD)
    (listed,) = restante.json("user", "list")
    assert {name: listed[name] for name in ("id", "email", "role")} == {
        "id": 1,
        "email": "a@example.com",
        "role": "operator",
    }
    assert set(listed) == {"id", "email", "role", "created_at"}
    assert "a@example.com" in restante.ok("user", "list")
