"""Log lines: one JSON object per line on stderr, made by the standard `logging`.

    {"time": "2026-01-31T08:00:00.123Z", "level": "info", "program": "device", "event": "config applied", "version": 6}

`event` is a fixed text; what varies is in fields of its own. No line holds a credential: programs pass ids, versions,
paths and error texts (no error of this package has a credential in its text), and never bodies or environments.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import datetime, timezone
from typing import Any, TextIO

from restante_client.agent.times import rfc3339

FIELDS = "agent_fields"


class Log:
    """A logger whose calls take an event and its fields."""

    def __init__(self, program: str) -> None:
        self._logger = logging.getLogger(f"restante_client.agent.{program}")

    def debug(self, event: str, **fields: Any) -> None:
        self._logger.debug(event, extra={FIELDS: fields})

    def info(self, event: str, **fields: Any) -> None:
        self._logger.info(event, extra={FIELDS: fields})

    def warning(self, event: str, **fields: Any) -> None:
        self._logger.warning(event, extra={FIELDS: fields})

    def error(self, event: str, *, error: BaseException | None = None, **fields: Any) -> None:
        """`error` is described by its type and text, without a traceback."""
        if error is not None:
            fields["error"] = f"{type(error).__name__}: {error}"
        self._logger.error(event, extra={FIELDS: fields})


class JsonFormatter(logging.Formatter):
    def __init__(self, program: str) -> None:
        super().__init__()
        self._program = program

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": rfc3339(datetime.fromtimestamp(record.created, timezone.utc)),
            "level": record.levelname.lower(),
            "program": self._program,
            "event": record.getMessage(),
            **getattr(record, FIELDS, {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def set_up(program: str, level: str, stream: TextIO | None = None) -> Log:
    """Send all log lines of this process to stderr as JSON."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter(program))
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
    # httpx logs every request, and httpcore its headers.
    for chatty in ("httpx", "httpcore"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    return Log(program)
