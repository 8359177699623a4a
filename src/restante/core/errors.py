"""What can be wrong with a request, as one tree.

    RestanteError
    ├── BadInput            400  a field is not what was expected; nothing was changed
    │   ├── MissingField         it is required and not there
    │   └── UnknownField         there is no such field
    ├── NotAuthenticated    401  nobody we know, or a proof that does not hold
    ├── NotAllowed          403  somebody we know, who may not do this
    ├── NotFound            404  absent, or another's: both look the same
    ├── Conflict            409  the state of things forbids it now
    │   └── CursorExpired        signals after the cursor are gone, or the cursor is not of this log
    ├── TooLarge            413
    ├── WrongMediaType      415
    ├── Unprocessable       422  understood, and impossible as asked
    ├── TooManyRequests     429  with when to come back
    └── Unavailable         503  with when to come back

The tree knows the HTTP status an error hints at, and nothing of any protocol's error body:
each protocol's wire module turns these into its own shape, in one place.
"""

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

    def __init__(self, field: str) -> None:
        super().__init__(field, "no such field")


class NotAuthenticated(RestanteError):
    """Authentication is required."""

    status = 401

    def __init__(self, message: str | None = None, *, key: str | None = None) -> None:
        super().__init__(message)
        self.key = key


class NotAllowed(RestanteError):
    """You may not do this."""

    status = 403


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
    """This cannot be done as asked."""

    status = 422


class ComeBackLater(RestanteError):
    """Not now."""

    def __init__(self, message: str | None = None, *, retry_after_seconds: int) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class TooManyRequests(ComeBackLater):
    """Too many requests."""

    status = 429


class Unavailable(ComeBackLater):
    """The service cannot answer now."""

    status = 503
