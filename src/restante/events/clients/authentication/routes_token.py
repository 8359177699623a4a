"""`POST /token`: access tokens by the client credentials grant (RFC 6749, 4.4), and the server metadata document.

A sender that fails to authenticate too often is refused for a while, before its request is read. Senders are
distinguished by certificate, or by address if they have none.
"""

import math
import time
from collections.abc import Callable, Mapping
from typing import Literal
from urllib.parse import parse_qsl

import msgspec
from msgspec import UNSET, UnsetType
from starlette.requests import Request

from restante.core.address_group import address_group
from restante.core.errors import NotAuthenticated, RestanteError, TooManyRequests
from restante.core.token_bucket import TokenBuckets
from restante.database.connection import Connection
from restante.database.database import Database
from restante.events.clients import clients
from restante.events.clients.access import TOKEN_PATH, AccessOptions, TokenCounters
from restante.events.clients.authentication import assertions
from restante.events.clients.authentication.client_auth import (
    AuthenticatedClient,
    ClientAuth,
    TokenRequest,
    claimed_client_id,
)
from restante.events.clients.authentication.oauth_errors import (
    InvalidClient,
    InvalidScope,
    OAuthError,
    UnsupportedGrant,
    error_code,
)
from restante.events.clients.authentication.remote_keys import RemoteKeys
from restante.events.clients.authentication.response_format import RESPONSE_FORMAT
from restante.events.clients.refusals import Refusals
from restante.identity.clients import client_tokens
from restante.identity.clients.client_certificates import ClientCertificate
from restante.identity.clients.scopes import SCOPES
from restante.web.client_cert import ClientCertificates
from restante.web.origin import peer_address_of
from restante.web.request import ApiRequest, read_body
from restante.web.response import ApiResponse
from restante.web.routes import Access, RequestBody, ResponseInfo, Route, RouteGroup

TAG = "event access"
DISCOVERY_PATH = "/.well-known/oauth-authorization-server"
BODY_BYTES_MAX = 65_536
FIELDS_MAX = 32
MEDIA_TYPE = "application/x-www-form-urlencoded"


class TokenForm(msgspec.Struct):
    """The parameters of RFC 6749 (4.4), RFC 7523 and RFC 8705. Which ones a client sends depends on its method."""

    grant_type: Literal["client_credentials"]
    scope: str | UnsetType = UNSET
    client_id: str | UnsetType = UNSET
    client_assertion_type: Literal["urn:ietf:params:oauth:client-assertion-type:jwt-bearer"] | UnsetType = UNSET
    client_assertion: str | UnsetType = UNSET


class TokenResponse(msgspec.Struct, frozen=True):
    access_token: str
    token_type: str
    expires_in: int
    scope: str


class ServerMetadata(msgspec.Struct, frozen=True):
    """The metadata of RFC 8414, with the members of RFC 8705 and the polling limits of Open Banking."""

    issuer: str
    token_endpoint: str
    jwks_uri: str
    grant_types_supported: list[str]
    scopes_supported: list[str]
    token_endpoint_auth_methods_supported: list[str]
    token_endpoint_auth_signing_alg_values_supported: list[str]
    tls_client_certificate_bound_access_tokens: bool
    events_endpoint: str
    events_max: int
    events_wait_seconds: int
    response_types_supported: list[str] | UnsetType = UNSET
    mtls_endpoint_aliases: dict[str, str] | UnsetType = UNSET


_METADATA = ResponseInfo(200, ServerMetadata)


