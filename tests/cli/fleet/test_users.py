import pytest

from tests.cli.conftest import Restante

PASSWORD = "correct horse battery"


def add(remote: Restante, email: str, *grants: str) -> int:
    made = remote.json("user", "create", email, *grants, "--password-stdin", stdin=PASSWORD + "\n")
    return int(made["id"])


def test_person_is_added_changed_suspended_and_removed(remote: Restante) -> None:
    number = add(remote, "Ada@Example.com", "--role", "admin")
    add(remote, "eve@example.com", "--grant", "operator@commands:3", "--grant", "viewer@events")
    assert "viewer@events, operator@commands:3" in remote.ok("user", "list")
    assert remote.json("user", "show", "ada@example.com")["id"] == number
    assert remote.json("user", "update", "eve@example.com", "--role", "viewer")["role"] == "viewer"
    assert remote.json("user", "suspend", "eve@example.com")["status"] == "suspended"
    assert remote.json("user", "resume", "eve@example.com")["status"] == "active"
    remote.ok("user", "password", "eve@example.com", "--password-stdin", stdin="another password")
    assert "add --yes" in remote.error_line("user", "delete", "eve@example.com")
    assert remote.json("user", "delete", "eve@example.com", "--yes")["removed"] is True
    assert remote.error_line("user", "show", "eve@example.com") == "there is no user eve@example.com"
    events = [each["event"] for each in remote.items("user", "audit", "--since", "1h")]
    assert events[:2] == ["person.removed", "person.password_changed"]


def test_last_administrator_stays(remote: Restante) -> None:
    admins = [each["email"] for each in remote.items("user", "list") if each["role"] == "admin"]
    if not admins:
        remote.ok("user", "create", "last@example.com", "--role", "admin", "--password-stdin", stdin=PASSWORD)
        admins = ["last@example.com"]
    for email in admins[1:]:
        remote.ok("user", "delete", email, "--yes")
    assert "admin" in remote.error_line("user", "suspend", admins[0])


@pytest.mark.parametrize(
    ("args", "stdin", "expected"),
    [
        (("x@example.com", "--role", "viewer"), "short", "password: expected 10 to"),
        (("no address", "--role", "viewer"), PASSWORD, "EMAIL: expected an e-mail"),
        (("x@example.com", "--grant", "king@all"), PASSWORD, "--grant"),
    ],
)
def test_wrong_input_adds_nobody(remote: Restante, args: tuple[str, ...], stdin: str, expected: str) -> None:
    before = remote.items("user", "list")
    assert remote.error_line("user", "create", *args, "--password-stdin", stdin=stdin).startswith(expected)
    assert remote.items("user", "list") == before


def test_roles_are_shown_by_name(remote: Restante) -> None:
    refused = remote("key", "create", "x", "--role", "king")
    assert (refused.exit_code, "viewer, operator, approver, admin" in refused.stderr) == (2, True)
    missing = remote("key", "create", "x")
    assert (missing.exit_code, "viewer, operator, approver, admin" in missing.stderr) == (2, True)


def test_key_is_shown_once_suspended_and_revoked(remote: Restante) -> None:
    made = remote.json("key", "create", "nightly", "--role", "OPERATOR", "--expires-in", "30d")
    number = str(made["id"])
    assert made["token"].startswith("rk_")
    assert made["token"] not in remote.ok("key", "list")
    assert remote.json("key", "show", number)["expires_at"] is not None
    assert remote.json("key", "update", number, "--role", "viewer")["role"] == "viewer"
    assert remote.json("key", "suspend", number)["status"] == "suspended"
    assert remote.json("key", "resume", number)["status"] == "active"
    remote.ok("key", "revoke", number, "--yes")
    assert remote.json("key", "show", number)["revoked_at"] is not None
