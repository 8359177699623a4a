import base64
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from restante.identity.master_key import MasterKey, MasterKeyError, MasterKeySource

KEY = bytes(range(32))


def test_sealed_value_is_opened() -> None:
    master = MasterKey(KEY)
    sealed = master.seal(b"plain", "a purpose")
    assert b"plain" not in sealed
    assert sealed[0] == 1
    assert master.open(sealed, "a purpose") == b"plain"


def test_sealing_twice_gives_different_bytes() -> None:
    master = MasterKey(KEY)
    assert master.seal(b"plain", "x") != master.seal(b"plain", "x")


@pytest.mark.parametrize("flipped", [1, 12, 13, -1])
def test_altered_value_is_refused(flipped: int) -> None:
    sealed = bytearray(MasterKey(KEY).seal(b"plain", "x"))
    sealed[flipped] ^= 1
    with pytest.raises(MasterKeyError, match="altered"):
        MasterKey(KEY).open(bytes(sealed), "x")


def test_other_purpose_key_or_version_is_refused() -> None:
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


def test_file_is_created_on_request_and_found_again(tmp_path: Path) -> None:
    source = MasterKeySource(tmp_path / "new" / "master.key", None)
    assert source.find() is None
    assert list(tmp_path.iterdir()) == []
    sealed = source.make().seal(b"plain", "x")
    assert stat.S_IMODE(source.path.stat().st_mode) == 0o600
    assert [file.name for file in source.path.parent.iterdir()] == ["master.key"]
    found = source.find()
    assert found is not None
    assert found.open(sealed, "x") == source.make().open(sealed, "x") == b"plain"


def test_concurrent_creation_yields_one_key(tmp_path: Path) -> None:
    source = MasterKeySource(tmp_path / "master.key", None)
    with ThreadPoolExecutor(8) as pool:
        keys = list(pool.map(lambda _: source.make(), range(32)))
    sealed = keys[0].seal(b"plain", "x")
    assert all(key.open(sealed, "x") == b"plain" for key in keys)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620])
def test_file_that_others_can_reach_is_refused(tmp_path: Path, mode: int) -> None:
    source = MasterKeySource(tmp_path / "master.key", None)
    source.make()
    source.path.chmod(mode)
    with pytest.raises(MasterKeyError) as refused:
        source.find()
    assert str(source.path) in refused.value.problem
    assert refused.value.remedy.startswith(f"chmod 600 {source.path}")


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
def test_environment_takes_precedence_over_the_file(tmp_path: Path, text: str) -> None:
    source = MasterKeySource(tmp_path / "master.key", text)
    source.make()
    key = b"\xff" * 32 if "_" in text else KEY
    found = source.find()
    assert found is not None
    assert found.open(MasterKey(key).seal(b"plain", "x"), "x") == b"plain"


@pytest.mark.parametrize("text", ["", "secret-but-wrong", "ab" * 31, "zz" * 32, base64.b64encode(bytes(33)).decode()])
def test_invalid_key_is_refused_and_not_shown(tmp_path: Path, text: str) -> None:
    source = MasterKeySource(tmp_path / "master.key", text)
    with pytest.raises(MasterKeyError) as refused:
        source.find()
    assert "RESTANTE_MASTER_KEY" in str(refused.value)
    assert not text or text not in f"{refused.value} {source!r} {source}"


def test_damaged_file_is_refused_and_named(tmp_path: Path) -> None:
    source = MasterKeySource(tmp_path / "master.key", None)
    source.path.write_text("not a key")
    source.path.chmod(0o600)
    with pytest.raises(MasterKeyError, match=r"master\.key"):
        source.find()


def test_error_text_is_problem_and_remedy_in_one_line() -> None:
    assert str(MasterKeyError("it is lost", "look for it")) == "it is lost: look for it"
    assert str(MasterKeyError("it is lost")) == "it is lost"


def test_derived_key_depends_on_key_and_purpose() -> None:
    key, other = MasterKey(bytes(32)), MasterKey(bytes([1] * 32))
    assert key.derive_key("audit") == MasterKey(bytes(32)).derive_key("audit")
    assert len({bytes(32), key.derive_key("audit"), key.derive_key("else"), other.derive_key("audit")}) == 4
    assert len(key.derive_key("audit")) == 32


def test_one_of_several_promotions_at_once_is_done_and_the_old_key_is_kept(tmp_path: Path) -> None:
    for number in range(50):
        source = MasterKeySource(tmp_path / str(number) / "master.key", None)
        old, new = source.make(), source.make_next()
        with ThreadPoolExecutor(4) as threads:
            kept = list(threads.map(source.promote_next, [new.key_id] * 4))
        done = [path for path in kept if path is not None]
        assert len(done) == 1
        assert MasterKeySource(done[0], None).find_all()[0].key_id == old.key_id
        assert [key.key_id for key in source.find_all()] == [new.key_id]
