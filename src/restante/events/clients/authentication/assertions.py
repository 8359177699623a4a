"""Verifies client assertions: signed JWTs that authenticate a client (`private_key_jwt`, RFC 7523). Each is valid once.

The signature is verified first, with the registered key that the assertion names (`kid`) and an algorithm of that key;
an assertion that names none is verified with each registered key that fits its algorithm. Only a caller with a
valid signature gets the other errors. Used assertions are stored until they would be refused as expired.
"""

from dataclasses import dataclass
from typing import TypeVar

import msgspec
from joserfc import jws
from joserfc.errors import JoseError
from joserfc.jwk import Key
from joserfc.jws import CompactSignature, JWSRegistry

from restante.database.connection import Connection
from restante.database.queries import queries_beside
from restante.events.clients.authentication import client_keys
from restante.events.clients.authentication.oauth_errors import InvalidClient
from restante.identity import secret_tokens
from restante.identity.jwt.jwts import allowed_algorithms

SQL = queries_beside(__file__)
T = TypeVar("T")

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
ASSERTION_LENGTH_MAX = 8192
JTI_LENGTH_MAX = 256
# The largest accepted difference between the clocks of client and server.
SKEW_SECONDS = 30
# Used assertions are kept this much longer than they are valid: the clock of the database may differ.
KEEP_LONGER_SECONDS = 300

# A token of another kind that the same key signed, such as an access token, is no assertion (RFC 8725, 3.11).
TYPES = ("jwt", "client-authentication+jwt")


@dataclass(frozen=True, slots=True)
class AssertionRules:
    """What the server accepts of every client."""

    audiences: frozenset[str]
    algorithms: tuple[str, ...]
    seconds_max: float


@dataclass(frozen=True, slots=True)
class VerifiedAssertion:
    """An assertion with a valid signature and valid claims that is not consumed yet."""

    jti: str
    exp: float


# No known key of the client verifies the assertion. The message is that of every failed authentication.
class UnknownSignature(InvalidClient):
    __doc__ = InvalidClient.__doc__


class _AssertionClaims(msgspec.Struct, frozen=True):
    iss: str
    sub: str
    aud: str | list[str]
    exp: float
    jti: str
    nbf: float | None = None
    iat: float | None = None


class _SubjectClaim(msgspec.Struct, frozen=True):
    sub: str


def unverified_client_id(text: str) -> str:
    """Return the `sub` claim of an assertion, before anything is verified."""
    return _decode_claims(_parse(text), _SubjectClaim).sub


def verify(text: str, jwks: str, client_id: str, rules: AssertionRules, now: float) -> VerifiedAssertion:
    """Verify that the assertion is this client's; raise InvalidClient if it is not."""
    signed = _parse(text)
    _check_signature(signed, jwks, rules.algorithms)
    seconds_max = rules.seconds_max
    claims = _decode_claims(signed, _AssertionClaims)
    if claims.iss != client_id or claims.sub != client_id:
        raise InvalidClient("the assertion's iss and sub must both be the client_id")
    if not rules.audiences.intersection([claims.aud] if isinstance(claims.aud, str) else claims.aud):
        raise InvalidClient(f"the assertion's aud must be {' or '.join(sorted(rules.audiences))}")
    if not now - SKEW_SECONDS < claims.exp <= now + seconds_max + SKEW_SECONDS:
        raise InvalidClient(f"the assertion's exp must be in the next {seconds_max:g} seconds")
    if max(claims.nbf or 0, claims.iat or 0) > now + SKEW_SECONDS:
        raise InvalidClient("the assertion's nbf and iat must not be in the future")
    if not 1 <= len(claims.jti) <= JTI_LENGTH_MAX:
        raise InvalidClient(f"the assertion's jti must have 1 to {JTI_LENGTH_MAX} characters")
    return VerifiedAssertion(claims.jti, claims.exp)


def consume(conn: Connection, client: int, assertion: VerifiedAssertion) -> bool:
    """Mark the assertion as used; return False if it was used before."""
    # Deleting here bounds the rows of a client even if no sweep runs.
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


def _parse(text: str) -> CompactSignature:
    try:
        if len(text) > ASSERTION_LENGTH_MAX:
            raise InvalidClient
        signed = jws.extract_compact(text.encode())
        if "crit" in signed.headers():
            raise InvalidClient
        return signed
    except (JoseError, ValueError, TypeError, AttributeError, RecursionError):
        raise InvalidClient from None


def _decode_claims(signed: CompactSignature, into: type[T]) -> T:
    try:
        return msgspec.json.decode(signed.payload, type=into)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise InvalidClient("the assertion must have the claims iss, sub, aud, exp and jti") from None


def _check_signature(signed: CompactSignature, jwks: str, algorithms: tuple[str, ...]) -> None:
    header = signed.headers()
    alg, kid = header.get("alg"), header.get("kid")
    if not isinstance(alg, str) or ("kid" in header and not isinstance(kid, str)):
        raise InvalidClient
    if alg in client_keys.ALGORITHMS and alg not in algorithms:
        raise InvalidClient(f"the assertion's alg must be one of {', '.join(algorithms)}")
    if str(header.get("typ", "JWT")).lower() not in TYPES:
        raise InvalidClient("the assertion's typ must be JWT or client-authentication+jwt")
    # Many client libraries name no key: then every registered key that fits the algorithm is tried.
    registry = allowed_algorithms((alg,))
    if not any(_is_signed_with(signed, key, registry) for key in client_keys.find_keys(jwks, kid, alg)):
        raise UnknownSignature


def _is_signed_with(signed: CompactSignature, key: Key, registry: JWSRegistry) -> bool:
    try:
        return jws.validate_compact(signed, key, registry=registry)
    except (JoseError, ValueError, TypeError, KeyError):
        return False
