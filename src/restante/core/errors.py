"""The errors that a request can end with.

    RestanteError
    ├── BadInput            400  a field is not what was expected; nothing was changed
    │   ├── MissingField         a required field is missing
    │   └── UnknownField         the field does not exist
    ├── NotAuthenticated    401  unknown caller, or invalid credentials
    │   └── InvalidToken         a token was sent, and it is not accepted
    ├── NotAllowed          403  known caller without permission
    │   └── InsufficientScope    the token lacks a scope, or the API key a role
    ├── NotFound            404  missing, or owned by another tenant: both look the same
    ├── Conflict            409  the current state does not allow it
    │   └── CursorExpired        signals after the cursor were trimmed, or the cursor is unknown
    ├── TooLarge            413
    ├── WrongMediaType      415
    ├── Unprocessable       422  well-formed, but impossible
    ├── TooManyRequests     429  with Retry-After
    └── Unavailable         503  with Retry-After

An error has an HTTP status, but no protocol's error body: the `response_format` module of each protocol writes that.
The first line of a class docstring is the default message and reaches clients.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, Literal


class RestanteError(Exception):
    """Something went wrong."""

    status: ClassVar[int] = 500

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").split("\n", 1)[0])

    @property
    def message(self) -> str:
        return str(self.args[0])


class BadInput(RestanteError):
    """The request is not what was expected."""

    status = 400

    def __init__(self, field: str, expected: str) -> None:
        super().__init__(f"{field}: expected {expected}")
        self.field = field
        self.expected = expected


class MissingField(BadInput):
    """A field that is required is not there."""

    def __init__(self, field: str) -> None:
        super().__init__(field, "a value, it is required")


class UnknownField(BadInput):
    """There is no such field."""

    def __init__(self, field: str, suggestion: str = "") -> None:
        super().__init__(field, "no such field" + suggestion)


class NotAuthenticated(RestanteError):
    """Authentication is required."""

    status = 401

    def __init__(self, message: str | None = None, *, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key


class InvalidToken(NotAuthenticated):
    """The access token is not accepted."""


class NotAllowed(RestanteError):
    """You may not do this."""

    status = 403


class InsufficientScope(NotAllowed):
    """The access token does not allow this."""

    def __init__(self, message: str, scopes: Iterable[str]) -> None:
        super().__init__(message)
        # Each of these would be enough.
        self.scopes = tuple(scopes)


class NotFound(RestanteError):
    """There is no such thing here."""

    status = 404


class Conflict(RestanteError):
    """The present state does not allow this."""

    status = 409


class CursorExpired(Conflict):
    """Cursor expired. Reset required."""

    def __init__(
        self, reason: Literal["cursor_trimmed", "cursor_unknown"], reset_cursor: str, earliest_retained_id: str
    ) -> None:
        super().__init__()
        self.params: dict[str, Any] = {
            "action": "full_resync",
            "reason": reason,
            "reset_cursor": reset_cursor,
            "earliest_retained_id": earliest_retained_id,
        }


class TooLarge(RestanteError):
    """The request is too large."""

    status = 413


class WrongMediaType(RestanteError):
    """The request body must be application/json."""

    status = 415


class Unprocessable(RestanteError):
    """The request is valid but cannot be carried out."""

    status = 422


class RetryLater(RestanteError):
    """Not now."""

    def __init__(self, message: str | None = None, *, retry_after_seconds: int) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class TooManyRequests(RetryLater):
    """Too many requests."""

    status = 429


class Unavailable(RetryLater):
    """The service cannot answer now."""

    status = 503
