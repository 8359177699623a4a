"""The response format of event polling: Open Banking's error body, and the interaction id header.

The body of a success is the object itself. A 401 has no body, only a `WWW-Authenticate` header.

Each version of the API has its own format: version 4.0 replaces the error codes by codes of four characters, version
3.1 sends them as they are. Operators' routes belong to no version: they send the long codes.

Invariant: an error body fits the schemas of Open Banking, whatever its error says. Texts are cut to their lengths.
"""

import re
import uuid
from http import HTTPStatus
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta
from starlette.requests import Request

from restante.core.errors import BadInput, NotAuthenticated, RestanteError, RetryLater
from restante.events.api_versions import Version
from restante.events.errors import InvalidHeader, NotAcceptable, error_code, short_error_code
from restante.web.errors.challenges import challenge
from restante.web.response import JSON, NO_STORE, ApiResponse, Headers
from restante.web.routes import Header, JsonFormat

INTERACTION_ID = b"x-fapi-interaction-id"
# Open Banking specifies a UUID, but clients in the field send any short text: every safe value is echoed.
IS_INTERACTION_ID = re.compile(rb"[A-Za-z0-9_.~:+/=-]{1,128}").fullmatch

JSON_UTF8 = (b"content-type", b"application/json; charset=utf-8")

# The longest texts of `OBErrorResponse1` and `OBError1`.
TEXT_CHARACTERS_MAX = 500
CODE_CHARACTERS_MAX = 40

# 422: the idempotency key was used for another request.
_HEADER_AT_FAULT = {406: "Accept", 415: "Content-Type", 422: "Idempotency-Key"}

_encoder = msgspec.json.Encoder()


class ErrorItem(msgspec.Struct, rename="pascal", omit_defaults=True):
    error_code: Annotated[str, Meta(description="What went wrong, for programs.", examples=["UK.OBIE.Field.Invalid"])]
    message: Annotated[str, Meta(description="What went wrong, for people.")]
    path: Annotated[str | None, Meta(description="The field or header at fault.", examples=["maxEvents"])] = None


class ErrorBody(msgspec.Struct, rename="pascal"):
    """The body of every error except 401."""

    code: Annotated[str, Meta(description="The status and its name.", examples=["400 BadRequest"])]
    id: Annotated[str, Meta(description="Identifies this error response, for support requests.")]
    message: Annotated[str, Meta(description="What went wrong, for people.")]
    errors: list[ErrorItem]


class BareJsonFormat(JsonFormat):
    """A format whose successes are the object itself, without an envelope."""

    content_type: ClassVar[tuple[bytes, bytes]] = JSON

    def success(self, value: Any, status: int = 200) -> ApiResponse:
        return ApiResponse(204) if status == 204 else self._json(value, status)

    def _json(self, value: Any, status: int, *headers: tuple[bytes, bytes]) -> ApiResponse:
        return ApiResponse(status, (self.content_type, NO_STORE, *headers), _encoder.encode(value))


class EventsResponseFormat(BareJsonFormat):
    """The success and error bodies of event polling."""

    name = "Events"
    error_type = ErrorBody
    response_headers = (Header("x-fapi-interaction-id", "The value of the request, or a new UUID.", required=True),)

    def error(self, error: RestanteError) -> ApiResponse:
        if isinstance(error, NotAuthenticated):
            return ApiResponse(401, (NO_STORE, *challenge(error)))
        message = _cut(error.message) or _status_name(error.status)
        item = ErrorItem(self.error_code(error), message, _cut(_path(error) or "") or None)
        body = ErrorBody(_status_name(error.status), str(uuid.uuid4()), message, [item])
        return self._json(body, error.status, *challenge(error), *retry_after(error))

    def error_code(self, error: RestanteError) -> str:
        return error_code(error)

    def finalize(self, request: Request, response: ApiResponse) -> ApiResponse:
        received = _interaction_ids(request)
        only = received[0] if len(received) == 1 else b""
        return response.with_headers((INTERACTION_ID, only if IS_INTERACTION_ID(only) else new_interaction_id()))


class OpenBankingFormat(EventsResponseFormat):
    """The format of the routes that Open Banking specifies: its media type, and the long error codes of version 3.1."""

    name = "EventsV3"
    content_type = JSON_UTF8
    request_headers = (
        Header(
            "x-fapi-interaction-id",
            "Identifies the exchange, for support requests; a UUID. The response has the same one, or a new one.",
            {"type": "string", "pattern": "^[A-Za-z0-9_.~:+/=-]{1,128}$"},
        ),
    )


class OpenBankingFormatV4(OpenBankingFormat):
    """The format of version 4.0: error codes of four characters."""

    name = "EventsV4"

    def error_code(self, error: RestanteError) -> str:
        return short_error_code(error)


def retry_after(error: RestanteError) -> Headers:
    """Return the `Retry-After` header of an error, if it has one."""
    return ((b"retry-after", b"%d" % error.retry_after_seconds),) if isinstance(error, RetryLater) else ()


def _interaction_ids(request: Request) -> list[bytes]:
    """Return the header values without surrounding blanks, which not every HTTP server removes."""
    return [value.strip(b" \t") for name, value in request.headers.raw if name == INTERACTION_ID]


def new_interaction_id() -> bytes:
    return str(uuid.uuid4()).encode()


def _path(error: RestanteError) -> str | None:
    if isinstance(error, BadInput):
        return error.field
    return _HEADER_AT_FAULT.get(error.status)


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_CHARACTERS_MAX else text[: TEXT_CHARACTERS_MAX - 1] + "…"


def _status_name(status: int) -> str:
    """`400 BadRequest`."""
    words = HTTPStatus(status).phrase.replace("-", " ").split()
    return f"{status} {''.join(word.capitalize() for word in words)}"[:CODE_CHARACTERS_MAX]


RESPONSE_FORMAT = EventsResponseFormat()
V3 = OpenBankingFormat()
V4 = OpenBankingFormatV4()
BY_VERSION: dict[Version, OpenBankingFormat] = {"v4.0": V4, "v3.1": V3}


def require_acceptable(request: Request) -> None:
    """Raise NotAcceptable if the client does not accept JSON, and InvalidHeader for an unsafe interaction id."""
    accept = ",".join(request.headers.getlist("accept"))
    if not accepts_json(accept.encode("latin-1")):
        raise NotAcceptable()
    received = _interaction_ids(request)
    if len(received) > 1 or (received and not IS_INTERACTION_ID(received[0])):
        raise InvalidHeader("x-fapi-interaction-id", "one value of 1 to 128 letters, digits and any of _.~:+/=-")


def accepts_json(accept: bytes) -> bool:
    """Return whether an Accept header allows application/json. The most specific matching range decides."""
    if not accept.strip():
        return True
    weights: dict[bytes, bool] = {}
    for part in accept.lower().split(b","):
        media_range, *parameters = (each.strip() for each in part.split(b";"))
        weights[media_range] = not any(_is_zero_weight(each) for each in parameters)
    for media_range in (b"application/json", b"application/*", b"*/*"):
        if media_range in weights:
            return weights[media_range]
    return False


def _is_zero_weight(parameter: bytes) -> bool:
    name, _, value = parameter.partition(b"=")
    return name.strip() == b"q" and re.fullmatch(rb"0(\.0{0,3})?", value.strip()) is not None
