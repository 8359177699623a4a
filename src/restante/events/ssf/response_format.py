"""The response format of Shared Signals: a success is the object itself, an error `{"err", "description"}` (RFC 8935).

400 invalid_request   401 authentication_failed   403 access_denied   404 not_found   409 conflict
429 too_many_requests   503 temporarily_unavailable   500 server_error
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from restante.core.errors import RestanteError
from restante.events.response_format import BareJsonFormat, retry_after
from restante.web.errors.challenges import challenge
from restante.web.response import ApiResponse, json_response

_CODES = {
    400: "invalid_request",
    401: "authentication_failed",
    403: "access_denied",
    404: "not_found",
    405: "invalid_request",
    406: "invalid_request",
    409: "conflict",
    413: "invalid_request",
    415: "invalid_request",
    429: "too_many_requests",
    503: "temporarily_unavailable",
}

_encoder = msgspec.json.Encoder()


class SsfError(msgspec.Struct):
    """The body of every error."""

    err: Annotated[str, Meta(description="What went wrong, for programs.", examples=["invalid_request"])]
    description: Annotated[str, Meta(description="What went wrong, for people.")]


class SsfResponseFormat(BareJsonFormat):
    """The success and error bodies of Shared Signals."""

    name = "Ssf"
    error_type = SsfError

    def error(self, error: RestanteError) -> ApiResponse:
        body = SsfError(_CODES.get(error.status, "server_error"), error.message)
        return json_response(_encoder.encode(body), error.status, *challenge(error), *retry_after(error))


RESPONSE_FORMAT = SsfResponseFormat()
