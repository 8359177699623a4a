"""Access tokens of event polling's clients: `et_…`, given for a while, kept as digests, remembered once verified.

Beside ours there may be those of outside authorization servers, which are JWTs; they are remembered the same way.

A token can be bound to a certificate; whether a call comes with that certificate is for whoever sees the connection:
`holds_for`. What takes away access announces `ClientRevoked` or raises the revision, and everything is forgotten.
"""

import time
from collections.abc import Callable

from restante.core.errors import NotAuthenticated
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import queries_beside
from restante.identity import revisions, secret_tokens
from restante.identity.callers import ClientCaller
from restante.identity.outside_clients import OutsideClients
from restante.identity.remembered import ENTRIES_MAX, Remembered

SQL = queries_beside(__file__)

PREFIX = "et_"
TOKEN_LENGTH_MAX = 256
# How long a token is believed without a further look.
REMEMBER_SECONDS = 300.0


def issue(conn: Connection, client: int, scope: str, thumbprint: str | None, seconds: int) -> str:
    """A new token for the client of that row. It is shown to the client, once, and kept as its digest."""
    token = secret_tokens.make(PREFIX)
    conn.run(
        SQL.insert_token,
        token_hash=secret_tokens.digest(token),
        client=client,
        scope=scope,
        thumbprint=thumbprint,
        now_ms=conn.now_ms,
        expires_at=conn.now_ms + seconds * 1000,
    )
    return token


def find(conn: Connection, token: str) -> ClientCaller | None:
    """Whose token it is, unless it has expired or its client is suspended."""
    if not token.startswith(PREFIX) or len(token) > TOKEN_LENGTH_MAX:
        return None
    row = conn.one(SQL.find_token, token_hash=secret_tokens.digest(token), now_ms=conn.now_ms)
    if row is None:
        return None
    scopes = frozenset(row["scope"].split())
    return ClientCaller(row["client"], row["client_id"], scopes, row["thumbprint"], row["expires_at"] / 1000)


def end_all(conn: Connection, client: int) -> int:
    """End every token of the client; how many there were."""
    return conn.run(SQL.delete_tokens_of, client=client)


def forget_expired(conn: Connection) -> int:
    return conn.run(SQL.delete_expired_tokens, now_ms=conn.now_ms)


def holds_for(caller: ClientCaller, thumbprint: str | None) -> bool:
    """Whether the token counts on a connection with this certificate."""
    return caller.thumbprint is None or caller.thumbprint == thumbprint


class ClientTokens:
    """Used on the event loop's thread."""

    def __init__(
        self,
        database: Database,
        *,
        outside: OutsideClients | None = None,
        is_binding_required: bool = False,
        entries_max: int = ENTRIES_MAX,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._outside = outside
        self._is_binding_required = is_binding_required
        self._clock = clock
        self._remembered: Remembered[ClientCaller] = Remembered(entries_max)
        self._revision = -1
        self.cached = self._remembered.find

    async def verify(self, token: str, thumbprint: str | None) -> ClientCaller:
        """Who is calling, over a connection with that certificate; NotAuthenticated if nobody we know."""
        now = self._clock()
        raw = token.encode("utf-8", "surrogatepass")
        caller = self.cached(raw, now)
        if caller is None:
            generation = self._remembered.generation
            caller = await self._look_up(token, raw, now)
            # What is remembered is asked for nothing but `holds_for`, so what lacks a certificate is not.
            if caller.thumbprint is None and self._is_binding_required:
                raise NotAuthenticated("the access token is bound to no certificate")
            self._remembered.keep(raw, caller, min(caller.expires_at, now + REMEMBER_SECONDS), generation)
        if not holds_for(caller, thumbprint):
            raise NotAuthenticated("the access token is bound to another certificate")
        return caller

    async def _look_up(self, token: str, raw: bytes, now: float) -> ClientCaller:
        # Ours have no dots, and JWTs two.
        if self._outside is not None and token.count(".") == 2:
            return await self._outside.verify(raw, now)
        caller = await self._database.read(find, token)
        if caller is None:
            raise NotAuthenticated("the access token is not known, has expired or was ended")
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
