from typing import Any

import pytest

from restante.cli.actor import cli_actor
from restante.identity.callers import Role
from restante.identity.people import passwords, sessions, users
from tests.cli.conftest import Restante
from tests.identity.people_and_devices import SESSION_SECONDS

PASSWORD = "correct horse"


def test_added_user_can_sign_in(restante: Restante) -> None:
    message = restante.json(
        "user", "add", "You@Example.com", "--role", "admin", "--password-stdin", stdin=f"{PASSWORD}\n"
    )
    assert message == {"id": 1, "email": "you@example.com", "role": "admin", "grants": ["admin@all"]}
    with restante.database() as database:
        user = database.read_now(users.find_by_email, "you@example.com")
    assert user is not None
    assert user.role is Role.admin
    assert passwords.is_correct(user.password_hash, PASSWORD)


@pytest.mark.parametrize("stdin", [PASSWORD, f"{PASSWORD}\n", f"{PASSWORD}\r\n", f"{PASSWORD}\nmore\n"])
def test_password_is_first_line_without_line_end(restante: Restante, stdin: str) -> None:
    restante.ok("user", "add", "a@example.com", "--role", "viewer", "--password-stdin", stdin=stdin)
    with restante.database() as database:
        user = database.read_now(users.find_by_email, "a@example.com")
    assert user is not None
    assert passwords.is_correct(user.password_hash, PASSWORD)


def test_spaces_are_part_of_password(restante: Restante) -> None:
    restante.ok("user", "add", "a@example.com", "--role", "viewer", "--password-stdin", stdin=" spaced out \n")
    with restante.database() as database:
        user = database.read_now(users.find_by_email, "a@example.com")
    assert user is not None
    assert passwords.is_correct(user.password_hash, " spaced out ")


def test_short_password_is_refused(restante: Restante) -> None:
    message = restante.error_line(
        "user", "add", "a@example.com", "--role", "viewer", "--password-stdin", stdin="ninechars"
    )
    assert message == "password: expected 10 to 1024 characters"
    assert restante.json("user", "list") == []


def test_invalid_email_is_refused(restante: Restante) -> None:
    message = restante.error_line("user", "add", "nobody", "--role", "viewer", "--password-stdin", stdin=PASSWORD)
    assert message == "email: expected an e-mail address"


def test_email_is_unique(restante: Restante) -> None:
    restante.ok("user", "add", "a@example.com", "--role", "viewer", "--password-stdin", stdin=PASSWORD)
    message = restante.error_line("user", "add", "A@example.com", "--role", "admin", "--password-stdin", stdin=PASSWORD)
    assert message == "there is already a user with this e-mail"


@pytest.mark.parametrize("role", [["--role", "king"], []])
def test_unknown_or_missing_role_is_wrong_usage(restante: Restante, role: list[str]) -> None:
    result = restante("user", "add", "a@example.com", *role, "--password-stdin", stdin=PASSWORD)
    assert result.exit_code == 2
    assert "role" in result.stderr


def test_prompt_without_terminal_is_refused(restante: Restante) -> None:
    message = restante.error_line("user", "add", "a@example.com", "--role", "viewer")
    assert message == "password: expected a terminal to ask on, or --password-stdin"


def test_password_is_set_and_sessions_end(restante: Restante) -> None:
    for email in ("a@example.com", "b@example.com"):
        restante.ok("user", "add", email, "--role", "viewer", "--password-stdin", stdin=PASSWORD)
    with restante.database() as database:
        tokens = {user_id: database.write_now(sessions.start, user_id, SESSION_SECONDS) for user_id in (1, 2)}
    message = restante.json("user", "password", "A@Example.com", "--password-stdin", stdin="another horse\n")
    assert message == {"id": 1, "email": "a@example.com"}
    with restante.database() as database:
        a, b = (database.read_now(users.find_by_id, user_id) for user_id in (1, 2))
        assert a is not None
        assert b is not None
        assert passwords.is_correct(a.password_hash, "another horse")
        assert passwords.is_correct(b.password_hash, PASSWORD)
        assert database.read_now(sessions.find, tokens[1]) is None
        assert database.read_now(sessions.find, tokens[2]) is not None
    printed = restante.ok("user", "password", "a@example.com", "--password-stdin", stdin=PASSWORD)
    assert printed == "a@example.com has a new password; every session of theirs is ended.\n"


