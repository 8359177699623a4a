"""Device access tokens: JWTs, issued here or by an external issuer, and the device that each one names.

Verification trusts nothing that the token states about itself. Its issuer and `kid` only select a key that the server
already has, the algorithm must be one configured for that issuer, and keys or key addresses in its header are ignored.

Our own tokens are checked by signing them again (own_signatures.py), and the states of their devices are read in
batches (device_states.py), so that a whole fleet can call after a restart.

    401  no token, not a token, expired, wrong algorithm, issuer, key or signature
    403  a valid token without a device, or whose device is revoked, absent or not the user's

Invariant: a token enters the memo only after the database has confirmed that its device is active, and stops counting
as soon as this process revokes the device (device_token_memo.py).
"""

import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec
from joserfc import jws
from joserfc.jwk import OKPKey

from restante.core.errors import NotAllowed, NotAuthenticated, RestanteError
from restante.database.database import Database
from restante.identity.callers import DeviceCaller
from restante.identity.devices.device_owners import Owned
from restante.identity.devices.device_states import DeviceStates, StateResult
from restante.identity.devices.device_token_memo import DeviceTokenMemo
from restante.identity.devices.own_signatures import OwnSignatures
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

_NOT_ACTIVE = "the device is not active or not the user's"
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
_decoder = msgspec.json.Decoder(DeviceTokenClaims)


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
        self._own_signatures = OwnSignatures(keys)
        self._states = DeviceStates(database)
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
        return _signed(claims, *self._keys.signing)

    async def verify(self, token: str) -> DeviceCaller:
        """The calling device; raises NotAuthenticated or NotAllowed if the token is refused."""
        return await self._verify(token)

    def verify_soon(self, token: bytes, then: Callable[[DeviceCaller | None], None]) -> bool:
        """Verify a token of our own that is not cached. `then` gets the caller; None if `verify` must decide.

        False, and `then` is not called, if already the token alone shows that `verify` must decide.
        """
        now = self._clock()
        try:
            claims = self._own_claims(token, now)
            owned = None if claims is None else _owned(claims)
        except (NotAuthenticated, NotAllowed):
            return False
        if claims is None or owned is None:
            return False
        verified, memo_generation = claims, self._memo.generation

        def done(generation: StateResult) -> None:
            caller = None
            if not isinstance(generation, Exception):
                with suppress(RestanteError):
                    caller, until = self._caller(verified, owned, generation, now)
                    self._memo.keep(token, caller, until, memo_generation)
            then(caller)

        self._states.read(owned, done)
        return True

    def forget_device(self, device_id: int) -> None:
        """From now on no cached token of this device counts."""
        self._device_memo.forget_device(device_id, self._clock())

    async def _look_up(self, token: bytes, now: float) -> tuple[DeviceCaller, float]:
        claims = self._own_claims(token, now) or await self._verified_claims(token, now)
        owned = _owned(claims)
        return self._caller(claims, owned, await self._states.token_generation(owned), now)

    def _caller(
        self, claims: DeviceTokenClaims, owned: Owned, generation: int | None, now: float
    ) -> tuple[DeviceCaller, float]:
        if generation is None:
            raise NotAllowed(_NOT_ACTIVE)
        if claims.iss == self._issuer and claims.gen != generation:
            refuse("its session was ended, because a refresh token was used twice")
        # A token that is valid for longer than our own is verified again: no token is cached for longer than that.
        until = min(claims.exp, now + self.access_token_seconds)
        return DeviceCaller(owned.device_id, owned.user_id, until), until

    async def _reload(self) -> None:
        await self._keys.load()
        # After a restart the first polls of a whole fleet need no full verification either.
        keys = self._keys.all_keys.items()
        self._own_signatures.reset({kid: _signed({}, kid, key).encode() for kid, key in keys})

    def _own_claims(self, token: bytes, now: float) -> DeviceTokenClaims | None:
        """The claims of a token of our own, None if it must be verified in full; raises InvalidToken."""
        payload = self._own_signatures.payload(token, now)
        if payload is None:
            return None
        try:
            claims = _decoder.decode(payload)
        except msgspec.MsgspecError:
            return None
        if claims.iss != self._issuer:
            return None
        check_times(claims.exp, claims.nbf, now)
        return claims

    async def _verified_claims(self, token: bytes, now: float) -> DeviceTokenClaims:
        signed, claims = parse_token(token, DeviceTokenClaims)
        if claims.iss == self._issuer:
            check_type(signed, OWN_TYPES)
            kid = key_id_of(signed)
            check_signature(signed, self._keys.find(kid, now), _OWN_ALGORITHMS)
            self._own_signatures.remember(token, kid)
        else:
            await check_external_issuer(signed, self._issuers, claims.iss, claims.aud)
        check_times(claims.exp, claims.nbf, now)
        return claims


def _signed(claims: dict[str, Any], kid: str, key: OKPKey) -> str:
    header = {"alg": "EdDSA", "typ": "at+jwt", "kid": kid}
    return jws.serialize_compact(header, _encoder.encode(claims), key, registry=_OWN_ALGORITHMS)


def _owned(claims: DeviceTokenClaims) -> Owned:
    user_id, device_id = _identifier(claims.sub), _identifier(claims.device_id)
    if device_id is None:
        raise NotAllowed("the token names no device: it has no device_id claim")
    if user_id is None:
        raise NotAllowed(_NOT_ACTIVE)
    return Owned(device_id, user_id)


def _identifier(claim: object) -> int | None:
    """A database id, written as a number or as its digits."""
    if isinstance(claim, str) and claim.isascii() and claim.isdecimal() and len(claim) <= 19:
        claim = int(claim)
    if isinstance(claim, int) and not isinstance(claim, bool) and 0 < claim <= INT64_MAX:
        return claim
    return None
