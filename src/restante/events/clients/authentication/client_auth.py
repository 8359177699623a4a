"""Authenticates the sender of a token request, with exactly one of three methods.

    Authorization: Basic …                     client_secret_basic   development only
    client_assertion_type, client_assertion    private_key_jwt
    client_id and a client certificate         tls_client_auth

Each client is registered for one method; another method does not authenticate it. A caller cannot distinguish an
unknown client, a suspended client and a failed authentication.
"""

import base64
import binascii
import hmac
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote_plus

from restante.database.database import Database
from restante.events.clients import clients
from restante.events.clients.authentication import assertions
from restante.events.clients.authentication.assertions import AssertionRules, UnknownSignature, VerifiedAssertion
from restante.events.clients.authentication.oauth_errors import InvalidClient, OAuthError, RefusalReason
from restante.events.clients.authentication.remote_keys import RemoteKeys
from restante.events.clients.clients import AuthMethod, EventClient
from restante.identity import secret_tokens
from restante.identity.clients import subject_dn
from restante.identity.clients.client_certificates import ClientCertificate


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """The parts of a token request that authenticate its sender."""

    form: Mapping[str, str]
    authorization: str | None
    certificate: ClientCertificate | None
    audiences: frozenset[str]  # accepted `aud` values of an assertion
    now: float


@dataclass(frozen=True, slots=True)
class AuthenticatedClient:
    """A client that authenticated. Its assertion is consumed when the token is issued."""

    client: EventClient
    assertion: VerifiedAssertion | None = None


class ClientAuth:
    def __init__(
        self,
        database: Database,
        remote_keys: RemoteKeys,
        *,
        is_development: bool,
        assertion_seconds_max: float,
        assertion_algorithms: tuple[str, ...],
    ) -> None:
        self._database = database
        self._remote_keys = remote_keys
        self._assertion_algorithms = assertion_algorithms
        self._is_development = is_development
        self._assertion_seconds_max = assertion_seconds_max

    async def authenticate(self, request: TokenRequest) -> AuthenticatedClient:
        """Authenticate the sender; raise InvalidClient if that fails."""
        method = auth_method(request)
        if method == "client_secret_basic":
            return await self._by_secret(request)
        if method == "private_key_jwt":
            return await self._by_assertion(request)
        return await self._by_certificate(request)

    async def _by_secret(self, request: TokenRequest) -> AuthenticatedClient:
        if not self._is_development:
            raise InvalidClient("client_secret_basic is for development only", with_header=True)
        client_id, secret = _decode_basic(request.authorization or "")
        _check_client_id_matches(request.form, client_id)
        client = await self._find(client_id, "client_secret_basic")
        known = client.credentials.secret_hash
        if known is None or not hmac.compare_digest(known, secret_tokens.digest(secret)):
            raise InvalidClient(with_header=True, reason="secret")
        return AuthenticatedClient(client)

    async def _by_assertion(self, request: TokenRequest) -> AuthenticatedClient:
        text = request.form["client_assertion"]
        with _reason("assertion"):
            client_id = assertions.unverified_client_id(text)
        _check_client_id_matches(request.form, client_id)
        client = await self._find(client_id, "private_key_jwt")
        client = await self._remote_keys.current(client, int(request.now * 1000))
        try:
            return self._verified(request, client)
        except UnknownSignature:
            # The client may have published a new key since its address was read.
            newer = await self._remote_keys.newer(client)
            if newer is None:
                raise
            return self._verified(request, newer)

    def _verified(self, request: TokenRequest, client: EventClient) -> AuthenticatedClient:
        jwks = client.credentials.jwks
        if jwks is None:
            raise InvalidClient
        rules = AssertionRules(request.audiences, self._assertion_algorithms, self._assertion_seconds_max)
        text = request.form["client_assertion"]
        with _reason("assertion"):
            return AuthenticatedClient(client, assertions.verify(text, jwks, client.client_id, rules, request.now))

    async def _by_certificate(self, request: TokenRequest) -> AuthenticatedClient:
        certificate = request.certificate
        client = await self._find(request.form["client_id"], "tls_client_auth")
        if certificate is None:
            raise InvalidClient(reason="certificate_missing")
        registered = client.credentials.subject_dn
        if registered is None or certificate.subject != _canonical(registered):
            raise InvalidClient(reason="certificate_subject")
        if not certificate.is_valid_at(request.now):
            raise InvalidClient(reason="certificate_expired")
        return AuthenticatedClient(client)

    async def _find(self, client_id: str, method: AuthMethod) -> EventClient:
        """The client; raise InvalidClient, in the same way for every reason, if it may not use this method now."""
        client = await self._database.read(clients.find, client_id)
        with_header = method == "client_secret_basic"
        if client is None:
            raise InvalidClient(with_header=with_header, reason="unknown_client")
        if client.suspended_at is not None:
            raise InvalidClient(with_header=with_header, reason="suspended")
        if client.credentials.method != method:
            raise InvalidClient(with_header=with_header, reason="other_method")
        return client


def claimed_client_id(request: TokenRequest) -> str | None:
    """The client that the request claims to be from, without any proof."""
    try:
        if "client_assertion" in request.form:
            return assertions.unverified_client_id(request.form["client_assertion"])
        if request.authorization is not None:
            return _decode_basic(request.authorization)[0]
    except InvalidClient:
        return None
    return request.form.get("client_id")


@contextmanager
def _reason(reason: RefusalReason) -> Iterator[None]:
    try:
        yield
    except InvalidClient as error:
        error.reason = reason
        raise


def auth_method(request: TokenRequest) -> AuthMethod:
    """Return the method that the request uses. Two methods at once are refused, because they may disagree."""
    form = request.form
    has_assertion = "client_assertion" in form or "client_assertion_type" in form
    if "client_secret" in form:
        raise InvalidClient("client_secret_post is not offered", with_header=request.authorization is not None)
    if request.authorization is not None:
        if has_assertion:
            raise OAuthError("use one method of client authentication, not several")
        return "client_secret_basic"
    if has_assertion:
        if form.get("client_assertion_type") != assertions.ASSERTION_TYPE or "client_assertion" not in form:
            raise OAuthError(f"client_assertion needs the client_assertion_type {assertions.ASSERTION_TYPE}")
        return "private_key_jwt"
    if "client_id" not in form:
        raise InvalidClient("the request has no client authentication")
    return "tls_client_auth"


def _check_client_id_matches(form: Mapping[str, str], client_id: str) -> None:
    if form.get("client_id", client_id) != client_id:
        raise OAuthError("client_id must be the client that authenticates")


def _decode_basic(authorization: str) -> tuple[str, str]:
    """Return client_id and secret; each is form-encoded inside the credentials (RFC 6749, 2.3.1)."""
    scheme, _, encoded = authorization.partition(" ")
    try:
        if scheme.lower() != "basic":
            raise ValueError
        client_id, colon, secret = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")
    except (ValueError, binascii.Error):
        raise InvalidClient(with_header=True) from None
    if not colon:
        raise InvalidClient(with_header=True)
    return unquote_plus(client_id), unquote_plus(secret)


_canonical = lru_cache(1024)(subject_dn.canonical)
