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
from collections.abc import Callable
from typing import Any

import msgspec
from joserfc import jws
from joserfc.jws import CompactSignature

from restante.core.errors import NotAllowed
from restante.database.database import Database
from restante.identity import device_owners, revisions
from restante.identity.callers import DeviceCaller
from restante.identity.issuers import OutsideIssuers
from restante.identity.jwts import AHEAD_SECONDS as AHEAD_SECONDS
from restante.identity.jwts import TOKEN_LENGTH_MAX as TOKEN_LENGTH_MAX
from restante.identity.jwts import OnlyThese as OnlyThese
from restante.identity.jwts import allowing, check_audience, check_signature, check_times, refuse, taken_apart
from restante.identity.signing_keys import SigningKeys
from restante.identity.token_cache import TokenCache

ACCESS_TOKEN_SECONDS = 3600
CACHE_ENTRIES_MAX = 1_000_000
OUR_ISSUER = "restante"
INT64_MAX = 2**63 - 1

_encoder = msgspec.json.Encoder()


class Claims(msgspec.Struct, frozen=True):
    iss: str
    sub: str
    exp: float
    nbf: float | None = None
    aud: str | list[str] | None = None
    device_id: Any = None


_OURS = allowing(("EdDSA",))


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
        signed, claims = taken_apart(token, Claims)
        kid = signed.headers().get("kid")
        if not isinstance(kid, str):
            refuse("it names no key")
        if claims.iss == self._issuer:
            check_signature(signed, self._keys.find(kid, now), _OURS)
        else:
            await self._check_outside(signed, claims, kid)
        check_times(claims.exp, claims.nbf, now)
        return claims

    async def _check_outside(self, signed: CompactSignature, claims: Claims, kid: str) -> None:
        issuer = self._issuers.find(claims.iss)
        if issuer is None:
            refuse("its issuer is not known here")
        key = await self._issuers.key(claims.iss, kid)
        check_signature(signed, key, allowing(issuer.algorithms))
        check_audience(issuer, claims.aud)


def _identifier(claim: object) -> int | None:
    """One of our ids, given as a number or as its digits."""
    if isinstance(claim, str) and claim.isascii() and claim.isdecimal() and len(claim) <= 19:
        claim = int(claim)
    if isinstance(claim, int) and not isinstance(claim, bool) and 0 < claim <= INT64_MAX:
        return claim
    return None
