"""Device access tokens: JWTs, issued here or by an external issuer, and the device that each one names.

Verification trusts nothing that the token states about itself. Its issuer and `kid` only select a key that the server
already has, the algorithm must be one configured for that issuer, and keys or key addresses in its header are ignored.

    401  no token, not a token, expired, wrong algorithm, issuer, key or signature
    403  a valid token without a device, or whose device is revoked, absent or not the user's

Invariant: a token enters the memo only after the database has confirmed that its device is active, and stops counting
as soon as this process revokes the device (device_token_memo.py).
"""

import secrets
import time
from collections.abc import Callable
from typing import Any

import msgspec
from joserfc import jws

from restante.core.errors import NotAllowed
from restante.database.database import Database
from restante.identity.callers import DeviceCaller
from restante.identity.devices import device_owners
from restante.identity.devices.device_token_memo import DeviceTokenMemo
from restante.identity.jwt.issuers import ExternalIssuers
from restante.identity.jwt.jwts import (
    ACCESS_TOKEN_TYPES,
    allowed_algorithms,
    check_external_issuer,
    check_signature,
    check_times,
    check_type,
    key_id_of,
    parse_token,
    refuse,
)
from restante.identity.signing_keys import SigningKeys
from restante.identity.token_memo import VerifiedTokens

OUR_ISSUER = "restante"
INT64_MAX = 2**63 - 1

_encoder = msgspec.json.Encoder()


class DeviceTokenClaims(msgspec.Struct, frozen=True):
    iss: str
    sub: str
    exp: float
    nbf: float | None = None
    aud: str | list[str] | None = None
    device_id: Any = None
    # Of our own tokens; external issuers may use the name for anything.
    gen: Any = 0


# Tokens of earlier versions say JWT. If they were refused, a whole fleet would refresh at once after an upgrade.
OWN_TYPES = (*ACCESS_TOKEN_TYPES, "jwt")
_OWN_ALGORITHMS = allowed_algorithms(("EdDSA",))


class DeviceTokens(VerifiedTokens[DeviceCaller, DeviceCaller]):
    def __init__(
        self,
        database: Database,
        keys: SigningKeys,
        issuers: ExternalIssuers,
        *,
        access_token_seconds: int,
        cache_entries_max: int,
        issuer: str = OUR_ISSUER,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._device_memo = DeviceTokenMemo(cache_entries_max, longest_seconds=access_token_seconds)
        super().__init__(database, self._device_memo, clock)
        self._keys = keys
        self._issuers = issuers
        self._issuer = issuer
        self.access_token_seconds = access_token_seconds

    async def start(self) -> None:
        """Load the signing keys; makes the first one if there is none."""
        await self.catch_up()

    def mint(self, user_id: int, device_id: int, generation: int = 0) -> str:
        """A new access token. The caller must have checked that the device is active and the user's.

        The generation is the device's, from the transaction of that check. It is left out if it is 0, as it is unless a
        session of the device was stolen: the token is part of every poll.
        """
        now = int(self._clock())
        claims = {
            "iss": self._issuer,
            "sub": str(user_id),
            "device_id": device_id,
            "iat": now,
            "exp": now + self.access_token_seconds,
            "jti": secrets.token_urlsafe(16),
        }
        if generation:
            claims["gen"] = generation
        kid, key = self._keys.signing
        header = {"alg": "EdDSA", "typ": "at+jwt", "kid": kid}
        return jws.serialize_compact(header, _encoder.encode(claims), key, registry=_OWN_ALGORITHMS)

    async def verify(self, token: str) -> DeviceCaller:
        """The calling device; raises NotAuthenticated or NotAllowed if the token is refused."""
        return await self._verify(token)

    def forget_device(self, device_id: int) -> None:
        """From now on no cached token of this device counts."""
        self._device_memo.forget_device(device_id, self._clock())

    async def _look_up(self, token: bytes, now: float) -> tuple[DeviceCaller, float]:
        claims = await self._verified_claims(token, now)
        user_id, device_id = _identifier(claims.sub), _identifier(claims.device_id)
        if device_id is None:
            raise NotAllowed("the token names no device: it has no device_id claim")
        generation = None
        if user_id is not None:
            generation = await self._database.read(device_owners.token_generation, device_id, user_id)
        if user_id is None or generation is None:
            raise NotAllowed("the device is not active or not the user's")
        if claims.iss == self._issuer and claims.gen != generation:
            refuse("its session was ended, because a refresh token was used twice")
        # A token that lives longer than our own is verified again: no token is cached for longer than that.
        until = min(claims.exp, now + self.access_token_seconds)
        return DeviceCaller(device_id, user_id, until), until

    async def _reload(self) -> None:
        await self._keys.load()

    async def _verified_claims(self, token: bytes, now: float) -> DeviceTokenClaims:
        signed, claims = parse_token(token, DeviceTokenClaims)
        if claims.iss == self._issuer:
            check_type(signed, OWN_TYPES)
            check_signature(signed, self._keys.find(key_id_of(signed), now), _OWN_ALGORITHMS)
        else:
            await check_external_issuer(signed, self._issuers, claims.iss, claims.aud)
        check_times(claims.exp, claims.nbf, now)
        return claims


def _identifier(claim: object) -> int | None:
    """A database id, written as a number or as its digits."""
    if isinstance(claim, str) and claim.isascii() and claim.isdecimal() and len(claim) <= 19:
        claim = int(claim)
    if isinstance(claim, int) and not isinstance(claim, bool) and 0 < claim <= INT64_MAX:
        return claim
    return None
