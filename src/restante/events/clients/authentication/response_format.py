"""The response format of the token endpoint (RFC 6749, 5.2): `{"error": "…", "error_description": "…"}`."""

import re
from typing import Annotated, Any

import msgspec

from restante.core.errors import RestanteError
from restante.events.clients.authentication.oauth_errors import InvalidClient, error_code
from restante.events.response_format import BareJsonFormat, retry_after
from restante.web.response import ApiResponse, json_response

# The characters that RFC 6749 does not allow in a description.
_FORBIDDEN_IN_DESCRIPTION = re.compile(r"[^\x20\x21\x23-\x5b\x5d-\x7e]")
_PRAGMA = (b"pragma", b"no-cache")
_BASIC = (b"www-authenticate", b'Basic realm="token", charset="UTF-8"')

_encoder = msgspec.json.Encoder()


class OAuthErrorBody(msgspec.Struct):
    """The body of every error."""

    error: Annotated[str, msgspec.Meta(description="What went wrong, for programs.", examples=["invalid_client"])]
    error_description: Annotated[str, msgspec.Meta(description="What went wrong, for people.")]


class OAuthResponseFormat(BareJsonFormat):
    name = "OAuth"
    error_type = OAuthErrorBody

    def success(self, value: Any, status: int = 200) -> ApiResponse:
        return super().success(value, status).with_headers(_PRAGMA)

    def error(self, error: RestanteError) -> ApiResponse:
        body = OAuthErrorBody(error_code(error), _FORBIDDEN_IN_DESCRIPTION.sub("'", error.message))
        headers = [_PRAGMA]
        if isinstance(error, InvalidClient) and error.with_header:
            headers.append(_BASIC)
        return json_response(_encoder.encode(body), error.status, *headers, *retry_after(error))


RESPONSE_FORMAT = OAuthResponseFormat()
