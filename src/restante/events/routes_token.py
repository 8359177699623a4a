"""`POST /token`: access tokens by the client credentials grant (RFC 6749, 4.4); and what the server says of itself.

A request costs nothing until it has been read; who fails too often is not listened to for a while, by certificate or,
without one, by address.
"""

import math
import time
from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import Request

from restante.core.errors import NotAuthenticated, RestanteError, TooManyRequests
from restante.core.token_bucket import TokenBuckets
from restante.database.connection import Connection
from restante.database.database import Database
from restante.events import assertions, client_keys, clients
from restante.events.access import TOKEN_PATH, AccessOptions, TokenTotals
from restante.events.client_auth import ClientAuth, Proven, TokenRequest
from restante.events.oauth_wire import SHAPE, InvalidClient, InvalidScope, OAuthError, UnsupportedGrant, error_code
from restante.identity import client_tokens
from restante.identity.client_certificates import ClientCertificate
from restante.web.answer import Answer
from restante.web.ask import Ask, read_body
from restante.web.origin import address_of, base_url_of
from restante.web.peer import Peers
from restante.web.routes import Access, Route

TAG = "event access"
DISCOVERY_PATH = "/.well-known/oauth-authorization-server"
BODY_BYTES_MAX = 65_536
FIELDS_MAX = 32
MEDIA_TYPE = "application/x-www-form-urlencoded"


class Token(msgspec.Struct, frozen=True):
    access_token: str
    token_type: str
    expires_in: int
    scope: str


class TokenRoutes:
    def __init__(
        self,
        database: Database,
        peers: Peers,
        options: AccessOptions,
        totals: TokenTotals,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._peers = peers
        self._options = options
        self._totals = totals
        self._clock = clock
        self._auth = ClientAuth(
            database,
            is_development=options.is_development,
            assertion_seconds_max=options.assertion_seconds_max,
        )
        self._failures = TokenBuckets(options.failures_per_minute / 60, options.failures_per_minute, 100_000)

    def routes(self) -> list[Route]:
        return [
            Route(
                "POST",
                TOKEN_PATH,
                self.token,
                Access.open,
                "Get an access token (client credentials)",
                SHAPE,
                TAG,
                refusals=(400, 401, 413, 429),
            ),
            Route("GET", DISCOVERY_PATH, self.discover, Access.open, "How to get an access token", SHAPE, TAG),
        ]

    async def token(self, ask: Ask) -> Answer:
        """Form-encoded: `grant_type=client_credentials`, `scope` if less than the client's whole scope is wanted."""
        outcome = "failed"
        try:
            granted = await self._limited(ask.request)
            outcome = "granted"
            return SHAPE.success(granted)
        except RestanteError as error:
            outcome = "rate_limited" if isinstance(error, TooManyRequests) else error_code(error)
            raise
        finally:
            self._totals.count(outcome)

    async def discover(self, ask: Ask) -> Answer:
        base_url = base_url_of(ask.request, self._options.public_url)
        return SHAPE.success(self.described(base_url))

    def described(self, base_url: str) -> dict[str, object]:
        """The metadata of RFC 8414, with what RFC 8705 adds and what Open Banking wants said of polling."""
        options = self._options
        methods = ["tls_client_auth", "private_key_jwt"] + ["client_secret_basic"] * options.is_development
        mtls_url = options.mtls_url or base_url
        return {
            "issuer": base_url,
            "token_endpoint": base_url + TOKEN_PATH,
            "jwks_uri": base_url + "/jwks.json",
            "grant_types_supported": ["client_credentials"],
            "response_types_supported": [],
            "scopes_supported": list(clients.SCOPES),
            "token_endpoint_auth_methods_supported": methods,
            "token_endpoint_auth_signing_alg_values_supported": list(client_keys.ALGORITHMS),
            "tls_client_certificate_bound_access_tokens": True,
            "mtls_endpoint_aliases": {
                "token_endpoint": mtls_url + TOKEN_PATH,
                "events_endpoint": mtls_url + options.events_path,
            },
            "events_endpoint": base_url + options.events_path,
            "events_max": options.events_max,
            "events_wait_seconds": options.events_wait_seconds,
        }

    async def _limited(self, request: Request) -> Token:
        certificate = self._peers.of_request(request)
        sender = hash(certificate.thumbprint if certificate else address_of(request))
        wait = self._failures.wait(sender, time.monotonic())
        if wait > 0:
            raise TooManyRequests("too many failures to authenticate", retry_after_seconds=math.ceil(wait))
        try:
            return await self._granted(request, certificate)
        except NotAuthenticated:
            self._failures.take(sender, time.monotonic())
            raise

    def _is_private(self, request: Request) -> bool:
        is_encrypted = request.scope["scheme"] == "https" or self._peers.is_trusted(address_of(request))
        return is_encrypted or self._options.is_development

    async def _granted(self, request: Request, certificate: ClientCertificate | None) -> Token:
        options = self._options
        if not self._is_private(request):
            raise OAuthError("event polling is not offered in plain HTTP beyond this machine")
        form = await read_form(request)
        authorizations = request.headers.getlist("authorization")
        if len(authorizations) > 1:
            raise OAuthError("send one Authorization header")
        shown = TokenRequest(
            form,
            authorizations[0] if authorizations else None,
            certificate,
            options.audiences(base_url_of(request, options.public_url)),
            self._clock(),
        )
        proven = await self._auth.prove(shown)
        if options.is_binding_required and (certificate is None or not certificate.holds_at(shown.now)):
            raise InvalidClient("a client certificate is required: access tokens are bound to it")
        scope = wanted_scope(form, proven)
        thumbprint = certificate.thumbprint if certificate else None
        token = await self._database.write(grant, proven, scope, thumbprint, options.token_seconds)
        return Token(token, "Bearer", options.token_seconds, scope)


async def read_form(request: Request) -> Mapping[str, str]:
    """The parameters, each at most once; one without a value counts as left out (RFC 6749, 3.2)."""
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
        raise OAuthError("a parameter is there twice")
    form = {name: value for name, value in form.items() if value}
    if "grant_type" not in form:
        raise OAuthError("grant_type is required: client_credentials")
    if form["grant_type"] != "client_credentials":
        raise UnsupportedGrant
    return form


def wanted_scope(form: Mapping[str, str], proven: Proven) -> str:
    """What is asked for, within what the client may have; all of that, where nothing is asked for."""
    allowed = proven.client.scopes
    wanted = frozenset(form["scope"].split(" ")) if "scope" in form else allowed
    if not wanted <= allowed:
        raise InvalidScope(f"the client may have: {proven.client.scope}")
    return " ".join(each for each in clients.SCOPES if each in wanted)


def grant(conn: Connection, proven: Proven, scope: str, thumbprint: str | None, seconds: int) -> str:
    """The token, unless the client's standing or keys have changed since it proved itself with them."""
    client = clients.held(conn, proven.client.client_id)
    if client is None or client.suspended_at is not None or client.credentials != proven.client.credentials:
        raise InvalidClient
    if proven.assertion is not None and not assertions.use(conn, client.id, proven.assertion):
        raise InvalidClient("the assertion was used before: its jti must be new")
    return client_tokens.issue(conn, client.id, scope, thumbprint, seconds)
