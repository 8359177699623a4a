"""Access tokens of event polling's clients: `et_…`, short-lived, stored as digests, kept in memory once verified.

Clients may also bring JWTs of external authorization servers (external_clients.py); those are kept in memory alike.

A token can be bound to a certificate. This module does not see connections: its caller passes the certificate's
thumbprint, and `is_usable_with` compares. Whatever ends a client's access publishes `ClientRevoked` or increments the
revocation counter, and the memory is emptied (see token_memo.py).
"""

import time
from collections.abc import Callable

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import queries_beside
from restante.identity import secret_tokens
from restante.identity.callers import ClientCaller
from restante.identity.clients.external_clients import ExternalClients
from restante.identity.clients.refused_token import RefusedToken
from restante.identity.token_memo import ENTRIES_MAX, ExpiringTokenMemo, VerifiedTokens

SQL = queries_beside(__file__)

PREFIX = "et_"
TOKEN_LENGTH_MAX = 256
# How long a verified token is accepted without another database read.
CACHE_SECONDS = 300.0

_NOT_ACCEPTED = "the access token is not known, has expired or was ended"


def issue(conn: Connection, client: int, scope: str, thumbprint: str | None, seconds: int) -> str:
    """A new token for the client with that row id. It is shown to the client once and stored as its digest."""
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
    """The client whose token this is, unless the token has expired or the client is suspended."""
    try:
        return get(conn, token)
    except RefusedToken:
        return None


def get(conn: Connection, token: str) -> ClientCaller:
    """The client whose token this is; raises RefusedToken if the token has expired or the client is suspended."""
    if not token.startswith(PREFIX) or len(token) > TOKEN_LENGTH_MAX:
        raise RefusedToken(_NOT_ACCEPTED, "token")
    row = conn.one(SQL.find_token, token_hash=secret_tokens.digest(token))
    if row is None:
        raise RefusedToken(_NOT_ACCEPTED, "token")
    if row["expires_at"] <= conn.now_ms:
        raise RefusedToken(_NOT_ACCEPTED, "token_expired", row["client_id"])
    if row["suspended_at"] is not None:
        raise RefusedToken(_NOT_ACCEPTED, "suspended", row["client_id"])
    scopes = frozenset(row["scope"].split())
    return ClientCaller(row["client"], row["client_id"], scopes, row["thumbprint"], row["expires_at"] / 1000)


def end_all(conn: Connection, client: int) -> int:
    """End every token of the client; returns how many there were."""
    return conn.run(SQL.delete_tokens_of, client=client)


def delete_expired(conn: Connection) -> int:
    return conn.run(SQL.delete_expired_tokens, now_ms=conn.now_ms)


def is_usable_with(caller: ClientCaller, thumbprint: str | None) -> bool:
    """Whether the token counts on a connection with this certificate."""
    return caller.thumbprint is None or caller.thumbprint == thumbprint


class ClientTokens(VerifiedTokens[ClientCaller, tuple[ClientCaller, float]]):
    """Used on the event loop's thread."""

    def __init__(
        self,
        database: Database,
        *,
        external: ExternalClients | None = None,
        is_binding_required: bool = False,
        entries_max: int = ENTRIES_MAX,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(database, ExpiringTokenMemo(entries_max), clock)
        self._external = external
        self._is_binding_required = is_binding_required

    async def verify(self, token: str, thumbprint: str | None) -> ClientCaller:
        """The caller, on a connection with that certificate; raises InvalidToken if the token is refused."""
        caller = await self._verify(token)
        if not is_usable_with(caller, thumbprint):
            message = "the access token is bound to another certificate"
            raise RefusedToken(message, "token_certificate", caller.client_id)
        return caller

    async def _look_up(self, token: bytes, now: float) -> tuple[ClientCaller, float]:
        caller = await self._find(token, now)
        # Checked before the memo keeps the caller: a cached caller is checked with `is_usable_with` only.
        if caller.thumbprint is None and self._is_binding_required:
            message = "the access token is bound to no certificate"
            raise RefusedToken(message, "token_certificate", caller.client_id)
        return caller, min(caller.expires_at, now + CACHE_SECONDS)

    async def _find(self, token: bytes, now: float) -> ClientCaller:
        # Our own tokens have no dots, JWTs have two.
        if self._external is not None and token.count(b".") == 2:
            return await self._external.verify(token, now)
        return await self._database.read(get, token.decode("utf-8", "surrogatepass"))
