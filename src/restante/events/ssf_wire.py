"""How shared signals are written: a success is the object itself, an error `{"err", "description"}` as RFC 8935 has it.

400 invalid_request   401 authentication_failed   403 access_denied   404 not_found   409 conflict
429 too_many_requests   503 temporarily_unavailable   500 server_error
"""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from restante.core.errors import ComeBackLater, NotAuthenticated, RestanteError
from restante.web.answer import Answer, json_answer

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


class SignalsError(msgspec.Struct):
    """Every refusal."""

    err: Annotated[str, Meta(description="What went wrong, for programs.", examples=["invalid_request"])]
    description: Annotated[str, Meta(description="What went wrong, for people.")]


class SignalsShape:
    """The success and error bodies of shared signals."""

    name = "Signals"
    error_type = SignalsError

    def envelope(self, data: dict[str, Any]) -> dict[str, Any]:
        return data

    def success(self, value: Any, status: int = 200) -> Answer:
        return Answer(204) if status == 204 else json_answer(_encoder.encode(value), status)

    def error(self, error: RestanteError) -> Answer:
        headers: list[tuple[bytes, bytes]] = []
        if isinstance(error, NotAuthenticated):
            headers.append((b"www-authenticate", b"Bearer"))
        if isinstance(error, ComeBackLater):
            headers.append((b"retry-after", b"%d" % error.retry_after_seconds))
        body = SignalsError(_CODES.get(error.status, "server_error"), error.message)
        return json_answer(_encoder.encode(body), error.status, *headers)


SHAPE = SignalsShape()