def test_password_command_refuses_invalid_passwords(restante: Restante) -> None:
    restante.ok("user", "add", "a@example.com", "--role", "viewer", "--password-stdin", stdin=PASSWORD)
    message = restante.error_line("user", "password", "a@example.com", "--password-stdin", stdin="ninechars")
    assert message == "password: expected 10 to 1024 characters"
    message = restante.error_line("user", "password", "a@example.com")
    assert message == "password: expected a terminal to ask on, or --password-stdin"
    with restante.database() as database:
        user = database.read_now(users.find_by_email, "a@example.com")
    assert user is not None
    assert passwords.is_correct(user.password_hash, PASSWORD)


def test_password_of_unknown_user_is_refused(restante: Restante) -> None:
    message = restante.error_line("user", "password", "a@example.com", "--password-stdin", stdin=PASSWORD)
    assert message == "there is no user a@example.com"
    message = restante.error_line("user", "password", "nobody", "--password-stdin", stdin=PASSWORD)
    assert message == "email: expected an e-mail address"


def test_list_shows_users_without_hashes(restante: Restante) -> None:
    assert restante.ok("user", "list") == "There is no user yet.\n"
    restante.ok("user", "add", "a@example.com", "--role", "operator", "--password-stdin", stdin=PASSWORD)
    (listed,) = restante.json("user", "list")
    assert {name: listed[name] for name in ("id", "email", "role")} == {
        "id": 1,
        "email": "a@example.com",
        "role": "operator",
    }
    assert set(listed) == {"id", "email", "role", "grants", "created_at", "suspended_at"}
    assert "a@example.com" in restante.ok("user", "list")


def add(restante: Restante, email: str, *flags: str) -> dict[str, Any]:
    added: dict[str, Any] = restante.json("user", "add", email, *flags, "--password-stdin", stdin=PASSWORD)
    return added


def test_user_has_the_grants_of_the_flags(restante: Restante) -> None:
    added = add(restante, "a@example.com", "--grant", "operator@commands:3", "--grant", "viewer@events:shop")
    assert (added["role"], added["grants"]) == ("operator", ["operator@commands:3", "viewer@events:shop"])
    changed = restante.json("user", "grants", "a@example.com", "--role", "approver")
    assert changed["grants"] == ["approver@all"]
    assert "has the grants viewer@updates" in restante.ok(
        "user", "grants", "A@example.com", "--grant", "viewer@updates"
    )
    assert "viewer@updates" in restante.ok("user", "list")


def test_invalid_grant_is_refused(restante: Restante) -> None:
    add(restante, "a@example.com", "--role", "viewer")
    for flags in ((), ("--role", "viewer", "--grant", "viewer@all")):
        refused = restante("user", "grants", "a@example.com", *flags)
        assert refused.exit_code == 2
        assert "either --role or --grant is required" in refused.stderr
    message = restante.error_line("user", "grants", "a@example.com", "--grant", "viewer@sites")
    assert message.startswith("--grant: expected all, updates")
    message = restante.error_line("user", "grants", "a@example.com", "--grant", "root@all")
    assert message == "--grant: expected <role>@<scope>, with a role of viewer, operator, approver, admin"


def test_user_is_suspended_resumed_and_removed(restante: Restante) -> None:
    add(restante, "a@example.com", "--role", "operator")
    assert restante.json("user", "suspend", "a@example.com")["suspended_at"] is not None
    assert restante.json("user", "resume", "a@example.com")["suspended_at"] is None
    assert restante.ok("user", "remove", "a@example.com") == "a@example.com is removed.\n"
    assert restante.error_line("user", "suspend", "a@example.com") == "there is no user a@example.com"
    changes = restante.json("user", "audit")["items"]
    assert [change["event"] for change in changes] == [
        "person.removed", "person.resumed", "person.suspended", "person.added",
    ]  # fmt: skip
    assert {change["actor"] for change in changes} == {cli_actor()}
    assert "person.removed" in restante.ok("user", "audit")


def test_last_administrator_is_kept(restante: Restante) -> None:
    add(restante, "a@example.com", "--role", "admin")
    for command in ("suspend", "remove"):
        assert "last person with the role admin" in restante.error_line("user", command, "a@example.com")
