"""The errors of edge commands, and the code that each error has in a response.

    RestanteError
    ├── NotFound         CommandNotFound   404  COMMAND_NOT_FOUND
    ├── NotAllowed       AccessDenied      403  ACCESS_DENIED
    ├── NotAuthenticated SignatureInvalid  401  SIGNATURE_INVALID
    │                    NonceMismatch     401  NONCE_MISMATCH
    ├── Conflict         NotLeaseOwner     409  ACK_NOT_LEASE_OWNER
    │                    CommandFinished   409  COMMAND_FINISHED, with its state
    │                    DuplicateActive   409  DUPLICATE_ACTIVE, with the active command
    ├── TooManyRequests  RateLimited       429  RATE_LIMITED
    └── CommandGone                        410  COMMAND_EXPIRED

An error without a code of its own has the code of its status.
"""

from typing import ClassVar

from restante.core.errors import Conflict, NotAllowed, NotAuthenticated, NotFound, RestanteError, TooManyRequests

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
# For texts that are stored: PostgreSQL refuses a NUL.
NO_NUL = r"^[^\x00]*\Z"


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


def error_code(error: RestanteError) -> str:
    return getattr(error, "code", None) or _CODES.get(error.status, f"HTTP_{error.status}")
