"""Device access tokens: JWTs, ours or an outside issuer's, and who they say is calling.

Verification trusts nothing the token says about itself: its issuer and `kid` only name a key that we
already have, the algorithm must be one configured for that issuer, and keys or addresses of keys in its
header are not looked at.

    401  no token, not a token, expired, wrong algorithm, issuer, key or signature
    403  a good token without a device, or whose device is revoked, absent or not the user's

Must always hold: a token enters the memory only after the database has said that its device is active, and
leaves it the moment this process revokes the device.
"""

import secrets
import time
from collections.abc import Callable, Collection
from functools import cache
from typing import Any, NoReturn

import msgspec
from joserfc import jws
from joserfc.errors import JoseError, UnsupportedAlgorithmError
from joserfc.jwk import Key
from joserfc.jws import CompactSignature, JWSRegistry

from restante.core.errors import NotAllowed, NotAuthenticated
from restante.database.database import Database
from restante.identity import device_owners, revisions
from restante.identity.callers import DeviceCaller
from restante.identity.issuers import OutsideIssuers
from restante.identity.signing_keys import SigningKeys
from restante.identity.token_cache import TokenCache

ACCESS_TOKEN_SECONDS = 3600
CACHE_ENTRIES_MAX = 1_000_000
OUR_ISSUER = "restante"
TOKEN_LENGTH_MAX = 8192
# How far an outside issuer's clock may be ahead of ours.
AHEAD_SECONDS = 60
INT64_MAX = 2**63 - 1

_encoder = msgspec.json.Encoder()


class Claims(msgspec.Struct, frozen=True):
    iss: str
    sub: str
    exp: float
    nbf: float | None = None
    aud: str | list[str] | None = None
    device_id: Any = None


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
def _allowing(algorithms: tuple[str, ...]) -> OnlyThese:
    return OnlyThese(algorithms)


_OURS = _allowing(("EdDSA",))


class DeviceTokens:
    def __init__(
        self,
        database: Database,
        keys: SigningKeys,
        issuers: OutsideIssuers,
        *,
        access_token_seconds: int = ACCESS_TOKEN_SECONDS,
        cache_entries_max: int = CACHE_ENTRIES_MAX,
        issuer: str = OUR_ISSUER,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._keys = keys
        self._issuers = issuers
        self._issuer = issuer
        self._clock = clock
        self._revision = -1
        self._cache = TokenCache(cache_entries_max, longest_seconds=access_token_seconds)
        self.access_token_seconds = access_token_seconds
        # One call less on the hot path than a method around it would cost.
        self.cached: Callable[[bytes, float], DeviceCaller | None] = self._cache.find

    async def start(self) -> None:
        """Open the signing keys, making the first one if there is none."""
        await self.catch_up()

    async def catch_up(self) -> None:
        """Forget everything and read the keys again, if access was taken away since the last time."""
        revision = await self._database.read(revisions.current)
        if revision != self._revision:
            await self._keys.load()
            self.forget_all()
            self._revision = revision

    def mint(self, user_id: int, device_id: int) -> str:
        """A new access token for a device, which the caller has found to be active and the user's."""
        now = int(self._clock())
        claims = {
            "iss": self._issuer,
            "sub": str(user_id),
            "device_id": device_id,
            "iat": now,
            "exp": now + self.access_token_seconds,
            "jti": secrets.token_urlsafe(16),
        }
        kid, key = self._keys.signing
        header = {"alg": "EdDSA", "typ": "JWT", "kid": kid}
        return jws.serialize_compact(header, _encoder.encode(claims), key, registry=_OURS)

    async def verify(self, token: str) -> DeviceCaller:
        """Who is calling; NotAuthenticated or NotAllowed if nobody who may."""
        now = self._clock()
        raw = token.encode("utf-8", "surrogatepass")
        caller = self._cache.find(raw, now)
        if caller is not None:
            return caller
        generation = self._cache.generation
        claims = await self._verified_claims(raw, now)
        user_id, device_id = _identifier(claims.sub), _identifier(claims.device_id)
        if device_id is None:
            raise NotAllowed("the token names no device: it has no device_id claim")
        if user_id is None or not await self._database.read(device_owners.is_active, device_id, user_id):
            raise NotAllowed("the device is not active or not the user's")
        # A token that lives longer than ours is looked at again: nothing is remembered for longer.
        caller = DeviceCaller(device_id, user_id, min(claims.exp, now + self.access_token_seconds))
        self._cache.keep(raw, caller, generation)
        return caller

    @property
    def cached_count(self) -> int:
        return len(self._cache)

    def remember(self, token: bytes, caller: DeviceCaller) -> None:
        """Take a token as verified, for whoever verified it elsewhere; the server itself uses `verify`."""
        self._cache.keep(token, caller, self._cache.generation)

    def forget_device(self, device_id: int) -> None:
        """From now on no remembered token of this device counts."""
        self._cache.forget_device(device_id, self._clock())

    def forget_all(self) -> None:
        self._cache.forget_all()

    async def _verified_claims(self, token: bytes, now: float) -> Claims:
        signed, claims = _read(token)
        kid = signed.headers().get("kid")
        if not isinstance(kid, str):
            _refuse("it names no key")
        if claims.iss == self._issuer:
            _check_signature(signed, self._keys.find(kid, now), _OURS)
        else:
            await self._check_outside(signed, claims, kid)
        if claims.exp <= now:
            _refuse("it has expired")
        if claims.nbf is not None and claims.nbf > now + AHEAD_SECONDS:
            _refuse("it is not valid yet")
        return claims

    async def _check_outside(self, signed: CompactSignature, claims: Claims, kid: str) -> None:
        issuer = self._issuers.find(claims.iss)
        if issuer is None:
            _refuse("its issuer is not known here")
        key = await self._issuers.key(claims.iss, kid)
        _check_signature(signed, key, _allowing(issuer.algorithms))
        audiences = [claims.aud] if isinstance(claims.aud, str) else claims.aud or []
        if issuer.audience is not None and issuer.audience not in audiences:
            _refuse("it is meant for another audience")


def _read(token: bytes) -> tuple[CompactSignature, Claims]:
    """The token taken apart, not yet believed."""
    if len(token) > TOKEN_LENGTH_MAX:
        _refuse("it is too long")
    try:
        signed = jws.extract_compact(token)
        if "crit" in signed.headers():
            _refuse("its header asks for something this server does not do")
        return signed, msgspec.json.decode(signed.payload, type=Claims)
    except (JoseError, msgspec.MsgspecError, ValueError, TypeError, AttributeError, RecursionError):
        _refuse("it is not a token of the expected form")


def _check_signature(signed: CompactSignature, key: Key | None, allowed: JWSRegistry) -> None:
    if key is None:
        _refuse("its key is not known")
    try:
        genuine = jws.validate_compact(signed, key, registry=allowed)
    except (JoseError, ValueError, TypeError, KeyError):
        genuine = False
    if not genuine:
        _refuse("its signature does not hold")


def _identifier(claim: object) -> int | None:
    """One of our ids, given as a number or as its digits."""
    if isinstance(claim, str) and claim.isascii() and claim.isdecimal() and len(claim) <= 19:
        claim = int(claim)
    if isinstance(claim, int) and not isinstance(claim, bool) and 0 < claim <= INT64_MAX:
        return claim
    return None


def _refuse(why: str) -> NoReturn:
    raise NotAuthenticated(f"the access token is not accepted: {why}")
