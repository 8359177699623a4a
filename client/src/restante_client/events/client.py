"""The receiver of event tokens, for Open Banking and Shared Signals.

    token endpoint ─▶ access token ─▶ poll with acknowledgements ─▶ sets ─▶ verify ─┬─▶ store ─▶ handler
                                              ▲                                    └─▶ setErrs of the next poll
                                              └── acknowledgements of what is stored

Invariant: a jti is acknowledged only after its token was verified and is on disk.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Optional, Union

import msgspec

from restante_client.calls import TIMEOUT_SECONDS, decode
from restante_client.clients import BlockingClient, Client, blocking_runtime
from restante_client.errors import Unauthorized, Unavailable, Unreachable, VerificationFailed
from restante_client.events.credentials import Credentials, TlsCertificate
from restante_client.events.jws import PublicKey, UnknownKey, parse, read_jwks, verify
from restante_client.events.store import EventStore
from restante_client.pacing import Backoff
from restante_client.runtime import Runtime, blocking, steady_seconds

METADATA_PATH = ".well-known/oauth-authorization-server"
ACKNOWLEDGED_MAX = 500
HOLD_SECONDS = 40.0
# Refresh a token that expires within this time.
RENEW_BEFORE_SECONDS = 30.0
# A JWKS is read again after this time, and once in a poll for a key that is not in it.
JWKS_SECONDS = 3600.0
DESCRIPTION_MAX = 256
TOKEN_TYPES = ("jose", "jwt", "secevent+jwt", "application/secevent+jwt")


@dataclass(frozen=True)
class ReceiverOptions:
    """What a receiver polls and expects.

    `endpoint`: the path or URL of the poll endpoint; for Shared Signals the `endpoint_url` of the stream. `issuer`: the
    expected `iss` of event tokens; without it any issuer whose keys the server publishes. `audience`: the expected
    `aud`; without it the client's id. `http`: options of httpx, such as `verify`, `proxy`, `headers` and `cookies`.
    """

    endpoint: str = "open-banking/v4.0/events"
    scope: str = "eventpolling"
    issuer: Optional[str] = None
    audience: Optional[str] = None
    events_max: int = 100
    timeout_seconds: float = TIMEOUT_SECONDS
    http: Optional[dict[str, Any]] = None


DEFAULTS = ReceiverOptions()


@dataclass(frozen=True)
class Event:
    """A verified event token."""

    jti: str
    token: str
    claims: dict[str, Any]

    @property
    def events(self) -> dict[str, Any]:
        """What happened, by event type."""
        found = self.claims.get("events")
        return found if isinstance(found, dict) else {}


Handler = Callable[[Event], Union[Awaitable[None], None]]


class _Metadata(msgspec.Struct, frozen=True):
    issuer: str
    token_endpoint: str
    jwks_uri: str
    mtls_endpoint_aliases: dict[str, str] = {}


class _AccessToken(msgspec.Struct, frozen=True):
    access_token: str
    expires_in: float = 60


class _PollResponse(msgspec.Struct, frozen=True):
    sets: dict[str, str]
    more_available: bool = msgspec.field(name="moreAvailable", default=False)


class EventReceiver(Client):
    """A receiver, for programs with asyncio.

    credentials = PrivateKeyJwt("shop", key_pem)
    async with EventReceiver("https://bank.example", credentials, Path("/var/lib/receiver")) as receiver:
        await receiver.run(lambda event: print(event.claims))
    """

    _store: EventStore

    def __init__(
        self,
        url: str,
        credentials: Credentials,
        folder: Path,
        options: ReceiverOptions = DEFAULTS,
        *,
        runtime: Runtime | None = None,
    ) -> None:
        super().__init__(url, options.timeout_seconds, options.http, runtime)
        self._store = EventStore(folder)
        self._credentials = credentials
        self._options = options
        self._metadata: Optional[_Metadata] = None
        self._token: Optional[_AccessToken] = None
        self._token_ends = 0.0
        self._keys: Mapping[str, PublicKey] = {}
        self._keys_read_at: Optional[float] = None
        self._errors: dict[str, dict[str, str]] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(client_id={self._credentials.client_id!r})"

    @property
    def store(self) -> EventStore:
        """The stored state of this receiver."""
        return self._store

    @property
    def has_errors(self) -> bool:
        """Whether refused tokens wait to be reported with the next poll."""
        return bool(self._errors)

    async def poll(self, *, is_immediate: bool = False) -> bool:
        """Poll once: acknowledge the stored events and store the new ones. Return whether the server has more."""
        acknowledged, errors = self._store.to_acknowledge(ACKNOWLEDGED_MAX), dict(self._errors)
        body: dict[str, Any] = {"maxEvents": self._options.events_max, "returnImmediately": is_immediate}
        if acknowledged:
            body["ack"] = acknowledged
        if errors:
            body["setErrs"] = errors
        response = await self._call_with_token(body, 0.0 if is_immediate else HOLD_SECONDS)
        self._store.set_acknowledged(acknowledged)
        for jti in errors:
            self._errors.pop(jti, None)
        found = decode(response, _PollResponse)
        verified = []
        received = steady_seconds()
        for jti, token in found.sets.items():
            try:
                await self._verify(jti, token, received)
                verified.append((jti, token))
            except VerificationFailed as error:
                self._errors[jti] = {"err": _error_code(error), "description": str(error)[:DESCRIPTION_MAX]}
        self._store.add(verified)
        return found.more_available

    async def handle_stored(self, handler: Handler) -> int:
        """Call the handler with each stored event, oldest first. Return how many. An error of the handler ends it."""
        count = 0
        while not self._is_stopped:
            stored = self._store.next_to_handle()
            if stored is None:
                break
            await self._runtime.call(handler, Event(stored.jti, stored.token, parse(stored.token).claims))
            self._store.set_handled(stored)
            count += 1
        return count

    async def run(self, handler: Handler) -> None:
        """Poll, store, acknowledge and handle until `stop` is called. Failures of the network are repeated."""
        backoff = Backoff()
        is_immediate = True
        while not self._is_stopped:
            await self.handle_stored(handler)
            if self._is_stopped:
                break
            try:
                has_more = await self.poll(is_immediate=is_immediate)
            except (Unavailable, Unreachable) as error:
                await self._runtime.sleep(backoff.failed(getattr(error, "retry_after_seconds", None)))
                continue
            backoff.succeeded()
            # What was just stored is acknowledged at once, not when the next event arrives.
            is_immediate = has_more or bool(self._store.to_acknowledge(1)) or self.has_errors
            self._store.forget_old()
        await self.acknowledge()

    async def acknowledge(self) -> None:
        """Acknowledge what is stored, without new events. If it fails, the server delivers them again."""
        acknowledged = self._store.to_acknowledge(ACKNOWLEDGED_MAX)
        if acknowledged:
            try:
                await self._call_with_token({"maxEvents": 0, "ack": acknowledged}, 0.0)
            except (Unavailable, Unreachable):
                return
            self._store.set_acknowledged(acknowledged)

    async def check(self) -> str:
        """Get an access token and read the server's keys. Return the issuer. Changes nothing at the server."""
        await self._access_token()
        await self._public_keys(steady_seconds())
        return (await self._server_metadata()).issuer

    async def _call_with_token(self, body: dict[str, Any], more_seconds: float) -> Any:
        for is_last in (False, True):
            token = await self._access_token()
            try:
                return await self._caller.call(
                    "POST", self._options.endpoint, token=token, json=body, more_seconds=more_seconds
                )
            except Unauthorized:
                self._token = None
                if is_last:
                    raise
        raise AssertionError("unreachable")

    async def _access_token(self) -> str:
        if self._token is None or steady_seconds() >= self._token_ends - RENEW_BEFORE_SECONDS:
            metadata = await self._server_metadata()
            endpoint = metadata.token_endpoint
            if isinstance(self._credentials, TlsCertificate):
                endpoint = metadata.mtls_endpoint_aliases.get("token_endpoint", endpoint)
            form = {
                "grant_type": "client_credentials",
                "scope": self._options.scope,
                **self._credentials.form(metadata.issuer),
            }
            response = await self._caller.call(
                "POST",
                endpoint,
                content=urllib.parse.urlencode(form).encode(),
                headers={"Content-Type": "application/x-www-form-urlencoded", **self._credentials.headers()},
            )
            self._token = decode(response, _AccessToken)
            self._token_ends = steady_seconds() + self._token.expires_in
        return self._token.access_token

    async def _server_metadata(self) -> _Metadata:
        if self._metadata is None:
            self._metadata = decode(await self._caller.call("GET", METADATA_PATH), _Metadata)
        return self._metadata

    async def _verify(self, jti: str, token: str, received: float) -> None:
        parsed = parse(token)
        try:
            verify(parsed, await self._public_keys(received - JWKS_SECONDS))
        except UnknownKey:
            # The key may be newer than the JWKS that was read before the token arrived.
            verify(parsed, await self._public_keys(received))
        claims, audience = parsed.claims, self._options.audience or self._credentials.client_id
        if str(parsed.header.get("typ", "jwt")).lower() not in TOKEN_TYPES:
            raise VerificationFailed("it is not an event token: its typ says so")
        if claims.get("jti") != jti:
            raise VerificationFailed("the jti of the token is another one")
        if self._options.issuer is not None and claims.get("iss") != self._options.issuer:
            raise WrongIssuer("the issuer is not the expected one")
        found = claims.get("aud")
        if audience not in (found if isinstance(found, list) else [found]):
            raise WrongAudience("the token is for another audience")

    async def _public_keys(self, read_after: float) -> Mapping[str, PublicKey]:
        """The keys of the server, read after this time of the steady clock."""
        if self._keys_read_at is None or self._keys_read_at < read_after:
            now = steady_seconds()
            metadata = await self._server_metadata()
            self._keys = read_jwks(decode(await self._caller.call("GET", metadata.jwks_uri), dict))
            self._keys_read_at = now
        return self._keys


