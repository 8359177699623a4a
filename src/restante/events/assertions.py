"""Assertions: signed statements by which a client proves who it is (`private_key_jwt`, RFC 7523). Each counts once.

The signature is verified first, with a key registered for the client and only in a way that key is meant for; what else
is wrong is told only to whoever could sign. What was used is remembered durably, until it would be refused as expired.
"""

from typing import NamedTuple, TypeVar

import msgspec
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jws import CompactSignature

from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.events import client_keys
from restante.events.oauth_wire import InvalidClient
from restante.identity import secret_tokens
from restante.identity.device_tokens import OnlyThese

SQL = queries_beside(__file__)
T = TypeVar("T")

TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
LENGTH_MAX = 8192
JTI_LENGTH_MAX = 256
# How far a client's clock may be from ours, either way.
SKEW_SECONDS = 30
# How much longer than it counts an assertion is remembered: the database's clock need not be ours.
KEEP_LONGER_SECONDS = 300

_ALLOWED = OnlyThese(client_keys.ALGORITHMS)


class Assertion(NamedTuple):
    """One whose signature and claims hold, not yet used."""

    jti: str
    exp: float


class _Claims(msgspec.Struct, frozen=True):
    iss: str
    sub: str
    aud: str | list[str]
    exp: float
    jti: str
    nbf: float | None = None
    iat: float | None = None


class _Subject(msgspec.Struct, frozen=True):
    sub: str


def claimed_client_id(text: str) -> str:
    """Who the assertion says it is of; nothing of it is believed yet."""
    return _decoded(_taken_apart(text), _Subject).sub


def verify(
    text: str, jwks: str, client_id: str, audiences: frozenset[str], now: float, seconds_max: float
) -> Assertion:
    """The assertion, if it is this client's; InvalidClient if not."""
    signed = _taken_apart(text)
    _check_signature(signed, jwks)
    claims = _decoded(signed, _Claims)
    if claims.iss != client_id or claims.sub != client_id:
        raise InvalidClient("the assertion's iss and sub must both be the client_id")
    if not audiences.intersection([claims.aud] if isinstance(claims.aud, str) else claims.aud):
        raise InvalidClient("the assertion's aud must be the token endpoint or the issuer")
    if not now - SKEW_SECONDS < claims.exp <= now + seconds_max + SKEW_SECONDS:
        raise InvalidClient(f"the assertion's exp must be in the next {seconds_max:g} seconds")
    if max(claims.nbf or 0, claims.iat or 0) > now + SKEW_SECONDS:
        raise InvalidClient("the assertion is of the future")
    if not 1 <= len(claims.jti) <= JTI_LENGTH_MAX:
        raise InvalidClient(f"the assertion's jti must have 1 to {JTI_LENGTH_MAX} characters")
    return Assertion(claims.jti, claims.exp)


def use(conn: Connection, client: int, assertion: Assertion) -> bool:
    """Use it up; False if it was used before."""
    # Of each client as many are kept as it can use in the time one counts, whether or not anybody sweeps.
    conn.run(SQL.delete_expired_of, client=client, now_ms=conn.now_ms)
    row = conn.one(
        SQL.insert_used,
        client=client,
        jti_hash=secret_tokens.digest(assertion.jti),
        expires_at=int((assertion.exp + SKEW_SECONDS + KEEP_LONGER_SECONDS) * 1000),
    )
    return row is not None


def forget_expired(conn: Connection) -> int:
    return conn.run(SQL.delete_expired, now_ms=conn.now_ms)


def _taken_apart(text: str) -> CompactSignature:
    try:
        if len(text) > LENGTH_MAX:
            raise InvalidClient
        signed = jws.extract_compact(text.encode())
        if "crit" in signed.headers():
            raise InvalidClient
        return signed
    except (JoseError, ValueError, TypeError, AttributeError, RecursionError):
        raise InvalidClient from None


def _decoded(signed: CompactSignature, into: type[T]) -> T:
    try:
        return msgspec.json.decode(signed.payload, type=into)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise InvalidClient("the assertion must have the claims iss, sub, aud, exp and jti") from None


def _check_signature(signed: CompactSignature, jwks: str) -> None:
    header = signed.headers()
    kid, alg = header.get("kid"), header.get("alg")
    key = client_keys.find(jwks, kid, alg) if isinstance(kid, str) and isinstance(alg, str) else None
    if key is None:
        raise InvalidClient
    try:
        is_genuine = jws.validate_compact(signed, key, registry=_ALLOWED)
    except (JoseError, ValueError, TypeError, KeyError):
        is_genuine = False
    if not is_genuine:
        raise InvalidClient
