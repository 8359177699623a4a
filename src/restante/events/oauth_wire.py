"""How the token endpoint writes errors: RFC 6749, 5.2: `{"error": "…", "error_description": "…"}`.

RestanteError
├── OAuthError           400  invalid_request
│   ├── InvalidScope          invalid_scope
│   └── UnsupportedGrant      unsupported_grant_type
└── InvalidClient        401  invalid_client; why not is told only where it helps nobody to guess
"""

import re
from typing import Annotated, Any, ClassVar

import msgspec

from restante.core.errors import ComeBackLater, NotAuthenticated, RestanteError
from restante.web.answer import Answer, json_answer

# RFC 6749 allows no other characters in a description.
_NOT_DESCRIBING = re.compile(r"[^\x20\x21\x23-\x5b\x5d-\x7e]")
_CODES = {429: "temporarily_unavailable", 500: "server_error", 503: "temporarily_unavailable"}
_PRAGMA = (b"pragma", b"no-cache")
_BASIC = (b"www-authenticate", b'Basic realm="token", charset="UTF-8"')

_encoder = msgspec.json.Encoder()


class OAuthError(RestanteError):
    """The token request is not as it must be."""

    status = 400
    code: ClassVar[str] = "invalid_request"


class InvalidScope(OAuthError):
    """The client may not have this scope."""

    code: ClassVar[str] = "invalid_scope"


class UnsupportedGrant(OAuthError):
    """The grant type must be client_credentials."""

    code: ClassVar[str] = "unsupported_grant_type"


class InvalidClient(NotAuthenticated):
    """client authentication failed"""

    code: ClassVar[str] = "invalid_client"

    def __init__(self, message: str | None = None, *, with_header: bool = False) -> None:
        super().__init__(message)
        # Who tried with an Authorization header is told what it may hold.
        self.with_header = with_header


class TokenRefusal(msgspec.Struct):
    """Every refusal."""

    error: Annotated[str, msgspec.Meta(description="What went wrong, for programs.", examples=["invalid_client"])]
    error_description: Annotated[str, msgspec.Meta(description="What went wrong, for people.")]


class OAuthShape:
    name = "OAuth"
    error_type = TokenRefusal

    def envelope(self, data: dict[str, Any]) -> dict[str, Any]:
        return data

    def success(self, value: Any, status: int = 200) -> Answer:
        return json_answer(_encoder.encode(value), status, _PRAGMA)

    def error(self, error: RestanteError) -> Answer:
        body = TokenRefusal(error_code(error), _NOT_DESCRIBING.sub("'", error.message))
        headers = [_PRAGMA]
        if isinstance(error, InvalidClient) and error.with_header:
            headers.append(_BASIC)
        if isinstance(error, ComeBackLater):
            headers.append((b"retry-after", b"%d" % error.retry_after_seconds))
        return json_answer(_encoder.encode(body), error.status, *headers)


def error_code(error: RestanteError) -> str:
    return getattr(error, "code", None) or _CODES.get(error.status, OAuthError.code)


SHAPE = OAuthShape()
