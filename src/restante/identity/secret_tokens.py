"""Random tokens that callers keep and show again, and the digest that we keep instead of them.

They are 128 bits of randomness or more, so a plain SHA-256 is enough: there is nothing to guess, and no
password to stretch.
"""

import hashlib
import secrets

TOKEN_BYTES = 32


def make(prefix: str = "") -> str:
    return prefix + secrets.token_urlsafe(TOKEN_BYTES)


def digest(token: str) -> bytes:
    """What is stored and looked up. Takes any text: what a stranger sends need not even be valid Unicode."""
    return digest_bytes(token.encode("utf-8", "surrogatepass"))


def digest_bytes(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
