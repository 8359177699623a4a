import base64
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from restante.identity.master_key import MasterKey, MasterKeyError

KEY = bytes(range(32))


def test_what_was_sealed_is_opened() -> None:
    master = MasterKey(KEY)
    sealed = master.seal(b"plain", "a purpose")
    assert b"plain" not in sealed
    assert sealed[0] == 1
    assert master.open(sealed, "a purpose") == b"plain"


def test_sealing_twice_gives_different_bytes() -> None:
    master = MasterKey(KEY)
    assert master.seal(b"plain", "x") != master.seal(b"plain", "x")


@pytest.mark.parametrize("flipped", [1, 12, 13, -1])
def test_an_altered_byte_is_noticed(flipped: int) -> None:
    sealed = bytearray(MasterKey(KEY).seal(b"plain", "x"))
    sealed[flipped] ^= 1
    with pytest.raises(MasterKeyError, match="altered"):
        MasterKey(KEY).open(bytes(sealed), "x")


def test_another_purpose_another_key_or_another_version_opens_nothing() -> None:
    sealed = MasterKey(KEY).seal(b"plain", "x")
    with pytest.raises(MasterKeyError):
        MasterKey(KEY).open(sealed, "y")
    with pytest.raises(MasterKeyError):
        MasterKey(bytes(32)).open(sealed, "x")
    with pytest.raises(MasterKeyError, match="does not know"):
        MasterKey(KEY).open(b"\x02" + sealed[1:], "x")
    for short in (b"", b"\x01", sealed[:13], sealed[:20]):
        with pytest.raises(MasterKeyError):
            MasterKey(KEY).open(short, "x")


def test_the_file_is_made_once_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "new" / "master.key"
    sealed = MasterKey.load(path, None).seal(b"plain", "x")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["master.key"]
    assert MasterKey.load(path, None).open(sealed, "x") == b"plain"


def test_processes_that_start_at_once_agree_on_one_key(tmp_path: Path) -> None:
    path = tmp_path / "master.key"
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(lambda _: MasterKey.load(path, None), range(32)))
    sealed = keys[0].seal(b"plain", "x")
    assert all(key.open(sealed, "x") == b"plain" for key in keys)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620])
def test_a_file_that_others_reach_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "master.key"
    MasterKey.load(path, None)
    path.chmod(mode)
    with pytest.raises(MasterKeyError) as refused:
        MasterKey.load(path, None)
    assert str(path) in str(refused.value)
    assert "chmod 600" in str(refused.value)


@pytest.mark.parametrize(
    "text",
    [
        KEY.hex(),
        KEY.hex().upper() + "\n",
        base64.b64encode(KEY).decode(),
        base64.b64encode(KEY).decode().rstrip("="),
        base64.urlsafe_b64encode(b"\xff" * 32).decode(),
    ],
)
def test_the_environment_wins_and_makes_no_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "master.key"
    key = b"\xff" * 32 if "_" in text else KEY
    assert MasterKey.load(path, text).open(MasterKey(key).seal(b"plain", "x"), "x") == b"plain"
    assert not path.exists()


@pytest.mark.parametrize("text", ["", "secret-but-wrong", "ab" * 31, "zz" * 32, base64.b64encode(bytes(33)).decode()])
def test_a_key_that_is_none_is_refused_without_being_repeated(tmp_path: Path, text: str) -> None:
    with pytest.raises(MasterKeyError) as refused:
        MasterKey.load(tmp_path / "master.key", text)
    assert "environment" in str(refused.value)
    assert not text or text not in str(refused.value)


def test_a_damaged_file_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "master.key"
    path.write_text("not a key")
    path.chmod(0o600)
    with pytest.raises(MasterKeyError, match=r"master\.key"):
        MasterKey.load(path, None)
