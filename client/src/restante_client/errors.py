"""The errors of this package.

    RestanteError
    ├── Unreachable            no complete response arrived: connection, time-out, broken response
    ├── ResponseError          the server refused the request
    │   ├── BadRequest         the request is wrong; repeating it does not help
    │   ├── Unauthorized       the credentials are missing, wrong or expired
    │   ├── Forbidden          the credentials are not enough
    │   ├── NotFound
    │   ├── Conflict           the current state does not allow it
    │   │   ├── CursorExpired  the server cannot continue from the cursor
    │   │   └── WrapPending    the key of a certificate is not wrapped for this device yet
    │   └── Unavailable        429 and 5xx: try again after `retry_after_seconds`
    ├── SessionEnded           the refresh token no longer works; the device must enrol again
    ├── EnrolmentRefused       a person denied the device, or did not approve it in time
    ├── VerificationFailed     a signature, fingerprint or ciphertext is wrong
    └── StateError             the state folder cannot be used

No error holds a credential in its text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class RestanteError(Exception):
    """The base of all errors of this package."""


class Unreachable(RestanteError):
    """No complete response arrived. The server may or may not have acted on the request."""


class ResponseError(RestanteError):
    """The server refused the request."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        params: Mapping[str, Any] | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(f"{status} {code}: {message}" if code else f"{status}: {message}")
        self.status = status
        self.code = code
        self.message = message
        self.params = dict(params or {})
        self.retry_after_seconds = retry_after_seconds


class BadRequest(ResponseError):
    """The request is wrong; repeating it does not help."""


class Unauthorized(ResponseError):
    """The credentials are missing, wrong or expired."""


class Forbidden(ResponseError):
    """The credentials are not enough, or the device was revoked."""


class NotFound(ResponseError):
    """The object does not exist, or belongs to another caller."""


class Conflict(ResponseError):
    """The current state does not allow the request."""


class CursorExpired(Conflict):
    """The server cannot continue from the cursor. `reset_cursor` is where to continue after a resync."""

    @property
    def reset_cursor(self) -> str | None:
        """Where to continue, if the server says."""
        found = self.params.get("reset_cursor")
        return found if isinstance(found, str) else None

    @property
    def reason(self) -> str:
        """Why the cursor no longer works: `cursor_trimmed`, for example."""
        return str(self.params.get("reason", "cursor_expired"))


class WrapPending(Conflict):
    """The key of a certificate is not wrapped for this device yet. A `cert.wrap_ready` signal follows."""


class Unavailable(ResponseError):
    """The server cannot answer now. Try again after `retry_after_seconds`, if it is set."""


class SessionEnded(RestanteError):
    """The refresh token no longer works. The device must enrol again."""


class EnrolmentRefused(RestanteError):
    """A person denied the device, or the time for the approval is over."""


class VerificationFailed(RestanteError):
    """A signature, a fingerprint or a ciphertext is wrong."""


class StateError(RestanteError):
    """The state folder cannot be used."""
