"""The errors of the token endpoint, and the code that each error has in a response (RFC 6749, 5.2).

RestanteError
├── OAuthError           400  invalid_request
│   ├── InvalidScope          invalid_scope
│   └── UnsupportedGrant      unsupported_grant_type
└── InvalidClient        401  invalid_client; details only where they do not help an attacker
"""

from typing import ClassVar, Literal

from restante.core.errors import NotAuthenticated, RestanteError

_CODES = {429: "temporarily_unavailable", 500: "server_error", 503: "temporarily_unavailable"}


# Why the token endpoint, or a route that needs an access token, refuses a client.
RefusalReason = Literal[
    "unknown_client",
    "suspended",
    "other_method",
    "credentials",
    "secret",
    "assertion",
    "assertion_replayed",
    "certificate_missing",
    "certificate_subject",
    "certificate_expired",
    "scope",
    "request",
    "rate_limited",
    "token",
    "token_expired",
    "token_certificate",
    "token_scope",
]


class OAuthError(RestanteError):
    """The token request is invalid."""

    status = 400
    code: ClassVar[str] = "invalid_request"


class InvalidScope(OAuthError):
    """The client does not have this scope."""

    code: ClassVar[str] = "invalid_scope"


class UnsupportedGrant(OAuthError):
    """The grant type must be client_credentials."""

    code: ClassVar[str] = "unsupported_grant_type"


class InvalidClient(NotAuthenticated):
    """client authentication failed"""

    code: ClassVar[str] = "invalid_client"

    def __init__(
        self, message: str | None = None, *, with_header: bool = False, reason: RefusalReason = "credentials"
    ) -> None:
        super().__init__(message)
        # For operators; it is not in the response.
        self.reason = reason
        # RFC 6749: a request with an Authorization header gets a WWW-Authenticate header.
        self.with_header = with_header


def error_code(error: RestanteError) -> str:
    return getattr(error, "code", None) or _CODES.get(error.status, OAuthError.code)
