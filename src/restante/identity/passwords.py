"""Passwords: argon2id, and the same work for a person we do not know.

Hashing takes a tenth of a second and 64 MiB on purpose, so none of this belongs inside a transaction or on
the event loop's thread.
"""

import base64

from argon2 import PasswordHasher, Type
from argon2.exceptions import InvalidHashError, VerificationError

from restante.core.errors import BadInput

LENGTH_MIN = 10
LENGTH_MAX = 1024

_MEMORY_KIB = 64 * 1024
_PASSES = 2
_LANES = 1
_SALT_BYTES = 16
_HASH_BYTES = 32

_hasher = PasswordHasher(
    time_cost=_PASSES,
    memory_cost=_MEMORY_KIB,
    parallelism=_LANES,
    hash_len=_HASH_BYTES,
    salt_len=_SALT_BYTES,
    type=Type.ID,
)


def _unpadded(value: bytes) -> str:
    return base64.b64encode(value).decode().rstrip("=")


# No password is known that hashes to this. It costs as much to verify against as a real one.
NOBODYS_HASH = (
    f"$argon2id$v=19$m={_MEMORY_KIB},t={_PASSES},p={_LANES}"
    f"${_unpadded(bytes(_SALT_BYTES))}${_unpadded(bytes(_HASH_BYTES))}"
)


def check_new(password: str) -> None:
    """BadInput if this may not become somebody's password."""
    if not LENGTH_MIN <= len(password) <= LENGTH_MAX:
        raise BadInput("password", f"{LENGTH_MIN} to {LENGTH_MAX} characters")


def hash_password(password: str) -> str:
    return _hasher.hash(password)


def is_right(password_hash: str | None, password: str) -> bool:
    """Whether this is the password. Without a hash it never is, and that takes as long to find out."""
    try:
        return _hasher.verify(password_hash or NOBODYS_HASH, password) and password_hash is not None
    except (VerificationError, InvalidHashError):
        return False
