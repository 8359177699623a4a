"""What went wrong in work that no request handler waits for, as the answer the application would give."""

import structlog

from restante.core.errors import RestanteError, Unavailable
from restante.database.errors import DatabaseUnavailable
from restante.web.answer import Answer
from restante.web.application import UNAVAILABLE_RETRY_SECONDS, InternalError
from restante.web.routes import Shape

log = structlog.get_logger()


def refusal_in(shape: Shape, error: BaseException) -> Answer:
    if isinstance(error, RestanteError):
        return shape.error(error)
    if isinstance(error, DatabaseUnavailable):
        log.error("database unavailable", error=str(error))
        return shape.error(Unavailable("the database cannot answer now", retry_after_seconds=UNAVAILABLE_RETRY_SECONDS))
    log.error("request failed", error=repr(error), exc_info=error)
    return shape.error(InternalError())
