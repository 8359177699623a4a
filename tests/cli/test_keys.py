import pytest

from restante.server.data_folder import DataFolder
from tests.cli.conftest import Restante


def test_a_new_key_signs_and_the_old_one_still_verifies(restante: Restante) -> None:
    assert restante.json("keys", "list") == []
    first = restante.json("keys", "rotate")["kid"]
    second = restante.json("keys", "rotate")["kid"]
    keys = restante.json("keys", "list")
    assert [key["kid"] for key in keys] == [second, first]
    assert keys[0]["verifies_until"] is None
    assert keys[1]["verifies_until"] is not None
    assert second in restante.ok("keys", "list")


def test_a_leaked_key_verifies_nothing_any_more(restante: Restante) -> None:
    restante.json("keys", "rotate")
    second = restante.json("keys", "rotate", "--at-once")["kid"]
    assert [key["kid"] for key in restante.json("keys", "list")] == [second]


def test_nothing_is_rotated_under_a_lost_or_foreign_master_key(
    restante: Restante, monkeypatch: pytest.MonkeyPatch
) -> None:
    kid = restante.json("keys", "rotate")["kid"]
    path = DataFolder(restante.data).master_key_path
    path.unlink()
    assert str(path) in restante.complaint("keys", "rotate")
    assert not path.exists()
    monkeypatch.setenv("RESTANTE_MASTER_KEY", "ab" * 32)
    assert "RESTANTE_MASTER_KEY" in restante.complaint("keys", "rotate", "--at-once")
    assert [key["kid"] for key in restante.json("keys", "list")] == [kid]


def test_a_master_key_lost_for_good_is_replaced_when_that_is_said(restante: Restante) -> None:
    restante.json("keys", "rotate")
    folder = DataFolder(restante.data)
    folder.master_key_path.unlink()
    with folder.lock():
        assert "already runs" in restante.complaint("keys", "rotate", "--master-key-lost")
    new = restante.json("keys", "rotate", "--master-key-lost")["kid"]
    assert [key["kid"] for key in restante.json("keys", "list")] == [new]
    restante.ok("keys", "rotate")


def test_a_master_key_that_is_not_lost_is_not_given_up(restante: Restante) -> None:
    kid = restante.json("keys", "rotate")["kid"]
    assert "is not lost" in restante.complaint("keys", "rotate", "--master-key-lost")
    assert [key["kid"] for key in restante.json("keys", "list")] == [kid]
