"""How event polling is written: Open Banking's error body, its error codes, and the interaction id on every answer.

    RestanteError
    ├── BadInput         InvalidHeader         400  UK.OBIE.Header.Invalid
    │                    MissingHeader         400  UK.OBIE.Header.Missing
    │                    ExpectedField         400  UK.OBIE.Field.Expected
    │                    UnsupportedEventType  400  UK.OBIE.Unsupported.EventType
    │                    MissingField, UnknownField, others  UK.OBIE.Field.Missing, .Unexpected, .Invalid
    ├── NotAcceptable                          406  UK.OBIE.Header.Invalid
    └── Conflict         AlreadyExists         409  UK.OBIE.Rules.ResourceAlreadyExists

A success is the object itself; a 401 has no body, and says in a header what is wanted.
"""

import re
import uuid
from http import HTTPStatus
from typing import Annotated, Any, ClassVar

import msgspec
from msgspec import Meta
from starlette.requests import Request

from restante.core.errors import (
    BadInput,
    ComeBackLater,
    Conflict,
    MissingField,
    NotAuthenticated,
    RestanteError,
    UnknownField,
)
from restante.web.answer import NO_STORE, Answer, json_answer

INTERACTION_ID = b"x-fapi-interaction-id"
# Open Banking asks for a UUID, clients in the field send any short text: what is safe to repeat is repeated.
IS_INTERACTION_ID = re.compile(rb"[A-Za-z0-9_.~:+/=-]{1,128}").fullmatch

_CODES = {
    403: "UK.OBIE.Reauthenticate",
    404: "UK.OBIE.Resource.NotFound",
    406: "UK.OBIE.Header.Invalid",
    409: "UK.OBIE.Rules.ResourceAlreadyExists",
    413: "UK.OBIE.Resource.InvalidFormat",
    415: "UK.OBIE.Header.Invalid",
    422: "UK.OBIE.Header.Invalid",
}
_NAMESPACE = "UK.OBIE."
_UNEXPECTED = "UK.OBIE.UnexpectedError"
# 422 is an idempotency key that was another request's.
_HEADER_AT_FAULT = {406: "Accept", 415: "Content-Type", 422: "Idempotency-Key"}

_encoder = msgspec.json.Encoder()


class InvalidHeader(BadInput):
    """A header is not what was expected."""

    code: ClassVar[str] = "UK.OBIE.Header.Invalid"


class MissingHeader(BadInput):
    """A header that is required is not there."""

    code: ClassVar[str] = "UK.OBIE.Header.Missing"


class ExpectedField(BadInput):
    """A field is wanted because of what another one says."""

    code: ClassVar[str] = "UK.OBIE.Field.Expected"


class UnsupportedEventType(BadInput):
    """There are no events of this type."""

    code: ClassVar[str] = "UK.OBIE.Unsupported.EventType"


class AlreadyExists(Conflict):
    """There is one already."""

    code: ClassVar[str] = "UK.OBIE.Rules.ResourceAlreadyExists"


class NotAcceptable(RestanteError):
    """The answer is application/json, which the Accept header does not allow."""

    status = 406


class ErrorItem(msgspec.Struct, rename="pascal", omit_defaults=True):
    error_code: Annotated[str, Meta(description="What went wrong, for programs.", examples=["UK.OBIE.Field.Invalid"])]
    message: Annotated[str, Meta(description="What went wrong, for people.")]
    path: Annotated[str | None, Meta(description="The field or header at fault.", examples=["maxEvents"])] = None


class ErrorBody(msgspec.Struct, rename="pascal"):
    """Every refusal but a 401."""

    code: Annotated[str, Meta(description="The status and its name.", examples=["400 BadRequest"])]
    id: Annotated[str, Meta(description="Of this one refusal, to quote when asking about it.")]
    message: Annotated[str, Meta(description="What went wrong, for people.")]
    errors: list[ErrorItem]


class EventsShape:
    """The success and error bodies of protocol 3."""

    name = "Events"
    error_type = ErrorBody

    def envelope(self, data: dict[str, Any]) -> dict[str, Any]:
        return data

    def success(self, value: Any, status: int = 200) -> Answer:
        return Answer(204) if status == 204 else json_answer(_encoder.encode(value), status)

    def error(self, error: RestanteError) -> Answer:
        if isinstance(error, NotAuthenticated):
            return Answer(401, (NO_STORE, (b"www-authenticate", b"Bearer")))
        headers: list[tuple[bytes, bytes]] = []
        if isinstance(error, ComeBackLater):
            headers.append((b"retry-after", b"%d" % error.retry_after_seconds))
        item = ErrorItem(error_code(error), error.message, _path(error))
        body = ErrorBody(_status_name(error.status), str(uuid.uuid4()), error.message, [item])
        return json_answer(_encoder.encode(body), error.status, *headers)

    def in_answer_to(self, request: Request, answer: Answer) -> Answer:
        sent = _interaction_ids(request)
        given = sent[0] if len(sent) == 1 else b""
        return answer.with_headers((INTERACTION_ID, given if IS_INTERACTION_ID(given) else new_interaction_id()))


def _interaction_ids(request: Request) -> list[bytes]:
    """As they were sent, without the blanks that may surround a header's value: not every server cuts them off."""
    return [value.strip(b" \t") for name, value in request.headers.raw if name == INTERACTION_ID]


def new_interaction_id() -> bytes:
    return str(uuid.uuid4()).encode()


def error_code(error: RestanteError) -> str:
    own: str | None = getattr(error, "code", None)
    if own is not None and own.startswith(_NAMESPACE):
        return own
    match error:
        case MissingField():
            return "UK.OBIE.Field.Missing"
        case UnknownField():
            return "UK.OBIE.Field.Unexpected"
        case BadInput(field="body"):
            return "UK.OBIE.Resource.InvalidFormat"
        case BadInput():
            return "UK.OBIE.Field.Invalid"
        case _:
            return _CODES.get(error.status, _UNEXPECTED)


def _path(error: RestanteError) -> str | None:
    if isinstance(error, BadInput):
        return error.field
    return _HEADER_AT_FAULT.get(error.status)


def _status_name(status: int) -> str:
    """`400 BadRequest`."""
    return f"{status} {''.join(word.capitalize() for word in HTTPStatus(status).phrase.replace('-', ' ').split())}"


SHAPE = EventsShape()


def require_acceptable(request: Request) -> None:
    """NotAcceptable for who takes no JSON; BadInput for an interaction id that cannot be repeated."""
    accept = ",".join(request.headers.getlist("accept"))
    if not accepts_json(accept.encode("latin-1")):
        raise NotAcceptable()
    sent = _interaction_ids(request)
    if len(sent) > 1 or (sent and not IS_INTERACTION_ID(sent[0])):
        raise InvalidHeader("x-fapi-interaction-id", "one value of 1 to 128 letters, digits and any of _.~:+/=-")


def accepts_json(accept: bytes) -> bool:
    """Whether a caller with this Accept header takes application/json. The most specific range that names it counts."""
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
