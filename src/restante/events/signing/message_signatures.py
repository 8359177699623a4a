"""Open Banking's message signatures: the header `x-jws-signature`, a detached JWS over the body of a message.

    request   header..signature ─▶ form ─▶ members of the header ─▶ a registered key of the client ─▶ signature
    response  body ─▶ the PS256 key that signs now (`event_keys`) ─▶ header..signature

Until version 3.1.3 the profile signs the body as it is (`b64` false, RFC 7797), later in base64url, as any JWS. Both
forms of requests are accepted. A response has the form of its request; without a signed request, the form of the
version of the API: v3.1 as it is, v4.0 in base64url.

Invariants:
- The signature covers the bytes that were received or are sent, not a parsed body.
- Every name in `crit` is understood and present, or the signature is refused.
"""

import asyncio
import re
from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from joserfc.errors import JoseError
from joserfc.jwk import Key

from restante.core.errors import NotFound
from restante.database.connection import Connection
from restante.database.database import Database
from restante.events.api_versions import Version
from restante.events.clients import clients
from restante.events.clients.authentication import client_keys
from restante.events.clients.authentication.remote_keys import RemoteKeys
from restante.events.clients.clients import EventClient
from restante.events.errors import InvalidClaim, MalformedSignature, MissingClaim, MissingSignature, SignatureError
from restante.events.signing import event_keys, jws
from restante.events.signing.event_keys import SealedEventKey
from restante.events.signing.jws import MESSAGE_ALGORITHM, Sign, SigningInfo
from restante.identity.jwt.jwts import AllowedAlgorithms
from restante.identity.master_key import MasterKey

HEADER = "x-jws-signature"
LENGTH_MAX = 8192
ISSUER_CHARACTERS_MAX = 512
# The largest accepted difference between the clocks of client and server.
SKEW_SECONDS = 30

Mode = Literal["off", "if-present", "required"]

_DETACHED = re.compile(r"([A-Za-z0-9_-]+)\.\.([A-Za-z0-9_-]+)", re.ASCII)
_CRITICAL = frozenset(f"{jws.NAMESPACE}{name}" for name in ("iat", "iss", "tan"))
_REQUIRED = ("alg", "kid", *sorted(_CRITICAL), "crit")
_ALLOWED = AllowedAlgorithms([MESSAGE_ALGORITHM])


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageSignatureOptions:
    requests: Mode
    # The values of `iss` and `tan` in the header of responses; `tan` of requests must be the same.
    issuer: str
    trust_anchor: str


@dataclass(frozen=True, slots=True)
class DetachedSignature:
    """A signature of a request, parsed and not verified."""

    encoded_header: bytes
    header: dict[str, Any]
    signature: bytes

    @property
    def is_unencoded(self) -> bool:
        return self.header.get("b64") is False


class MessageSignatures:
    def __init__(
        self,
        database: Database,
        master_key: MasterKey,
        make_missing_keys: Callable[[Iterable[str]], Awaitable[None]],
        options: MessageSignatureOptions,
        remote_keys: RemoteKeys,
    ) -> None:
        self._database = database
        self._remote_keys = remote_keys
        self._master_key = master_key
        self._make_missing_keys = make_missing_keys
        self._options = options
        self._opened: tuple[str, Sign] | None = None

    async def verify(self, client_id: str, values: Sequence[str], body: bytes) -> DetachedSignature | None:
        """Verify the signature of a client's request, where the settings require it; raise SignatureError.

        `values` has the values of the request's `x-jws-signature` headers.
        """
        if self._options.requests == "off":
            return None
        if not values:
            if self._options.requests == "required":
                raise MissingSignature("a signature of the body, the server requires one")
            return None
        if len(values) > 1:
            raise MalformedSignature("one value")
        client, now = await self._database.read(_client_and_time, client_id)
        client = await self._remote_keys.current(client, int(now * 1000))
        if client.credentials.jwks is None and self._options.requests == "if-present":
            # The client has registered no keys: there is nothing to compare the signature with.
            return None
        signature = parse(values[0])
        check_header(signature.header, self._options.trust_anchor, now)
        if not _is_signed_by(client, signature, body):
            # The client may have published a new key since its address was read.
            newer = await self._remote_keys.newer(client)
            if newer is None or not _is_signed_by(newer, signature, body):
                raise SignatureError("a signature of this body with one of the client's registered keys")
        return signature

    async def sign(self, body: bytes, version: Version, signed: DetachedSignature | None) -> bytes:
        """Return the signature of a response with this body. `signed` is the signature of its request."""
        is_unencoded = signed.is_unencoded if signed is not None else version == "v3.1"
        # There is a key already, unless all events have other algorithms.
        await self._make_missing_keys([MESSAGE_ALGORITHM])
        key, now = await self._database.read(_signing_key_and_time)
        sign = self._signing_function(key)
        header = jws.message_header(
            SigningInfo(MESSAGE_ALGORITHM, key.kid, int(now)),
            self._options.issuer,
            self._options.trust_anchor,
            is_unencoded=is_unencoded,
        )
        # Signing takes milliseconds of CPU time.
        return await asyncio.to_thread(jws.detached_signature, header, body, sign, is_unencoded=is_unencoded)

    def _signing_function(self, key: SealedEventKey) -> Sign:
        if self._opened is None or self._opened[0] != key.kid:
            opened = event_keys.open_private_key(self._master_key, key)
            self._opened = key.kid, jws.signing_function(key.alg, opened)
        return self._opened[1]


