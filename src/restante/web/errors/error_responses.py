"""The response for an exception: the one place where an exception becomes a protocol's error body.

The application uses it for handlers, the polls for work that finishes after the handler returned. The text of a
RestanteError is sent to the caller. Any other exception is logged, and the caller gets only that the server failed.
"""

from typing import Any

import structlog

from restante.core.errors import RestanteError, Unavailable
from restante.database.errors import DatabaseUnavailable
from restante.web.response import ApiResponse
from restante.web.routes import ResponseFormat

log = structlog.get_logger()

UNAVAILABLE_RETRY_SECONDS = 5


class MethodNotAllowed(RestanteError):
    """This path does not take this method."""

    status = 405


class InternalError(RestanteError):
    """The server failed; the failure is logged and nothing was changed."""


def result_response(response_format: ResponseFormat, result: Any) -> ApiResponse:
    """The response for the result of work that finishes after its handler returned: a success or an exception."""
    if isinstance(result, BaseException):
        return error_response(response_format, result)
    return response_format.success(result, 200)


def error_response(response_format: ResponseFormat, error: BaseException, **log_fields: Any) -> ApiResponse:
    if isinstance(error, RestanteError):
        return response_format.error(error)
    if isinstance(error, DatabaseUnavailable):
        log.error("database unavailable", error=str(error), **log_fields)
        return response_format.error(
            Unavailable("the database cannot answer now", retry_after_seconds=UNAVAILABLE_RETRY_SECONDS)
        )
    log.error("request failed", error=repr(error), exc_info=error, **log_fields)
    return response_format.error(InternalError())
