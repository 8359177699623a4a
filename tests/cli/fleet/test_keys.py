import pytest

from restante.server.data_folder import DataFolder
from tests.cli.conftest import Restante


def test_rotated_key_signs_and_old_key_still_verifies(restante: Restante) -> None:
    assert restante.json("keys", "list") == []
    first = restante.json("keys", "rotate")["kid"]
    second = restante.json("keys", "rotate")["kid"]
    keys = restante.json("keys", "list")
    assert [key["kid"] for key in keys] == [second, first]
    assert keys[0]["verifies_until"] is None
    assert keys[1]["verifies_until"] is not None
    assert second in restante.ok("keys", "list")


def test_rotate_at_once_ends_old_key(restante: Restante) -> None:
    restante.json("keys", "rotate")
    second = restante.json("keys", "rotate", "--at-once")["kid"]
    assert [key["kid"] for key in restante.json("keys", "list")] == [second]


def test_rotate_under_lost_or_foreign_master_key_is_refused(
    restante: Restante, monkeypatch: pytest.MonkeyPatch
) -> None:
    kid = restante.json("keys", "rotate")["kid"]
    path = DataFolder(restante.data).master_key_path
    path.unlink()
    assert str(path) in restante.error_line("keys", "rotate")
    assert not path.exists()
    monkeypatch.setenv("RESTANTE_MASTER_KEY", "ab" * 32)
    assert "RESTANTE_MASTER_KEY" in restante.error_line("keys", "rotate", "--at-once")
    assert [key["kid"] for key in restante.json("keys", "list")] == [kid]


def test_lost_master_key_is_replaced_on_request(restante: Restante) -> None:
    restante.json("keys", "rotate")
    folder = DataFolder(restante.data)
    folder.master_key_path.unlink()
    with folder.lock():
        assert "already runs" in restante.error_line("keys", "rotate", "--master-key-lost")
    new = restante.json("keys", "rotate", "--master-key-lost")["kid"]
    assert [key["kid"] for key in restante.json("keys", "list")] == [new]
    restante.ok("keys", "rotate")


def test_present_master_key_is_not_replaced(restante: Restante) -> None:
    kid = restante.json("keys", "rotate")["kid"]
    assert "is not lost" in restante.error_line("keys", "rotate", "--master-key-lost")
    assert [key["kid"] for key in restante.json("keys", "list")] == [kid]