def parse(value: str) -> DetachedSignature:
    """Parse a detached JWS; raise MalformedSignature if it is none."""
    match = _DETACHED.fullmatch(value.strip()) if len(value) <= LENGTH_MAX else None
    try:
        if match is None:
            raise ValueError
        header = msgspec.json.decode(_decode(match[1]), type=dict[str, Any])
        return DetachedSignature(match[1].encode(), header, _decode(match[2]))
    except (ValueError, Base64Error, msgspec.MsgspecError, RecursionError):
        raise MalformedSignature("a detached JWS: a header in base64url, two dots, a signature") from None


def check_header(header: dict[str, Any], trust_anchor: str, now: float) -> None:
    """Check the members of a signature's header; raise MissingClaim or InvalidClaim for the first bad one."""
    for name in _REQUIRED:
        if name not in header:
            raise MissingClaim(f"{name} in its header")
    iat, iss = header[f"{jws.NAMESPACE}iat"], header[f"{jws.NAMESPACE}iss"]
    is_time = isinstance(iat, int | float) and not isinstance(iat, bool)
    checks = {
        f"alg {MESSAGE_ALGORITHM}": header["alg"] == MESSAGE_ALGORITHM,
        "kid, the name of a key": isinstance(header["kid"], str) and header["kid"] != "",
        "typ JOSE, or none": header.get("typ", "JOSE") == "JOSE",
        "cty application/json, or none": header.get("cty", "json") in ("json", "application/json"),
        "b64 true or false, or none": isinstance(header.get("b64", True), bool),
        f"crit with {', '.join(sorted(_CRITICAL))}, and b64 if it is false": _is_critical(header["crit"], header),
        f"{jws.NAMESPACE}iat, a time in seconds that has passed": is_time and 0 <= iat <= now + SKEW_SECONDS,
        f"{jws.NAMESPACE}iss, 1 to {ISSUER_CHARACTERS_MAX} characters": isinstance(iss, str)
        and 1 <= len(iss) <= ISSUER_CHARACTERS_MAX,
        f"{jws.NAMESPACE}tan {trust_anchor}": header[f"{jws.NAMESPACE}tan"] == trust_anchor,
    }
    for expected, is_met in checks.items():
        if not is_met:
            raise InvalidClaim(f"{expected}, in its header")


def is_genuine(signature: DetachedSignature, body: bytes, key: Key) -> bool:
    message = jws.message_to_sign(signature.encoded_header, body, is_unencoded=signature.is_unencoded)
    try:
        return bool(_ALLOWED.get_alg(MESSAGE_ALGORITHM).verify(message, signature.signature, key))
    except (JoseError, ValueError, TypeError):
        return False


def _is_critical(crit: object, header: dict[str, Any]) -> bool:
    if not isinstance(crit, list) or not all(isinstance(name, str) for name in crit) or len(set(crit)) != len(crit):
        return False
    needed = _CRITICAL | ({"b64"} if header.get("b64") is False else set())
    return needed <= set(crit) <= _CRITICAL | {"b64"} and all(name in header for name in crit)


def _decode(text: str) -> bytes:
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _is_signed_by(client: EventClient, signature: DetachedSignature, body: bytes) -> bool:
    jwks = client.credentials.jwks
    keys = [] if jwks is None else client_keys.find_keys(jwks, signature.header["kid"], MESSAGE_ALGORITHM)
    return any(is_genuine(signature, body, key) for key in keys)


def _client_and_time(conn: Connection, client_id: str) -> tuple[EventClient, float]:
    client = clients.find(conn, client_id)
    if client is None:
        raise NotFound
    return client, conn.now_ms / 1000


def _signing_key_and_time(conn: Connection) -> tuple[SealedEventKey, float]:
    key = event_keys.current_key(conn, MESSAGE_ALGORITHM)
    if key is None:
        raise NotFound("there is no key that signs messages")
    return key, conn.now_ms / 1000
