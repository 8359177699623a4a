"""The master key: seals every secret that the server must be able to read again before it is stored.

The key is in a file that only its owner may read, or in the environment. This module knows no database: signing_keys.py
decides whether a key is the database's, and whether a new one may be made. A sealed value is a version byte, a nonce
and the AES-256-GCM ciphertext. Its purpose is bound to it, so that a value sealed for one purpose cannot be presented
as another. The key itself never appears in an error or a log line.
"""

import base64
import binascii
import os
import secrets
import stat
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


class MasterKeyError(Exception):
    """The master key cannot be used: the problem, and its remedy."""

    def __init__(self, problem: str, remedy: str = "") -> None:
        super().__init__(f"{problem}: {remedy}" if remedy else problem)
        self.problem = problem
        self.remedy = remedy


class MasterKey:
    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise MasterKeyError(f"the master key must be {KEY_BYTES} bytes")
        self._key = key
        self._cipher = AESGCM(key)

    def derive_key(self, purpose: str) -> bytes:
        """A key for one purpose alone: always the same, and it reveals nothing about the master key."""
        return HKDF(SHA256(), KEY_BYTES, salt=None, info=b"restante " + purpose.encode()).derive(self._key)

    def seal(self, plain: bytes, purpose: str) -> bytes:
        nonce = secrets.token_bytes(NONCE_BYTES)
        return VERSION + nonce + self._cipher.encrypt(nonce, plain, VERSION + purpose.encode())

    def open(self, sealed: bytes, purpose: str) -> bytes:
        if sealed[:1] != VERSION:
            raise MasterKeyError(f"{purpose}: sealed in a format that this version does not know")
        nonce, ciphertext = sealed[1 : 1 + NONCE_BYTES], sealed[1 + NONCE_BYTES :]
        try:
            return self._cipher.decrypt(nonce, ciphertext, VERSION + purpose.encode())
        except (InvalidTag, ValueError):
            raise MasterKeyError(
                f"{purpose}: cannot be opened; it was altered, or sealed with another master key"
            ) from None


@dataclass(frozen=True, slots=True)
class MasterKeySource:
    """Where to find the key: the environment if it has one, else the file."""

    path: Path
    from_environment: str | None = field(repr=False)

    def __str__(self) -> str:
        return f"the master key file {self.path}" if self.from_environment is None else f"the key given by {VARIABLE}"

    def find(self) -> MasterKey | None:
        """The key; None if there is none. Creates nothing."""
        if self.from_environment is not None:
            return MasterKey(_decoded(self.from_environment, str(self)))
        return MasterKey(_read(self.path)) if self.path.exists() else None

    def make(self) -> MasterKey:
        """The key of the file, which is created if it is missing."""
        if not self.path.exists():
            _create(self.path)
        return MasterKey(_read(self.path))


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