class TokenRoutes:
    def __init__(
        self,
        database: Database,
        client_certificates: ClientCertificates,
        options: AccessOptions,
        counters: TokenCounters,
        refusals: Refusals,
        remote_keys: RemoteKeys,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._client_certificates = client_certificates
        self._options = options
        self._counters = counters
        self._refusals = refusals
        self._clock = clock
        self._auth = ClientAuth(
            database,
            remote_keys,
            is_development=options.is_development,
            assertion_seconds_max=options.assertion_seconds_max,
            assertion_algorithms=options.assertion_algorithms,
        )
        self._failures = TokenBuckets(options.failures_per_minute / 60, options.failures_per_minute, 100_000)

    def routes(self) -> list[Route]:
        group = RouteGroup(TAG, RESPONSE_FORMAT)
        return [
            group.post(
                TOKEN_PATH,
                self.token,
                Access.open,
                "Get an access token (client credentials)",
                errors=(400, 401, 413, 429),
                request_body=RequestBody(TokenForm, (MEDIA_TYPE,)),
                examples=({"grant_type": "client_credentials", "scope": "eventpolling"},),
                responses=(ResponseInfo(200, TokenResponse),),
            ),
            group.get(DISCOVERY_PATH, self.discover, Access.open, "How to get an access token", responses=(_METADATA,)),
        ]

    async def token(self, request: ApiRequest) -> ApiResponse:
        """Form-encoded: `grant_type=client_credentials`, and `scope` for less than all scopes of the client."""
        outcome = "failed"
        try:
            granted = await self._grant_unless_limited(request)
            outcome = "granted"
            return RESPONSE_FORMAT.success(granted)
        except RestanteError as error:
            outcome = "rate_limited" if isinstance(error, TooManyRequests) else error_code(error)
            raise
        finally:
            self._counters.count(outcome)

    async def discover(self, _request: ApiRequest) -> ApiResponse:
        return RESPONSE_FORMAT.success(self.metadata())

    def metadata(self) -> dict[str, object]:
        """Return the metadata of RFC 8414, with the members of RFC 8705 and the polling limits of Open Banking.

        What needs client certificates is listed only if the server sees them. There is no authorization endpoint; RFC
        8414 requires `response_types_supported` nevertheless, and client libraries refuse an empty list.
        """
        options = self._options
        base_url = options.base_url
        methods = (
            ["tls_client_auth"] * options.has_certificates
            + ["private_key_jwt"]
            + ["client_secret_basic"] * options.is_development
        )
        return {
            "issuer": base_url,
            "token_endpoint": base_url + TOKEN_PATH,
            "jwks_uri": base_url + "/jwks.json",
            "grant_types_supported": ["client_credentials"],
            "response_types_supported": ["token"],
            "scopes_supported": list(SCOPES),
            "token_endpoint_auth_methods_supported": methods,
            "token_endpoint_auth_signing_alg_values_supported": list(options.assertion_algorithms),
            "tls_client_certificate_bound_access_tokens": options.has_certificates,
            **self._mtls_aliases(),
            "events_endpoint": base_url + options.events_path,
            "events_max": options.events_max,
            "events_wait_seconds": options.events_wait_seconds,
        }

    def _mtls_aliases(self) -> dict[str, object]:
        options = self._options
        if not options.has_certificates:
            return {}
        mtls_url = options.mtls_url or options.base_url
        endpoints = {"token_endpoint": mtls_url + TOKEN_PATH, "events_endpoint": mtls_url + options.events_path}
        return {"mtls_endpoint_aliases": endpoints}

    async def _grant_unless_limited(self, request: ApiRequest) -> TokenResponse:
        certificate = self._client_certificates.of_request(request.http)
        sender = hash(certificate.thumbprint if certificate else address_group(request.address))
        wait = self._failures.wait(sender, time.monotonic())
        if wait > 0:
            # Counted only: a sender that goes on and on must not fill the log.
            self._refusals.counts["rate_limited"] += 1
            raise TooManyRequests("too many failed authentications", retry_after_seconds=math.ceil(wait))
        try:
            return await self._grant(request, certificate)
        except NotAuthenticated:
            self._failures.acquire(sender, time.monotonic())
            raise

    def _is_private(self, request: Request) -> bool:
        is_encrypted = request.scope["scheme"] == "https"
        is_behind_proxy = self._client_certificates.is_trusted(peer_address_of(request))
        return is_encrypted or is_behind_proxy or self._options.is_development

    async def _grant(self, api_request: ApiRequest, certificate: ClientCertificate | None) -> TokenResponse:
        options, request = self._options, api_request.http
        if not self._is_private(request):
            raise OAuthError("event polling is not offered in plain HTTP beyond this machine")
        form = await read_form(request)
        authorizations = request.headers.getlist("authorization")
        if len(authorizations) > 1:
            raise OAuthError("send one Authorization header")
        token_request = TokenRequest(
            form,
            authorizations[0] if authorizations else None,
            certificate,
            options.audiences(),
            self._clock(),
        )
        try:
            return await self._grant_to(token_request)
        except RestanteError as error:
            self._refusals.record(claimed_client_id(token_request), error, api_request.address)
            raise

    async def _grant_to(self, request: TokenRequest) -> TokenResponse:
        options, certificate = self._options, request.certificate
        authenticated = await self._auth.authenticate(request)
        if options.is_binding_required and (certificate is None or not certificate.is_valid_at(request.now)):
            raise InvalidClient(
                "a client certificate is required: access tokens are bound to it", reason="certificate_missing"
            )
        scope = granted_scope(request.form, authenticated)
        thumbprint = certificate.thumbprint if certificate else None
        token = await self._database.write(issue_token, authenticated, scope, thumbprint, options.token_seconds)
        return TokenResponse(token, "Bearer", options.token_seconds, scope)


async def read_form(request: Request) -> Mapping[str, str]:
    """Return the parameters, each at most once; one without a value counts as absent (RFC 6749, 3.2)."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != MEDIA_TYPE:
        raise OAuthError(f"the body must be {MEDIA_TYPE}")
    body = await read_body(request, BODY_BYTES_MAX)
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, strict_parsing=bool(body), errors="strict", max_num_fields=FIELDS_MAX
        )
    except ValueError:
        raise OAuthError(f"the body must be valid {MEDIA_TYPE}, of at most {FIELDS_MAX} parameters") from None
    form = dict(pairs)
    if len(form) != len(pairs):
        raise OAuthError("each parameter may occur once")
    form = {name: value for name, value in form.items() if value}
    if "grant_type" not in form:
        raise OAuthError("grant_type is required: client_credentials")
    if form["grant_type"] != "client_credentials":
        raise UnsupportedGrant
    return form


def granted_scope(form: Mapping[str, str], authenticated: AuthenticatedClient) -> str:
    """Return the requested scopes, or all scopes of the client; raise InvalidScope for one that it does not have."""
    allowed = authenticated.client.scopes
    requested = frozenset(form["scope"].split(" ")) if "scope" in form else allowed
    if not requested <= allowed:
        raise InvalidScope(f"the client may have: {authenticated.client.scope}")
    return " ".join(each for each in SCOPES if each in requested)


def issue_token(
    conn: Connection, authenticated: AuthenticatedClient, scope: str, thumbprint: str | None, seconds: int
) -> str:
    """Issue a token, unless the client was suspended or its credentials changed since it authenticated."""
    client = clients.find_for_update(conn, authenticated.client.client_id)
    if client is None or client.suspended_at is not None:
        raise InvalidClient
    if not client.credentials.is_same_registration(authenticated.client.credentials):
        raise InvalidClient
    if authenticated.assertion is not None and not assertions.consume(conn, client.id, authenticated.assertion):
        raise InvalidClient("the assertion was used before: its jti must be new", reason="assertion_replayed")
    return client_tokens.issue(conn, client.id, scope, thumbprint, seconds)
