"""The master key: whatever is secret and must be read again is sealed with it before it is stored.

It lies in a file that is made on first use and that only its owner may read, or is given by the
environment. A sealed value is a version byte, a nonce and AES-256-GCM's ciphertext; its purpose is bound to
it, so that what was sealed as one thing cannot be passed off as another. The key itself never appears in an
error or a log line.
"""

import base64
import binascii
import os
import secrets
import stat
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
NONCE_BYTES = 12
VERSION = b"\x01"


class MasterKeyError(Exception):
    """The master key cannot be used."""


class MasterKey:
    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise MasterKeyError(f"the master key must be {KEY_BYTES} bytes")
        self._cipher = AESGCM(key)

    @classmethod
    def load(cls, path: Path, from_environment: str | None) -> "MasterKey":
        """The environment's key if there is one, else the file's, which is made if there is none."""
        if from_environment is not None:
            return cls(_decoded(from_environment, "the master key given by the environment"))
        if not path.exists():
            _create(path)
        return cls(_read(path))

    def seal(self, plain: bytes, purpose: str) -> bytes:
        nonce = secrets.token_bytes(NONCE_BYTES)
        return VERSION + nonce + self._cipher.encrypt(nonce, plain, VERSION + purpose.encode())

    def open(self, sealed: bytes, purpose: str) -> bytes:
        if sealed[:1] != VERSION:
            raise MasterKeyError(f"{purpose}: sealed in a way this version does not know")
        nonce, ciphertext = sealed[1 : 1 + NONCE_BYTES], sealed[1 + NONCE_BYTES :]
        try:
            return self._cipher.decrypt(nonce, ciphertext, VERSION + purpose.encode())
        except (InvalidTag, ValueError):
            raise MasterKeyError(
                f"{purpose}: cannot be opened; it was altered, or sealed with another master key"
            ) from None


def _decoded(text: str, source: str) -> bytes:
    """32 bytes written as hex or as base64, of either alphabet, padded or not."""
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
                f"the master key file {path} has mode {mode:04o}: others can reach it. "
                f"Run: chmod 600 {path} (and consider the key known to whoever could read it)"
            )
        return _decoded(file.read(1024), f"the master key file {path}")


def _create(path: Path) -> None:
    """Make the file whole or not at all; where two processes try at once, the first one's key is the key."""
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
        # Another process was first: its key counts.
        return


def _flush_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
