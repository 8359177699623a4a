"""Access tokens that external authorization servers issued to our clients: JWTs (RFC 9068), bound (RFC 8705).

A token names a registered client by `client_id` and grants no more than that client may do. A token with a binding that
the server cannot enforce is refused: the binding is never ignored.
"""

from typing import Any

import msgspec

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import queries_beside
from restante.identity.callers import ClientCaller
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
        claims = await self._verified_claims(token, now)
        thumbprint = _bound_thumbprint(claims)
        caller = await self._database.read(find_client, claims)
        if caller is None:
            refuse("its client is not registered here, or suspended")
        return caller._replace(thumbprint=thumbprint)

    async def _verified_claims(self, token: bytes, now: float) -> ClientTokenClaims:
        signed, claims = parse_token(token, ClientTokenClaims)
        await check_external_issuer(signed, self._issuers, claims.iss, claims.aud)
        check_times(claims.exp, claims.nbf, now)
        return claims


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
