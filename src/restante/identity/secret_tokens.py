"""Random tokens that callers keep and present, and the digests that the database stores instead.

A token has at least 128 bits of randomness, so a plain SHA-256 is enough: it cannot be guessed, and there is no
password to stretch.
"""

import hashlib
import secrets

TOKEN_BYTES = 32


def make(prefix: str = "") -> str:
    return prefix + secrets.token_urlsafe(TOKEN_BYTES)


def digest(token: str) -> bytes:
    """The digest to store and to search for. Accepts any text: an unknown caller may send invalid Unicode."""
    return digest_bytes(token.encode("utf-8", "surrogatepass"))


def digest_bytes(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
