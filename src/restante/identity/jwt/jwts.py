"""Parses and checks access tokens that are JWTs. Does not know the owner of a token: its caller decides.

Nothing that a token states about itself is trusted: its `kid` selects a key that the server already has, the algorithm
must be one configured for the issuer, and keys or key addresses in its header are ignored. Every refusal raises
InvalidToken with the reason.
"""

from collections.abc import Collection
from functools import cache
from typing import Any, NoReturn, TypeVar

import msgspec
from joserfc import jws
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.jwk import Key
from joserfc.jws import CompactSignature, JWSRegistry

from restante.core.errors import InvalidToken
from restante.identity.jwt.issuers import ExternalIssuer, ExternalIssuers

T = TypeVar("T")

TOKEN_LENGTH_MAX = 8192
# The `typ` of an access token by RFC 9068, which our own have. Many other issuers send JWT, or none.
ACCESS_TOKEN_TYPES = ("at+jwt", "application/at+jwt")
EXTERNAL_TYPES = (*ACCESS_TOKEN_TYPES, "jwt", None)
# How far an external issuer's clock may be ahead of ours.
AHEAD_SECONDS = 60


class AllowedAlgorithms(JWSRegistry):
    """Allows exactly the given algorithms: joserfc's own list of recommended ones does not apply."""

    def __init__(self, algorithms: Collection[str]) -> None:
        super().__init__(algorithms=algorithms, strict_check_header=False)
        self._allowed = frozenset(algorithms)

    def get_alg(self, name: str) -> Any:
        if name not in self._allowed:
            raise UnsupportedAlgorithmError(f"Algorithm of '{name}' is not allowed")
        return self.algorithms[name]


@cache
def allowed_algorithms(algorithms: tuple[str, ...]) -> AllowedAlgorithms:
    return AllowedAlgorithms(algorithms)


def parse_token(token: bytes, claims: type[T]) -> tuple[CompactSignature, T]:
    """The token and its claims, not yet verified."""
    if len(token) > TOKEN_LENGTH_MAX:
        refuse("it is too long")
    try:
        signed = jws.extract_compact(token)
        if "crit" in signed.headers():
            refuse("its header names a critical extension, which this server does not support")
        return signed, msgspec.json.decode(signed.payload, type=claims)
    except (JoseError, msgspec.MsgspecError, ValueError, TypeError, AttributeError, RecursionError):
        refuse("it is not a token of the expected form")


def key_id_of(signed: CompactSignature) -> str:
    kid = signed.headers().get("kid")
    if not isinstance(kid, str):
        refuse("it names no key")
    return kid


def check_type(signed: CompactSignature, types: Collection[str | None]) -> None:
    """Check the token's `typ`, in lower case; None among the types allows a token without one."""
    kind = signed.headers().get("typ")
    if (None if kind is None else str(kind).lower()) not in types:
        refuse("it is not an access token: its typ says so")


async def check_external_issuer(
    signed: CompactSignature, issuers: ExternalIssuers, iss: str, aud: str | list[str] | None
) -> None:
    """Check that a configured issuer signed the token as an access token for this server."""
    kid = key_id_of(signed)
    check_type(signed, EXTERNAL_TYPES)
    issuer = issuers.find(iss)
    if issuer is None:
        refuse("its issuer is not known here")
    check_signature(signed, await issuers.key(iss, kid), allowed_algorithms(issuer.algorithms))
    check_audience(issuer, aud)


def check_signature(signed: CompactSignature, key: Key | None, allowed: JWSRegistry) -> None:
    if key is None:
        refuse("its key is not known")
    try:
        is_genuine = jws.validate_compact(signed, key, registry=allowed)
    except (JoseError, ValueError, TypeError, KeyError):
        is_genuine = False
    if not is_genuine:
        refuse("its signature is not valid")


def check_audience(issuer: ExternalIssuer, aud: str | list[str] | None) -> None:
    audiences = [aud] if isinstance(aud, str) else aud or []
    if issuer.audience is not None and issuer.audience not in audiences:
        refuse("it is meant for another audience")


def check_times(exp: float, nbf: float | None, now: float) -> None:
    if exp <= now:
        refuse("it has expired")
    if nbf is not None and nbf > now + AHEAD_SECONDS:
        refuse("it is not valid yet")


def refuse(reason: str) -> NoReturn:
    raise InvalidToken(f"the access token is not accepted: {reason}")
