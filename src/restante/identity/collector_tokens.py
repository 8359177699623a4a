"""Collectors' tokens: `ed_…`, shown once, kept as digests, remembered for a while once they were verified.

Must always hold: a token enters the memory only after the database has said that its collector is not revoked, and
everything remembered goes the moment this process ends any collector's token, or another process has taken away
access. That costs each collector one look into the database, and spares searching for whose token it was.
"""

import time
from collections.abc import Callable
from itertools import islice

from restante.core.errors import NotAuthenticated
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import queries_beside
from restante.identity import revisions, secret_tokens
from restante.identity.callers import CollectorCaller

SQL = queries_beside(__file__)

PREFIX = "ed_"
CACHE_ENTRIES_MAX = 100_000
# How long a token is believed without a further look.
REMEMBER_SECONDS = 300.0
TOKEN_LENGTH_MAX = 256


def make() -> str:
    return secret_tokens.make(PREFIX)


def find(conn: Connection, token: str) -> CollectorCaller | None:
    """Whose token it is, unless it was revoked."""
    if not token.startswith(PREFIX) or len(token) > TOKEN_LENGTH_MAX:
        return None
    row = conn.one(SQL.find_collector, token_hash=secret_tokens.digest(token))
    return CollectorCaller(row["id"], row["site_id"], row["zone_id"]) if row else None


class CollectorTokens:
    """Used on the event loop's thread."""

    def __init__(
        self,
        database: Database,
        *,
        entries_max: int = CACHE_ENTRIES_MAX,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._entries_max = entries_max
        self._clock = clock
        self._remembered: dict[bytes, tuple[CollectorCaller, float]] = {}
        self._generation = 0
        self._revision = -1

    def cached(self, token: bytes, now: float) -> CollectorCaller | None:
        found = self._remembered.get(token)
        return found[0] if found is not None and now < found[1] else None

    async def verify(self, token: str) -> CollectorCaller:
        """Who is calling; NotAuthenticated if nobody we know."""
        now = self._clock()
        raw = token.encode("utf-8", "surrogatepass")
        caller = self.cached(raw, now)
        if caller is not None:
            return caller
        generation = self._generation
        caller = await self._database.read(find, token)
        if caller is None:
            raise NotAuthenticated("the collector's token is not known or was revoked")
        self._keep(raw, caller, now, generation)
        return caller

    async def catch_up(self) -> None:
        """Forget everything, if access was taken away since the last time."""
        revision = await self._database.read(revisions.current)
        if revision != self._revision:
            self.forget_all()
            self._revision = revision

    def forget_all(self) -> None:
        self._generation += 1
        self._remembered = {}

    @property
    def cached_count(self) -> int:
        return len(self._remembered)

    def _keep(self, token: bytes, caller: CollectorCaller, now: float, generation: int) -> None:
        """Remember, unless everything was forgotten since the caller was looked up."""
        if generation != self._generation or not self._entries_max:
            return
        if len(self._remembered) >= self._entries_max:
            for oldest in list(islice(self._remembered, max(1, self._entries_max // 64))):
                del self._remembered[oldest]
        self._remembered[token] = (caller, now + REMEMBER_SECONDS)
