"""How edge commands are written: a success is the object itself, an error `{"error": "<CODE>", "message": "…", …}`.

    RestanteError
    ├── NotFound         CommandNotFound   404  COMMAND_NOT_FOUND
    ├── NotAllowed       AccessDenied      403  ACCESS_DENIED
    ├── NotAuthenticated SignatureInvalid  401  SIGNATURE_INVALID
    │                    NonceMismatch     401  NONCE_MISMATCH
    ├── Conflict         NotLeaseOwner     409  ACK_NOT_LEASE_OWNER
    │                    CommandFinished   409  COMMAND_FINISHED, with the state it is in
    │                    DuplicateActive   409  DUPLICATE_ACTIVE, with the command there is
    ├── TooManyRequests  RateLimited       429  RATE_LIMITED
    └── CommandGone                        410  COMMAND_EXPIRED

Also the contract's times: UTC ISO 8601 with Z outside, milliseconds inside.
"""

from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar

import msgspec

from restante.core.errors import (
    BadInput,
    ComeBackLater,
    Conflict,
    NotAllowed,
    NotAuthenticated,
    NotFound,
    RestanteError,
    TooManyRequests,
)
from restante.core.iso_time import iso as iso
from restante.core.iso_time import iso_not_before as iso_not_before
from restante.core.iso_time import iso_or_none as iso_or_none
from restante.core.iso_time import iso_precise as iso_precise
from restante.web.answer import Answer, json_answer

_CODES = {
    400: "INVALID_REQUEST",
    401: "UNAUTHORIZED",
    403: "FORBIDDEN",
    404: "NOT_FOUND",
    405: "METHOD_NOT_ALLOWED",
    408: "REQUEST_TIMEOUT",
    409: "CONFLICT",
    410: "GONE",
    413: "PAYLOAD_TOO_LARGE",
    415: "UNSUPPORTED_MEDIA_TYPE",
    422: "UNPROCESSABLE",
    429: "RATE_LIMITED",
    500: "INTERNAL_ERROR",
    503: "UNAVAILABLE",
}
# The last moment that is written with four digits for the year.
_LATEST_MS = 253_402_300_799_999

# For texts that are kept: not every database takes a NUL.
NO_NUL = r"^[^\x00]*\Z"

_encoder = msgspec.json.Encoder()


class CommandNotFound(NotFound):
    """There is no such command."""

    code: ClassVar[str] = "COMMAND_NOT_FOUND"


class AccessDenied(NotAllowed):
    """This device is not authorized for this site."""

    code: ClassVar[str] = "ACCESS_DENIED"


class SignatureInvalid(NotAuthenticated):
    """The signature does not hold."""

    code: ClassVar[str] = "SIGNATURE_INVALID"


class NonceMismatch(NotAuthenticated):
    """The nonce is not the one this command was dispatched with."""

    code: ClassVar[str] = "NONCE_MISMATCH"


class NotLeaseOwner(Conflict):
    """This device does not hold the command's lease."""

    code: ClassVar[str] = "ACK_NOT_LEASE_OWNER"


class CommandFinished(Conflict):
    """The command has ended."""

    code: ClassVar[str] = "COMMAND_FINISHED"

    def __init__(self, state: str) -> None:
        super().__init__(f"the command has ended: it is {state}")
        self.fields = {"command_status": state}


class DuplicateActive(Conflict):
    """There is an active command with this dedupe_key."""

    code: ClassVar[str] = "DUPLICATE_ACTIVE"

    def __init__(self, command_id: str) -> None:
        super().__init__(f"the command {command_id} with this dedupe_key is still active")
        self.fields = {"command_id": command_id}


class CommandGone(RestanteError):
    """The command has expired."""

    status = 410
    code: ClassVar[str] = "COMMAND_EXPIRED"

    def __init__(self) -> None:
        super().__init__()
        self.fields = {"command_status": "expired"}


class RateLimited(TooManyRequests):
    """The rate limit of this command type is reached."""

    code: ClassVar[str] = "RATE_LIMITED"


class Refusal(msgspec.Struct):
    """Every refusal; some say more, in fields of their own."""

    error: Annotated[str, msgspec.Meta(description="What went wrong, for programs.", examples=["ACCESS_DENIED"])]
    message: Annotated[str, msgspec.Meta(description="What went wrong, for people.")]


class CommandsShape:
    """The success and error bodies of protocol 2."""

    name = "Commands"
    error_type = Refusal

    def envelope(self, data: dict[str, Any]) -> dict[str, Any]:
        return data

    def success(self, value: Any, status: int = 200) -> Answer:
        return Answer(204) if status == 204 else json_answer(_encoder.encode(value), status)

    def error(self, error: RestanteError) -> Answer:
        body: dict[str, Any] = {"error": error_code(error), "message": error.message}
        if isinstance(error, BadInput):
            body["field"] = error.field
        body.update(getattr(error, "fields", {}))
        headers: list[tuple[bytes, bytes]] = []
        if isinstance(error, NotAuthenticated):
            headers.append((b"www-authenticate", b"Bearer"))
        if isinstance(error, ComeBackLater):
            body["retry_after_sec"] = error.retry_after_seconds
            headers.append((b"retry-after", b"%d" % error.retry_after_seconds))
        return json_answer(_encoder.encode(body), error.status, *headers)


def error_code(error: RestanteError) -> str:
    return getattr(error, "code", None) or _CODES.get(error.status, f"HTTP_{error.status}")


SHAPE = CommandsShape()


def parse_iso(text: str, field: str) -> int:
    """Milliseconds since the epoch; a time without a zone is taken as UTC, as collectors send it."""
    try:
        moment = datetime.fromisoformat(text)
        ms = round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise BadInput(field, "a time as UTC ISO 8601, 2026-01-18T10:00:00Z") from None
    if not 0 <= ms <= _LATEST_MS:
        raise BadInput(field, "a time from 1970 to 9999")
    return ms
