"""The memo of device tokens: a poll costs one lookup instead of a signature check and a database read.

Every hit was verified, has not expired, and its device has not been revoked since by this process. Revocations by other
processes empty the memo (`forget_all`, see token_memo.py).

A token is not stored. Its key is its end, a part of its signature, and the 64-bit hash that Python computes of all of
it with a secret key. A caller who can send the end of a signature has that token and gains nothing by altering the
rest, and the hash detects altered tokens. See decision 0231 for why this is no digest.

Nothing searches for the tokens of a revoked device. Its id goes into a small table that every hit is checked against;
the id leaves the table once every token that the memo could have held has expired.
"""

import struct

from restante.identity.callers import DeviceCaller
from restante.identity.token_memo import TokenMemo

_REVOKED_CHECK_MIN = 1024
# Characters of base64url, so 234 bits that cannot be guessed. One more would take 16 bytes more for each token.
_END = 39
_key = struct.Struct(f"<{_END}sq").pack


class DeviceTokenMemo(TokenMemo[DeviceCaller, DeviceCaller]):
    """Any thread may call `forget_device` and `forget_all`; the rest runs on the event loop's thread."""

    def __init__(self, entries_max: int, longest_seconds: float) -> None:
        super().__init__(entries_max)
        self._longest_seconds = longest_seconds
        self._revoked: dict[int, float] = {}
        self._revoked_check_at = _REVOKED_CHECK_MIN

    def find(self, token: bytes, now: float) -> DeviceCaller | None:
        caller = self._entries.get(_key(token[-_END:], hash(token)))
        # By position, which is cheaper than by name: expires_at and device_id.
        if caller is None or caller[2] <= now or caller[0] in self._revoked:
            return None
        return caller

    def keep(self, token: bytes, caller: DeviceCaller, until: float, generation: int) -> None:  # noqa: ARG002
        """Keep the caller until its own `expires_at`. `until` repeats it: a million entries need no second copy."""
        self._put(_key(token[-_END:], hash(token)), caller, generation)

    def forget_device(self, device_id: int, now: float) -> None:
        with self._forgetting:
            self._revoked[device_id] = now + self._longest_seconds
            if len(self._revoked) >= self._revoked_check_at:
                self._revoked = {device: until for device, until in self._revoked.items() if until > now}
                self._revoked_check_at = max(_REVOKED_CHECK_MIN, 2 * len(self._revoked))
