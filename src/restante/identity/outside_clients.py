"""Access tokens that outside authorization servers gave to our clients: JWTs after RFC 9068, bound after RFC 8705.

A token names one of our registered clients by `client_id` and can do no more than that client may. A binding that we
could not enforce is not ignored: such a token does not count.
"""

from typing import Any

import msgspec

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import queries_beside
from restante.identity.callers import ClientCaller
from restante.identity.issuers import OutsideIssuers
from restante.identity.jwts import allowing, check_audience, check_signature, check_times, refuse, taken_apart

SQL = queries_beside(__file__)

TYPES = ("at+jwt", "application/at+jwt", "jwt")
CLIENT_ID_LENGTH_MAX = 128
THUMBPRINT = "x5t#S256"


class Claims(msgspec.Struct, frozen=True):
    iss: str
    exp: float
    client_id: str
    scope: str | list[str] = ""
    nbf: float | None = None
    aud: str | list[str] | None = None
    cnf: dict[str, Any] | None = None


class OutsideClients:
    def __init__(self, database: Database, issuers: OutsideIssuers) -> None:
        self._database = database
        self._issuers = issuers

    async def verify(self, token: bytes, now: float) -> ClientCaller:
        """Who is calling; NotAuthenticated if nobody we know. Its certificate is still to be looked at."""
        claims = await self._verified_claims(token, now)
        thumbprint = _bound_to(claims)
        caller = await self._database.read(find_client, claims)
        if caller is None:
            refuse("its client is not registered here, or suspended")
        return caller._replace(thumbprint=thumbprint)

    async def _verified_claims(self, token: bytes, now: float) -> Claims:
        signed, claims = taken_apart(token, Claims)
        header = signed.headers()
        kid = header.get("kid")
        if not isinstance(kid, str):
            refuse("it names no key")
        if str(header.get("typ", "jwt")).lower() not in TYPES:
            refuse("it is not an access token")
        issuer = self._issuers.find(claims.iss)
        if issuer is None:
            refuse("its issuer is not known here")
        check_signature(signed, await self._issuers.key(claims.iss, kid), allowing(issuer.algorithms))
        check_audience(issuer, claims.aud)
        check_times(claims.exp, claims.nbf, now)
        return claims


def find_client(conn: Connection, claims: Claims) -> ClientCaller | None:
    """The client that is named, unless it is suspended, with what both it and the token may."""
    if len(claims.client_id) > CLIENT_ID_LENGTH_MAX or "\0" in claims.client_id:
        return None
    row = conn.one(SQL.active_client, client_id=claims.client_id)
    if row is None:
        return None
    given = claims.scope.split() if isinstance(claims.scope, str) else claims.scope
    scopes = frozenset(given).intersection(row["scope"].split())
    return ClientCaller(row["id"], claims.client_id, scopes, None, claims.exp)


def _bound_to(claims: Claims) -> str | None:
    if claims.cnf is None:
        return None
    thumbprint = claims.cnf.get(THUMBPRINT)
    if not isinstance(thumbprint, str) or not thumbprint or len(claims.cnf) != 1:
        refuse(f"it is bound in another way than by {THUMBPRINT}")
    return thumbprint
