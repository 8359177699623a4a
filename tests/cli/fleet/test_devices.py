import pytest

from tests.cli.conftest import OWNER, AddDevice, Restante

BEYOND_INT64 = str(2**63)


def ids(found: list[dict[str, int]]) -> list[int]:
    return [device["id"] for device in found]


def test_list_pages_and_filters_by_user(restante: Restante, add_device: AddDevice) -> None:
    assert restante.ok("device", "list") == "No devices.\n"
    first, second, third = (add_device(name) for name in ("first", "second", "third"))
    assert ids(restante.json("device", "list")) == [first, second, third]
    assert ids(restante.json("device", "list", "--limit", "1", "--after", str(first))) == [second]
    restante.ok("user", "add", "other@example.com", "--role", "viewer", "--password-stdin", stdin="long enough")
    for user, found in ((OWNER, [first, second, third]), ("1", [first, second, third]), ("2", [])):
        assert ids(restante.json("device", "list", "--user", user)) == found
    assert "second" in restante.ok("device", "list")


@pytest.mark.parametrize("user", ["9", "nobody@example.com"])
def test_unknown_user_is_refused(restante: Restante, user: str) -> None:
    assert restante.error_line("device", "list", "--user", user) == f"there is no user {user}"


@pytest.mark.parametrize("user", ["somebody", "-1", BEYOND_INT64, ""])
def test_user_must_be_id_or_email(restante: Restante, user: str) -> None:
    assert restante.error_line("device", "list", f"--user={user}") == "user: expected an id or an e-mail address"


def test_show_prints_device(restante: Restante, add_device: AddDevice) -> None:
    device = str(add_device("kiosk"))
    shown = restante.json("device", "show", device)
    assert (shown["name"], shown["status"], shown["platform"]) == ("kiosk", "active", "linux")
    assert "public id of kiosk" in restante.ok("device", "show", device)


def test_revoke_is_permanent(restante: Restante, add_device: AddDevice) -> None:
    device = str(add_device("kiosk"))
    assert restante.json("device", "revoke", device)["status"] == "revoked"
    assert restante.ok("device", "revoke", device) == f"Device {device} is revoked.\n"
    assert restante.json("device", "show", device)["status"] == "revoked"


@pytest.mark.parametrize("command", ["show", "revoke"])
def test_unknown_device_is_refused(restante: Restante, command: str) -> None:
    assert restante.error_line("device", command, "7") == "there is no such device"
    assert restante("device", command, "seven").exit_code == 2
    assert restante("device", command, BEYOND_INT64).exit_code == 2
