"""Reads of the log that arrive together go to the database together.

While one batch of reads is under way the next collects; after a restart a million first polls become a few thousand
trips instead of a million.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

import structlog

from restante.core.cursor import Position
from restante.core.errors import CursorExpired
from restante.database.connection import Connection
from restante.database.database import Database
from restante.delivery import log
from restante.delivery.log import Reading

logger = structlog.get_logger()

BATCH_MAX = 256

ReadResult = Reading | Exception


class LogRead(NamedTuple):
    device_id: int
    cursor: Position | None
    limit: int
    done: Callable[[ReadResult], None]


class ReadsLog(Protocol):
    """Whoever reads the log for polls."""

    def read(self, device_id: int, cursor: Position | None, limit: int, done: Callable[[ReadResult], None], /) -> None:
        """Have `done` called, in the event loop, with what the log holds for this poll."""


class LogReader:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: list[LogRead] = []
        self._task: asyncio.Task[None] | None = None

    def read(self, device_id: int, cursor: Position | None, limit: int, done: Callable[[ReadResult], None]) -> None:
        """Have `done` called, in the event loop, with what the log holds for this poll."""
        self._waiting.append(LogRead(device_id, cursor, limit, done))
        if self._task is None:
            self._task = asyncio.ensure_future(self._read_waiting())

    async def _read_waiting(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:BATCH_MAX], self._waiting[BATCH_MAX:]
            results: list[ReadResult]
            try:
                results = await self._database.read(read_batch, batch)
            except Exception as error:
                # Each of the batch is told; none waits for ever.
                results = [error] * len(batch)
            for ask, result in zip(batch, results, strict=True):
                tell(ask, result)
        self._task = None


def tell(ask: LogRead, result: ReadResult) -> None:
    try:
        ask.done(result)
    except Exception:
        # One that cannot be told must not cost the others of the batch, and all later ones, their answer.
        logger.exception("a poll could not be told what was read", device_id=ask.device_id)


def read_batch(conn: Connection, batch: list[LogRead]) -> list[ReadResult]:
    results: list[ReadResult] = []
    for ask in batch:
        try:
            results.append(log.read(conn, ask.device_id, ask.cursor, ask.limit))
        except CursorExpired as expired:
            results.append(expired)
    return results
