"""`restante group`, tags and the filters of `restante device list`."""

import json
from pathlib import Path

from tests.cli.conftest import OWNER, AddDevice, Restante


def test_group_is_a_saved_filter(remote: Restante, add_device: AddDevice) -> None:
    remote.ok("device", "tag", str(add_device("grouped")), "pilot", "north")
    assert remote.ok("group", "create", "pilots", "--tag", "pilot", "--tag", "north") == (
        "Group 1 (pilots); devices in it now: 1.\n"
    )
    assert remote.json("group", "show", "pilots")["filter"] == {"tag": "pilot,north"}
    assert [each["name"] for each in remote.items("device", "list", "--group", "pilots")] == ["grouped"]
    assert remote.json("group", "update", "pilots", "--rename", "late", "--overdue")["filter"] == {"overdue": True}
    assert remote.json("group", "create", "own", "--platform", "linux", "--user", OWNER)["user_id"] is not None
    assert remote.json("group", "list", "--count") == {"total": {"value": 2, "is_exact": True}}
    assert "This deletes group 1 (late)" in remote.error_line("group", "delete", "late")
    assert remote.json("group", "delete", "late", "--yes")["deleted"] is True
    assert remote.error_line("group", "show", "late") == "there is no group 'late'"
    assert remote("group", "update", "own").exit_code == 2
    assert remote.error_line("group", "create", "empty").startswith("filter: expected at least one")


def test_tags_are_added_and_removed(remote: Restante, add_device: AddDevice) -> None:
    number = str(add_device("tagged"))
    assert remote.ok("device", "tag", number, "b", "a") == "Tags of the device: a, b\n"
    assert remote.json("device", "untag", "tagged", "a") == {"tags": ["b"]}
    assert remote.ok("device", "untag", "tagged", "b") == "Tags of the device: none\n"
    assert remote.error_line("device", "tag", number, "No!").startswith("TAG: expected")


def test_device_list_filters_counts_and_exports(remote: Restante, add_device: AddDevice, tmp_path: Path) -> None:
    for name in ("till 1", "till 2"):
        add_device(name)
    remote.ok("device", "revoke", "till 2", "--yes")

    def names(*flags: str) -> list[str]:
        return [each["name"] for each in remote.items("device", "list", "--name", "till", *flags)]

    assert names() == ["till 1", "till 2"]
    assert names("--status", "revoked") == ["till 2"]
    assert names("--not-overdue", "--platform", "linux", "--seen-before", "1h", "--user", OWNER) == ["till 1", "till 2"]
    assert names("--agent-version", "9", "--config-version", "current") == []
    assert names("--certificate-expires-before", "30d") == []
    counts = remote.json("device", "list", "--count", "--name", "till")
    assert counts["status"]["revoked"]["value"] == 1
    assert remote.ok("device", "list", "--count", "--name", "till").splitlines()[0] == "total\t2"
    file = tmp_path / "devices.csv"
    remote("device", "export", "--name", "till", "--out", str(file))
    assert len(file.read_text().splitlines()) == 3
    assert len(json.loads(remote.ok("device", "export", "--name", "till", "--format", "json"))) == 2
    page = remote.json("device", "list", "--name", "till", "--limit", "1")
    rest = remote.items("device", "list", "--name", "till", "--after", page["next"])
    assert [each["name"] for each in rest] == ["till 2"]
    assert remote.error_line("device", "list", "--seen-before", "soon").startswith("--seen-before: expected")
    assert remote.error_line("device", "list", "--after", "nothing").startswith("--after: expected")
    assert remote.error_line("device", "list", "--group", "nobody").startswith("--group: expected")


def test_device_is_explained_and_its_signals_are_listed(remote: Restante, add_device: AddDevice) -> None:
    add_device("explained")
    remote.ok("signal", "send", "explained", "app.hello")
    (line,) = remote.items("signal", "list", "explained", "--since", "1h")
    assert (line["type"], line["state"]) == ("app.hello", "queued")
    assert remote.json("device", "why", "explained")["waiting_for"] == "first_poll"
    assert remote.ok("device", "why", "explained").startswith("It was registered at")
    assert remote.items("device", "reports", "explained") == []
    assert remote.json("device", "show", "explained")["delivery"]["queued"] == 1


def test_device_is_registered_with_a_key_file(remote: Restante, add_device: AddDevice, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    add_device("of the owner")
    file = tmp_path / "key.pem"
    key = X25519PrivateKey.generate().public_key()
    file.write_bytes(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    create = ("device", "create", "3f0c1c7e-3c26-4c53-9d0a-6e2e6d3c0a11", "--public-key", str(file), "--user", OWNER)
    made = remote.json(*create, "--name", "made here")
    assert made["device"]["name"] == "made here"
    assert made["session"]["refresh_token"]
    file.write_text("short")
    assert remote.error_line(*create).startswith("--public-key: expected base64")


def test_user_has_keys_of_their_own(remote: Restante, add_device: AddDevice) -> None:
    add_device("of a user with keys")
    made = remote.json("key", "create", "installer", "--role", "viewer", "--expires-in", "1h", "--user", OWNER)
    assert [each["id"] for each in remote.items("key", "list", "--user", OWNER)] == [made["id"]]
    assert remote("key", "create", "x", "--grant", "viewer@all", "--user", OWNER).exit_code == 2
    remote.ok("key", "revoke", str(made["id"]), "--user", OWNER, "--yes")
    assert remote.items("user", "audit", "--key", str(made["id"]))[0]["key_id"] == made["id"]
