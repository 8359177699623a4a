"""Tokens of collectors: `ed_…`, shown once, stored as digests, kept in memory for a while once verified.

Invariant: the memory is emptied when this process revokes any collector's token, and when another process has revoked
access (see token_memo.py).
"""

import time
from collections.abc import Callable

from restante.core.errors import InvalidToken
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import queries_beside
from restante.identity import secret_tokens
from restante.identity.callers import CollectorCaller
from restante.identity.token_memo import ENTRIES_MAX, ExpiringTokenMemo, VerifiedTokens

SQL = queries_beside(__file__)

PREFIX = "ed_"
# How long a verified token is accepted without another database read.
CACHE_SECONDS = 300.0
TOKEN_LENGTH_MAX = 256


def make() -> str:
    return secret_tokens.make(PREFIX)


def find(conn: Connection, token: str) -> CollectorCaller | None:
    """The collector whose token this is, unless the token was revoked."""
    if not token.startswith(PREFIX) or len(token) > TOKEN_LENGTH_MAX:
        return None
    token_hash = secret_tokens.digest(token)
    row = conn.one(SQL.find_collector, token_hash=token_hash)
    return CollectorCaller(row["id"], row["site_id"], row["zone_id"], token_hash) if row else None


class CollectorTokens(VerifiedTokens[CollectorCaller, tuple[CollectorCaller, float]]):
    """Used on the event loop's thread."""

    def __init__(
        self, database: Database, *, entries_max: int = ENTRIES_MAX, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(database, ExpiringTokenMemo(entries_max), clock)

    async def verify(self, token: str) -> CollectorCaller:
        return await self._verify(token)

    async def _look_up(self, token: bytes, now: float) -> tuple[CollectorCaller, float]:
        caller = await self._database.read(find, token.decode("utf-8", "surrogatepass"))
        if caller is None:
            raise InvalidToken("the collector's token is not known or was revoked")
        return caller, now + CACHE_SECONDS
