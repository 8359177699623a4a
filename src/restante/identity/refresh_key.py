"""How a refresh token is written, and how one of ours is known: by its MAC, not by what the database holds.

    rt_<family><counter><mac>      family:  16 random bytes, the same in every token of the family
                                   counter: 8 bytes, one higher with every exchange
                                   mac:     HMAC-SHA256 over both, under a key made of the master key for this alone

So a token says by itself, and beyond doubt, whether it is older or newer than what the database remembers of its
family. This module knows nothing of the database. Must always hold: what was not written here is not read here, and
each token has one spelling.
"""

import base64
import hashlib
import hmac
from typing import NamedTuple

from restante.identity.master_key import MasterKey

PREFIX = "rt_"
FAMILY_BYTES = 16
COUNTER_BYTES = 8
MAC_BYTES = 32
PURPOSE = "refresh tokens"


class Shown(NamedTuple):
    """What an authentic token says."""

    family: bytes
    counter: int


class RefreshKey:
    def __init__(self, master: MasterKey) -> None:
        self._key = master.derived(PURPOSE)

    def write(self, family: bytes, counter: int) -> str:
        said = family + counter.to_bytes(COUNTER_BYTES, "big")
        mac = hmac.digest(self._key, PURPOSE.encode() + said, hashlib.sha256)
        return PREFIX + base64.urlsafe_b64encode(said + mac).decode().rstrip("=")

    def read(self, token: str) -> Shown | None:
        """What the token says; None if it is not ours. Writing it anew tells both at once, MAC and spelling."""
        raw = _decoded(token.removeprefix(PREFIX))
        if len(raw) != FAMILY_BYTES + COUNTER_BYTES + MAC_BYTES:
            return None
        family, counter = raw[:FAMILY_BYTES], int.from_bytes(raw[FAMILY_BYTES:-MAC_BYTES], "big")
        is_ours = hmac.compare_digest(self.write(family, counter).encode(), token.encode())
        return Shown(family, counter) if is_ours else None


def _decoded(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text.encode("ascii") + b"=")
    except ValueError:
        return b""