class WrongIssuer(VerificationFailed):
    """The token comes from another issuer than expected."""


class WrongAudience(VerificationFailed):
    """The token is for another client."""


def _error_code(error: VerificationFailed) -> str:
    """The code of RFC 8935 for a token that was refused."""
    if isinstance(error, UnknownKey):
        return "invalid_key"
    if isinstance(error, WrongIssuer):
        return "invalid_issuer"
    if isinstance(error, WrongAudience):
        return "invalid_audience"
    return "invalid_request" if "signed token" in str(error) else "authentication_failed"


class BlockingEventReceiver(BlockingClient[EventReceiver]):
    """A receiver, for programs without asyncio: the same methods as `EventReceiver`."""

    def __init__(
        self,
        url: str,
        credentials: Credentials,
        folder: Path,
        options: ReceiverOptions = DEFAULTS,
        *,
        runtime: Runtime | None = None,
    ) -> None:
        runtime = blocking_runtime(runtime, options.http)
        super().__init__(EventReceiver(url, credentials, folder, options, runtime=runtime))

    @property
    def store(self) -> EventStore:
        return self.client.store

    @property
    def has_errors(self) -> bool:
        """Whether refused tokens wait to be reported with the next poll."""
        return self.client.has_errors

    poll = blocking(EventReceiver.poll)
    acknowledge = blocking(EventReceiver.acknowledge)
    check = blocking(EventReceiver.check)
    handle_stored = blocking(EventReceiver.handle_stored)
    run = blocking(EventReceiver.run)
