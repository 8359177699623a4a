"""The master key: seals every secret that the server must be able to read again before it is stored.

The key is in a file that only its owner may read, or in the environment. This module uses no database: signing_keys.py
decides whether a key is the database's, and whether a new one may be made. A sealed value is a version byte, a nonce
and the AES-256-GCM ciphertext. Its purpose is bound to it, so that a value sealed for one purpose cannot be presented
as another. The key itself never appears in an error or a log line.

While the master key changes (`identity/reseal`), a `MasterKey` holds two keys: one seals, both open. Keys that are
derived for a purpose do not change with it: from the first change on they are stored, and given by `with_derived`.
"""

import base64
import binascii
import fcntl
import os
import secrets
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

KEY_BYTES = 32
NONCE_BYTES = 12
VERSION = b"\x01"
VARIABLE = "RESTANTE_MASTER_KEY"
NEXT_VARIABLE = "RESTANTE_MASTER_KEY_NEXT"
KEY_ID_BYTES = 8
NEXT_SUFFIX = ".next"
OLD_SUFFIX = ".old"


class MasterKeyError(Exception):
    """The master key cannot be used: the problem, and its remedy."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(f"{problem}: {remedy}" if remedy else problem)
        self.problem = problem
        self.remedy = remedy


class _Key:
    """One key of 32 bytes. Its id identifies the key and reveals nothing about it."""

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise MasterKeyError(f"the master key must be {KEY_BYTES} bytes")
        self._key = key
        self._cipher = AESGCM(key)
        self.id = self.derive("key id")[:KEY_ID_BYTES].hex()

    def derive(self, purpose: str) -> bytes:
        return HKDF(SHA256(), KEY_BYTES, salt=None, info=b"restante " + purpose.encode()).derive(self._key)

    def seal(self, plain: bytes, purpose: str) -> bytes:
        nonce = secrets.token_bytes(NONCE_BYTES)
        return VERSION + nonce + self._cipher.encrypt(nonce, plain, VERSION + purpose.encode())

    def open(self, sealed: bytes, purpose: str) -> bytes | None:
        """The value; None if this key did not seal it."""
        nonce, ciphertext = sealed[1 : 1 + NONCE_BYTES], sealed[1 + NONCE_BYTES :]
        try:
            return self._cipher.decrypt(nonce, ciphertext, VERSION + purpose.encode())
        except (InvalidTag, ValueError):
            return None


class MasterKey:
    """The first of its keys seals; all of them open."""

    def __init__(self, key: bytes) -> None:
        self._keys: tuple[_Key, ...] = (_Key(key),)
        self._derived: Mapping[str, bytes] = {}

    @property
    def key_id(self) -> str:
        """The id of the key that seals."""
        return self._keys[0].id

    @property
    def key_ids(self) -> list[str]:
        return [key.id for key in self._keys]

    def sealing_with(self, key_id: str, others: Iterable["MasterKey"] = ()) -> "MasterKey":
        """The same keys and those of the others. The named one seals."""
        known = {key.id: key for each in (self, *others) for key in each._keys}
        found = MasterKey.__new__(MasterKey)
        found._keys = (known.pop(key_id), *known.values())
        found._derived = self._derived
        return found

    def with_derived(self, derived: Mapping[str, bytes]) -> "MasterKey":
        """The same keys, with stored keys for these purposes."""
        found = self.sealing_with(self.key_id)
        found._derived = dict(derived)
        return found

    def become(self, other: "MasterKey") -> None:
        """Take over the keys of another one: all parts of the program that hold this object use them from now on."""
        self._keys, self._derived = other._keys, other._derived

    def derive_key(self, purpose: str) -> bytes:
        """A key for one purpose alone: always the same, and it reveals nothing about the master key."""
        return self._derived.get(purpose) or self._keys[0].derive(purpose)

    def seal(self, plain: bytes, purpose: str) -> bytes:
        return self._keys[0].seal(plain, purpose)

    def open(self, sealed: bytes, purpose: str) -> bytes:
        if sealed[:1] != VERSION:
            raise MasterKeyError(f"{purpose}: sealed in a format that this version does not know")
        for key in self._keys:
            plain = key.open(sealed, purpose)
            if plain is not None:
                return plain
        raise MasterKeyError(f"{purpose}: cannot be opened; it was altered, or sealed with another master key")

    def is_current(self, sealed: bytes, purpose: str) -> bool:
        """Whether the key that seals now opens the value."""
        return sealed[:1] == VERSION and self._keys[0].open(sealed, purpose) is not None


@dataclass(frozen=True, slots=True)
class MasterKeySource:
    """Where to find the key: the environment if it has one, else the file. The next key is found in the same way."""

    path: Path
    from_environment: str | None = field(repr=False)
    next_from_environment: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return f"the master key file {self.path}" if self.from_environment is None else f"the key given by {VARIABLE}"

    @property
    def next_path(self) -> Path:
        return self.path.with_name(self.path.name + NEXT_SUFFIX)

    @property
    def next_name(self) -> str:
        """How to name the place of the next key."""
        if self.next_from_environment is None and self.from_environment is None:
            return f"the file {self.next_path}"
        return f"the key given by {NEXT_VARIABLE}"

    def find(self) -> MasterKey | None:
        """The key; None if there is none. Creates nothing."""
        if self.from_environment is not None:
            return MasterKey(_decoded(self.from_environment, str(self)))
        return _found(self.path)

    def find_next(self) -> MasterKey | None:
        """The key of a change; None if there is none."""
        if self.next_from_environment is not None:
            return MasterKey(_decoded(self.next_from_environment, self.next_name))
        return _found(self.next_path)

    def find_all(self) -> list[MasterKey]:
        """The key and the next key, as far as they exist."""
        return [key for key in (self.find(), self.find_next()) if key is not None]

    def make(self) -> MasterKey:
        """The key of the file, which is created if it is missing."""
        return _made(self.path)

    def make_next(self) -> MasterKey:
        """The next key of the file, which is created if it is missing."""
        return _made(self.next_path)

    def promote_next(self, key_id: str) -> Path | None:
        """Put the file of the next key in the place of the key's file, if it has that key.

        The old key is kept beside it; returns its file. None if the key does not come from a file, or is in place.
        Of several processes that do this at once, one does it.
        """
        if self.from_environment is not None or self.next_from_environment is not None:
            return None
        with _locked(self.path.parent):
            key = self.find_next()
            if key is None or key.key_id != key_id:
                return None
            kept = self.path.with_name(self.path.name + OLD_SUFFIX)
            if self.path.exists():
                kept.unlink(missing_ok=True)
                kept.hardlink_to(self.path)
            self.next_path.replace(self.path)
            _flush_folder(self.path.parent)
        return kept


def _decoded(text: str, source: str) -> bytes:
    """32 bytes written as hex or base64, in either alphabet, padded or not."""
    text = text.strip()
    try:
        key = bytes.fromhex(text) if len(text) == 2 * KEY_BYTES else _base64_decoded(text)
    except (ValueError, binascii.Error):
        key = b""
    if len(key) != KEY_BYTES:
        raise MasterKeyError(f"{source} must be {KEY_BYTES} bytes, written as hex or base64")
    return key


def _base64_decoded(text: str) -> bytes:
    text = text.rstrip("=").replace("-", "+").replace("_", "/")
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)


def _read(path: Path) -> bytes:
    with path.open(encoding="ascii", errors="replace") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        if mode & 0o077:
            raise MasterKeyError(
                f"the master key file {path} has mode {mode:04o}, others can reach it",
                f"chmod 600 {path} (and assume that everyone who could read it knows the key)",
            )
        return _decoded(file.read(1024), f"the master key file {path}")


def _found(path: Path) -> MasterKey | None:
    """The key of the file; None if there is no file. Another process may remove it at any time."""
    try:
        return MasterKey(_read(path))
    except FileNotFoundError:
        return None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Exclude other processes and threads that lock the same folder."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _made(path: Path) -> MasterKey:
    if not path.exists():
        _create(path)
    return MasterKey(_read(path))


def _create(path: Path) -> None:
    """Create the file atomically. If two processes try at once, the first one's key is kept."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(KEY_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        _link(draft, path)
    finally:
        draft.unlink()
    _flush_folder(path.parent)


def _link(draft: Path, path: Path) -> None:
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        # Another process was first: its key is kept.
        return


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
