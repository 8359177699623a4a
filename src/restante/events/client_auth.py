"""Who asks for a token: the three ways a client can prove it, exactly one of them in a request.

    Authorization: Basic …                     client_secret_basic   development only
    client_assertion_type, client_assertion    private_key_jwt
    client_id and a client certificate         tls_client_auth

Which one a client uses is registered: a proof by another way does not count. A client that does not exist, is suspended
or fails looks the same from outside.
"""

import base64
import binascii
import hmac
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import unquote_plus

from restante.database.connection import Connection
from restante.database.database import Database
from restante.events import assertions, clients
from restante.events.assertions import Assertion
from restante.events.clients import Client, Method
from restante.events.oauth_wire import InvalidClient, OAuthError
from restante.identity import secret_tokens, subject_dn
from restante.identity.client_certificates import ClientCertificate


class TokenRequest(NamedTuple):
    """What a token request shows of its sender."""

    form: Mapping[str, str]
    authorization: str | None
    certificate: ClientCertificate | None
    audiences: frozenset[str]  # what an assertion for us may be addressed to
    now: float


class Proven(NamedTuple):
    """A client that has proven who it is. An assertion has still to be used up, when the token is given."""

    client: Client
    assertion: Assertion | None = None


class ClientAuth:
    def __init__(self, database: Database, *, is_development: bool, assertion_seconds_max: float) -> None:
        self._database = database
        self._is_development = is_development
        self._assertion_seconds_max = assertion_seconds_max

    async def prove(self, request: TokenRequest) -> Proven:
        """The client; InvalidClient if there is no proof that holds."""
        method = method_of(request)
        if method == "client_secret_basic":
            return await self._by_secret(request)
        if method == "private_key_jwt":
            return await self._by_assertion(request)
        return await self._by_certificate(request)

    async def _by_secret(self, request: TokenRequest) -> Proven:
        if not self._is_development:
            raise InvalidClient("client_secret_basic is for development only", with_header=True)
        client_id, secret = _basic(request.authorization or "")
        _check_same(request.form, client_id)
        client = await self._find(client_id, "client_secret_basic")
        known = client.credentials.secret_hash if client else None
        if client is None or known is None or not hmac.compare_digest(known, secret_tokens.digest(secret)):
            raise InvalidClient(with_header=True)
        return Proven(client)

    async def _by_assertion(self, request: TokenRequest) -> Proven:
        text = request.form["client_assertion"]
        client_id = assertions.claimed_client_id(text)
        _check_same(request.form, client_id)
        client = await self._find(client_id, "private_key_jwt")
        if client is None or client.credentials.jwks is None:
            raise InvalidClient
        jwks, seconds_max = client.credentials.jwks, self._assertion_seconds_max
        return Proven(client, assertions.verify(text, jwks, client_id, request.audiences, request.now, seconds_max))

    async def _by_certificate(self, request: TokenRequest) -> Proven:
        certificate = request.certificate
        client = await self._find(request.form["client_id"], "tls_client_auth")
        if client is None or certificate is None or client.credentials.subject_dn is None:
            raise InvalidClient
        if certificate.subject != _canonical(client.credentials.subject_dn) or not certificate.holds_at(request.now):
            raise InvalidClient
        return Proven(client)

    async def _find(self, client_id: str, method: Method) -> Client | None:
        """The client, if it may prove itself so."""
        return await self._database.read(find_active, client_id, method)


def find_active(conn: Connection, client_id: str, method: Method) -> Client | None:
    client = clients.find(conn, client_id)
    is_usable = client is not None and client.suspended_at is None and client.credentials.method == method
    return client if is_usable else None


def method_of(request: TokenRequest) -> Method:
    """The way the request tries. Two at once are refused: nobody could say which one was meant."""
    form = request.form
    has_assertion = "client_assertion" in form or "client_assertion_type" in form
    if "client_secret" in form:
        raise InvalidClient("client_secret_post is not offered", with_header=request.authorization is not None)
    if request.authorization is not None:
        if has_assertion:
            raise OAuthError("use one method of client authentication, not several")
        return "client_secret_basic"
    if has_assertion:
        if form.get("client_assertion_type") != assertions.TYPE or "client_assertion" not in form:
            raise OAuthError(f"client_assertion needs the client_assertion_type {assertions.TYPE}")
        return "private_key_jwt"
    if "client_id" not in form:
        raise InvalidClient("the request says nothing of who asks")
    return "tls_client_auth"


def _check_same(form: Mapping[str, str], client_id: str) -> None:
    if form.get("client_id", client_id) != client_id:
        raise OAuthError("client_id must be the client that authenticates")


def _basic(authorization: str) -> tuple[str, str]:
    """Name and secret, each form-encoded before they were joined (RFC 6749, 2.3.1)."""
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
