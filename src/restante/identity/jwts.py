"""Access tokens that are JWTs, taken apart and checked; whose they are is for whoever asks.

Nothing a token says about itself is trusted: its `kid` names a key that we already have, the algorithm must be one
configured for the issuer, and keys or addresses of keys in its header are not looked at. What does not hold is
NotAuthenticated, with why not.
"""

from collections.abc import Collection
from functools import cache
from typing import Any, NoReturn, TypeVar

import msgspec
from joserfc import jws
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.jwk import Key
from joserfc.jws import CompactSignature, JWSRegistry

from restante.core.errors import NotAuthenticated
from restante.identity.issuers import OutsideIssuer

T = TypeVar("T")

TOKEN_LENGTH_MAX = 8192
# How far an outside issuer's clock may be ahead of ours.
AHEAD_SECONDS = 60


class OnlyThese(JWSRegistry):
    """Allows exactly the algorithms that were configured, and has no opinion of its own about them."""

    def __init__(self, algorithms: Collection[str]) -> None:
        super().__init__(algorithms=algorithms, strict_check_header=False)
        self._only = frozenset(algorithms)

    def get_alg(self, name: str) -> Any:
        if name not in self._only:
            raise UnsupportedAlgorithmError(f"Algorithm of '{name}' is not allowed")
        return self.algorithms[name]


@cache
def allowing(algorithms: tuple[str, ...]) -> OnlyThese:
    return OnlyThese(algorithms)


def taken_apart(token: bytes, claims: type[T]) -> tuple[CompactSignature, T]:
    """The token and its claims, not yet believed."""
    if len(token) > TOKEN_LENGTH_MAX:
        refuse("it is too long")
    try:
        signed = jws.extract_compact(token)
        if "crit" in signed.headers():
            refuse("its header asks for something this server does not do")
        return signed, msgspec.json.decode(signed.payload, type=claims)
    except (JoseError, msgspec.MsgspecError, ValueError, TypeError, AttributeError, RecursionError):
        refuse("it is not a token of the expected form")


def check_signature(signed: CompactSignature, key: Key | None, allowed: JWSRegistry) -> None:
    if key is None:
        refuse("its key is not known")
    try:
        genuine = jws.validate_compact(signed, key, registry=allowed)
    except (JoseError, ValueError, TypeError, KeyError):
        genuine = False
    if not genuine:
        refuse("its signature does not hold")


def check_audience(issuer: OutsideIssuer, said: str | list[str] | None) -> None:
    audiences = [said] if isinstance(said, str) else said or []
    if issuer.audience is not None and issuer.audience not in audiences:
        refuse("it is meant for another audience")


def check_times(exp: float, nbf: float | None, now: float) -> None:
    if exp <= now:
        refuse("it has expired")
    if nbf is not None and nbf > now + AHEAD_SECONDS:
        refuse("it is not valid yet")


def refuse(why: str) -> NoReturn:
    raise NotAuthenticated(f"the access token is not accepted: {why}")
