"""Collectors' tokens: `ed_…`, shown once, kept as digests, remembered for a while once they were verified.

Must always hold: everything remembered goes the moment this process ends any collector's token, or another process
has taken away access.
"""

import time
from collections.abc import Callable

from restante.core.errors import NotAuthenticated
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import queries_beside
from restante.identity import revisions, secret_tokens
from restante.identity.callers import CollectorCaller
from restante.identity.remembered import ENTRIES_MAX, Remembered

SQL = queries_beside(__file__)

PREFIX = "ed_"
# How long a token is believed without a further look.
REMEMBER_SECONDS = 300.0
TOKEN_LENGTH_MAX = 256


def make() -> str:
    return secret_tokens.make(PREFIX)


def find(conn: Connection, token: str) -> CollectorCaller | None:
    """Whose token it is, unless it was revoked."""
    if not token.startswith(PREFIX) or len(token) > TOKEN_LENGTH_MAX:
        return None
    token_hash = secret_tokens.digest(token)
    row = conn.one(SQL.find_collector, token_hash=token_hash)
    return CollectorCaller(row["id"], row["site_id"], row["zone_id"], token_hash) if row else None


class CollectorTokens:
    """Used on the event loop's thread."""

    def __init__(
        self,
        database: Database,
        *,
        entries_max: int = ENTRIES_MAX,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._clock = clock
        self._remembered: Remembered[CollectorCaller] = Remembered(entries_max)
        self._revision = -1
        self.cached = self._remembered.find

    async def verify(self, token: str) -> CollectorCaller:
        """Who is calling; NotAuthenticated if nobody we know."""
        now = self._clock()
        raw = token.encode("utf-8", "surrogatepass")
        caller = self.cached(raw, now)
        if caller is not None:
            return caller
        generation = self._remembered.generation
        caller = await self._database.read(find, token)
        if caller is None:
            raise NotAuthenticated("the collector's token is not known or was revoked")
        self._remembered.keep(raw, caller, now + REMEMBER_SECONDS, generation)
        return caller

    async def catch_up(self) -> None:
        """Forget everything, if access was taken away since the last time."""
        revision = await self._database.read(revisions.current)
        if revision != self._revision:
            self.forget_all()
            self._revision = revision

    def forget_all(self) -> None:
        self._remembered.forget_all()

    @property
    def cached_count(self) -> int:
        return len(self._remembered)
