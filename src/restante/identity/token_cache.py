"""Verified tokens, remembered: a poll costs one lookup instead of a signature check and a database read.

Holds for every hit: the token was verified, has not expired, and its device has not been revoked since by
this process. What another process revokes is the business of whoever calls `forget_all`.

A revoked device's tokens are not searched for: its id is put into a small table that every hit is checked
against, and which may forget the id once every token that could have been remembered has expired.
"""

import threading
from itertools import islice

from restante.identity.callers import DeviceCaller

_REVOKED_CHECK_MIN = 1024


class TokenCache:
    """Read on the event loop's thread; `forget_device` and `forget_all` may be called from any."""

    def __init__(self, entries_max: int, longest_seconds: float) -> None:
        self._entries_max = entries_max
        self._longest_seconds = longest_seconds
        self._callers: dict[bytes, DeviceCaller] = {}
        self._revoked: dict[int, float] = {}
        self._revoked_check_at = _REVOKED_CHECK_MIN
        self._forgetting = threading.Lock()
        self.generation = 0

    def find(self, token: bytes, now: float) -> DeviceCaller | None:
        caller = self._callers.get(token)
        if caller is None or caller[2] <= now or caller[0] in self._revoked:
            return None
        return caller

    def keep(self, token: bytes, caller: DeviceCaller, generation: int) -> None:
        """Remember, unless everything was forgotten since the generation the caller was looked up in."""
        # Taken before the check: what is forgotten after it is then this dictionary, with the entry in it.
        callers = self._callers
        if generation != self.generation or not self._entries_max:
            return
        if len(callers) >= self._entries_max:
            self._throw_out_oldest(callers)
        callers[token] = caller

    def forget_device(self, device_id: int, now: float) -> None:
        with self._forgetting:
            self._revoked[device_id] = now + self._longest_seconds
            if len(self._revoked) >= self._revoked_check_at:
                self._revoked = {device: until for device, until in self._revoked.items() if until > now}
                self._revoked_check_at = max(_REVOKED_CHECK_MIN, 2 * len(self._revoked))

    def forget_all(self) -> None:
        with self._forgetting:
            self.generation += 1
            self._callers = {}

    def __len__(self) -> int:
        return len(self._callers)

    def _throw_out_oldest(self, callers: dict[bytes, DeviceCaller]) -> None:
        # In bulk, because finding the first entry of a dictionary walks over all deleted before it.
        for token in list(islice(callers, max(1, self._entries_max // 64))):
            del callers[token]
