"""Access tokens that external authorization servers issued to our clients: JWTs (RFC 9068), bound (RFC 8705).

A token names a registered client by `client_id` and grants no more than that client may do. A token with a binding that
the server cannot enforce is refused: the binding is never ignored.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from restante.core.errors import InvalidToken
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import queries_beside
from restante.identity.callers import ClientCaller
from restante.identity.clients.refused_token import RefusedToken, TokenRefusal
from restante.identity.jwt.issuers import ExternalIssuers
from restante.identity.jwt.jwts import check_external_issuer, check_times, parse_token, refuse

SQL = queries_beside(__file__)

CLIENT_ID_LENGTH_MAX = 128
THUMBPRINT = "x5t#S256"


class ClientTokenClaims(msgspec.Struct, frozen=True):
    iss: str
    exp: float
    client_id: str
    scope: str | list[str] = ""
    nbf: float | None = None
    aud: str | list[str] | None = None
    cnf: dict[str, Any] | None = None


class ExternalClients:
    def __init__(self, database: Database, issuers: ExternalIssuers) -> None:
        self._database = database
        self._issuers = issuers

    async def verify(self, token: bytes, now: float) -> ClientCaller:
        """The calling client; raises NotAuthenticated if the token is refused. Does not check the certificate."""
        signed, claims = parse_token(token, ClientTokenClaims)
        await check_external_issuer(signed, self._issuers, claims.iss, claims.aud)
        # From here on it is certain which client the issuer named.
        with _refusing(claims, "token_expired"):
            check_times(claims.exp, claims.nbf, now)
        with _refusing(claims, "token_certificate"):
            thumbprint = _bound_thumbprint(claims)
        caller = await self._database.read(find_client, claims)
        with _refusing(claims, "suspended"):
            if caller is None:
                refuse("its client is not registered here, or suspended")
        return caller._replace(thumbprint=thumbprint)


@contextmanager
def _refusing(claims: ClientTokenClaims, reason: TokenRefusal) -> Iterator[None]:
    try:
        yield
    except InvalidToken as error:
        raise RefusedToken(error.message, reason, claims.client_id) from None


def find_client(conn: Connection, claims: ClientTokenClaims) -> ClientCaller | None:
    """The named client, unless it is suspended, with the scopes that both the client and the token have."""
    if len(claims.client_id) > CLIENT_ID_LENGTH_MAX or "\0" in claims.client_id:
        return None
    row = conn.one(SQL.active_client, client_id=claims.client_id)
    if row is None:
        return None
    token_scopes = claims.scope.split() if isinstance(claims.scope, str) else claims.scope
    scopes = frozenset(token_scopes).intersection(row["scope"].split())
    return ClientCaller(row["id"], claims.client_id, scopes, None, claims.exp)


def _bound_thumbprint(claims: ClientTokenClaims) -> str | None:
    if claims.cnf is None:
        return None
    thumbprint = claims.cnf.get(THUMBPRINT)
    if not isinstance(thumbprint, str) or not thumbprint or len(claims.cnf) != 1:
        refuse(f"it is bound by something other than {THUMBPRINT}")
    return thumbprint
