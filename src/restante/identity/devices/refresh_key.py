"""The format of refresh tokens. A token is recognised by its MAC, not by a row in the database.

    rt_<family><counter><mac>      family:  16 random bytes, the same in every token of the family
                                   counter: 8 bytes, one higher with every exchange
                                   mac:     HMAC-SHA256 over both, under a key derived from the master key for this

A token therefore proves by itself whether it is older or newer than the counter that the database stores for its
family. This module does not use the database.

Invariants: `read` accepts only tokens that `write` produced, and each token has one spelling.
"""

import base64
import hashlib
import hmac
from dataclasses import dataclass

from restante.identity.master_key import MasterKey

PREFIX = "rt_"
FAMILY_BYTES = 16
COUNTER_BYTES = 8
MAC_BYTES = 32
PURPOSE = "refresh tokens"


@dataclass(frozen=True, slots=True)
class RefreshTokenParts:
    """The content of an authentic token."""

    family: bytes
    counter: int


class RefreshKey:
    def __init__(self, master: MasterKey) -> None:
        self._key = master.derive_key(PURPOSE)

    def write(self, family: bytes, counter: int) -> str:
        content = family + counter.to_bytes(COUNTER_BYTES, "big")
        mac = hmac.digest(self._key, PURPOSE.encode() + content, hashlib.sha256)
        return PREFIX + base64.urlsafe_b64encode(content + mac).decode().rstrip("=")

    def read(self, token: str) -> RefreshTokenParts | None:
        """The token's content; None if it is not ours. Comparing with a rewritten token checks MAC and spelling."""
        raw = _decoded(token.removeprefix(PREFIX))
        if len(raw) != FAMILY_BYTES + COUNTER_BYTES + MAC_BYTES:
            return None
        family, counter = raw[:FAMILY_BYTES], int.from_bytes(raw[FAMILY_BYTES:-MAC_BYTES], "big")
        is_ours = hmac.compare_digest(self.write(family, counter).encode(), token.encode())
        return RefreshTokenParts(family, counter) if is_ours else None


def _decoded(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text.encode("ascii") + b"=")
    except ValueError:
        return b""
