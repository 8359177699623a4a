"""Logging: the lines of this program and of the libraries go to stderr, as JSON or for a terminal.

Invariant: no secret is logged. Code does not log secrets in the first place. The redaction here is a second defence: it
recognises secrets by the names of their fields and by their form, in messages and tracebacks too.
"""

import logging
import re
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, TextIO

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from restante.core.iso_time import iso_precise
from restante.core.masking import mask_url_passwords

REDACTED = "(redacted)"
DEPTH_MAX = 8

# `key` and `token` match only as the last word: `token_count` and `key_id` are no secrets.
_SECRET_NAME = re.compile(
    r"(?:^|[_\-.])(?:passwords?|passphrase|secrets?|authorization|cookies?|credentials?)(?:$|[_\-.])"
    r"|(?:^|[_\-.])(?:tokens?|keys?|(?:device|user|registration)[_\-]code)$",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"\brk_[A-Za-z0-9_\-]{8,}"  # API keys
    # Tokens of collectors and of clients, refresh tokens of devices, secrets of clients.
    r"|\b(?:ed|et|rt|cs)_[A-Za-z0-9_\-]{20,}"
    r"|\beyJ[A-Za-z0-9_\-]+\.[A-Za-z0-9_\-]+\.[A-Za-z0-9_\-]*"  # JWTs
    r"|(?<=\bBearer )[^\s\"',]+"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)",
    re.DOTALL,
)


def configure(log_format: str, log_level: str, stream: TextIO | None = None) -> None:
    """Send all log lines of this process to the stream (stderr by default), in the given format."""
    out = stream or sys.stderr
    renderer = _renderer(log_format, out)
    level = logging.getLevelNamesMapping()[log_level.upper()]
    structlog.configure(
        processors=[*_enrichers(), redact, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_args: _Lines(out),
    )
    _route_library_logs(renderer, level, out)


class _Lines(structlog.WriteLogger):
    """Writes lines. A line that cannot be written is dropped: a full disk or a closed pipe must not stop the server."""

    def msg(self, message: str) -> None:
        with suppress(OSError):
            super().msg(message)

    debug = info = warning = error = critical = exception = msg


def redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    return {name: _redacted(name, value, DEPTH_MAX) for name, value in event.items()}


def _add_time(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    event["timestamp"] = iso_precise(int(time.time() * 1000))
    return event


def _enrichers() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        _add_time,
        structlog.processors.StackInfoRenderer(),
        # Tracebacks become text before the redaction, so that it covers them.
        structlog.processors.format_exc_info,
    ]


def _renderer(log_format: str, out: TextIO) -> Processor:
    on_terminal = out.isatty()
    if log_format == "console" or (log_format == "auto" and on_terminal):
        return structlog.dev.ConsoleRenderer(colors=on_terminal, exception_formatter=structlog.dev.plain_traceback)
    return structlog.processors.JSONRenderer()


def _route_library_logs(renderer: Processor, level: int, out: TextIO) -> None:
    """Give the standard library's root logger our renderer, and uvicorn's loggers no handlers of their own."""
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *_enrichers()],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, redact, renderer],
        )
    )
    logging.basicConfig(handlers=[handler], level=level, force=True)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
        # This program logs the start and the stop itself.
        logger.setLevel(max(level, logging.WARNING))


def _redacted(name: str, value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if _SECRET_NAME.search(name) or depth == 0:
        return REDACTED
    if isinstance(value, Mapping):
        return {key: _redacted(str(key), inner, depth - 1) for key, inner in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_redacted("", inner, depth - 1) for inner in value]
    return mask_url_passwords(_SECRET_VALUE.sub(REDACTED, str(value)))
