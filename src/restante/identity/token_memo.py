"""Verified tokens kept in memory, so that a known token costs one lookup and no database read.

`TokenMemo` is the bounded map from tokens to callers. `VerifiedTokens` is the part that devices, collectors and clients
of event polling share: read the memo, else verify the token and keep its caller; empty the memo when the revocation
counter has changed. How a token is verified is the subclass's decision.

    token ──▶ memo ──hit──▶ caller
               └──miss──▶ _look_up (signature, database) ──▶ caller, kept in the memo

Invariants:
- A token enters the memo only after the database has confirmed its owner, and not if the memo was emptied since that
  read began: the read may not have seen the revocation (`generation`).
- A revocation empties the whole memo. Each caller then costs one database read, and nothing searches for the tokens of
  one owner. Devices are too many for that: see devices/device_token_memo.py.
- The event loop's thread reads and fills the memo. Any thread may call `forget_all`.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import islice
from typing import Generic, TypeVar

from restante.database.database import Database
from restante.identity import revocation_counter

C = TypeVar("C")  # the caller that a token names
E = TypeVar("E")  # a memo's entry for a caller

ENTRIES_MAX = 100_000


class TokenMemo(ABC, Generic[C, E]):
    def __init__(self, entries_max: int = ENTRIES_MAX) -> None:
        self._entries_max = entries_max
        # By token, or by what stands for it.
        self._entries: dict[bytes, E] = {}
        self._forgetting = threading.Lock()
        self.generation = 0

    @abstractmethod
    def find(self, token: bytes, now: float) -> C | None:
        """The caller that the token names, None if the memo does not know or no longer counts it."""

    @abstractmethod
    def keep(self, token: bytes, caller: C, until: float, generation: int) -> None:
        """Keep a caller that was looked up in this generation until that time."""

    def forget_all(self) -> None:
        with self._forgetting:
            self.generation += 1
            self._entries = {}

    def __len__(self) -> int:
        return len(self._entries)

    def _put(self, key: bytes, entry: E, generation: int) -> None:
        # Read before the check: if another thread empties the memo after the check, it drops this dictionary.
        entries = self._entries
        if generation != self.generation or not self._entries_max:
            return
        if len(entries) >= self._entries_max:
            # In bulk, because finding the first entry of a dictionary walks over all deleted before it.
            for oldest in list(islice(entries, max(1, self._entries_max // 64))):
                del entries[oldest]
        entries[key] = entry


class ExpiringTokenMemo(TokenMemo[C, tuple[C, float]]):
    def find(self, token: bytes, now: float) -> C | None:
        found = self._entries.get(token)
        return found[0] if found is not None and now < found[1] else None

    def keep(self, token: bytes, caller: C, until: float, generation: int) -> None:
        self._put(token, (caller, until), generation)


class VerifiedTokens(ABC, Generic[C, E]):
    def __init__(self, database: Database, memo: TokenMemo[C, E], clock: Callable[[], float]) -> None:
        self._database = database
        self._memo = memo
        self._clock = clock
        self._revision = -1
        # Bound once: fast lanes call it per poll, and a method around it would cost one call more.
        self.cached: Callable[[bytes, float], C | None] = memo.find

    @property
    def cached_count(self) -> int:
        return len(self._memo)

    def remember(self, token: bytes, caller: C, until: float) -> None:
        """Keep a token that was verified elsewhere (benchmarks and tests); the server itself verifies."""
        self._memo.keep(token, caller, until, self._memo.generation)

    def forget_all(self) -> None:
        self._memo.forget_all()

    async def catch_up(self) -> None:
        """Empty the memo if any process has revoked access since the last call."""
        revision = await self._database.read(revocation_counter.current)
        if revision != self._revision:
            # Before the reload, which may fail; and after it, because tokens were verified with the old keys meanwhile.
            self.forget_all()
            await self._reload()
            self.forget_all()
            self._revision = revision

    async def _verify(self, token: str) -> C:
        now = self._clock()
        raw = token.encode("utf-8", "surrogatepass")
        caller = self.cached(raw, now)
        if caller is None:
            generation = self._memo.generation
            caller, until = await self._look_up(raw, now)
            self._memo.keep(raw, caller, until, generation)
        return caller

    @abstractmethod
    async def _look_up(self, token: bytes, now: float) -> tuple[C, float]:
        """The caller, and until when it may be kept; raises NotAuthenticated or NotAllowed if the token is refused."""

    async def _reload(self) -> None:
        """Read again what a revocation may have changed besides callers."""
        return
