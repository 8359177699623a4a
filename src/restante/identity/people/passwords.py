"""Passwords: argon2id, and the same work for an unknown person.

Hashing takes a tenth of a second and 64 MiB on purpose. Never hash inside a transaction or on the event loop's thread.
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


# No known password has this hash. Verifying against it costs as much as against a real one.
DUMMY_HASH = (
    f"$argon2id$v=19$m={_MEMORY_KIB},t={_PASSES},p={_LANES}"
    f"${_unpadded(bytes(_SALT_BYTES))}${_unpadded(bytes(_HASH_BYTES))}"
)


def check_new(password: str) -> None:
    """Raises BadInput if the text may not become a password."""
    if not LENGTH_MIN <= len(password) <= LENGTH_MAX:
        raise BadInput("password", f"{LENGTH_MIN} to {LENGTH_MAX} characters")


def hash_password(password: str) -> str:
    return _hasher.hash(password)


def is_correct(password_hash: str | None, password: str) -> bool:
    """Whether the password has this hash. Without a hash the result is False after the same amount of work."""
    try:
        return _hasher.verify(password_hash or DUMMY_HASH, password) and password_hash is not None
    except (VerificationError, InvalidHashError):
        return False
