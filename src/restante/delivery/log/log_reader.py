"""Batches reads of the log: requests that arrive while one batch is read form the next batch.

After a restart, a million first polls become a few thousand database reads instead of a million.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec
import structlog

from restante.core.cursor import LogHead, Position
from restante.core.errors import CursorExpired
from restante.database.connection import Connection
from restante.database.database import Database
from restante.delivery.log import log
from restante.delivery.log.log import LogSlice

logger = structlog.get_logger()

BATCH_MAX = 256

ReadResult = LogSlice | Exception
# Of a device that never got a signal.
_NO_HEAD = LogHead()


class ReadRequest(msgspec.Struct, frozen=True):
    device_id: int
    cursor: Position | None
    limit: int
    done: Callable[[ReadResult], None]


class LogSource(Protocol):
    """Reads the log for polls: from the database, or from Redis."""

    def read(self, device_id: int, cursor: Position | None, limit: int, done: Callable[[ReadResult], None], /) -> None:
        """Call `done` in the event loop with the signals for this poll."""


class LogReader:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._queued: list[ReadRequest] = []
        self._task: asyncio.Task[None] | None = None

    def read(self, device_id: int, cursor: Position | None, limit: int, done: Callable[[ReadResult], None]) -> None:
        """Call `done` in the event loop with the signals for this poll."""
        self._queued.append(ReadRequest(device_id, cursor, limit, done))
        if self._task is None:
            self._task = asyncio.ensure_future(self._read_queued())

    async def _read_queued(self) -> None:
        while self._queued:
            batch, self._queued = self._queued[:BATCH_MAX], self._queued[BATCH_MAX:]
            results: list[ReadResult]
            try:
                results = await self._database.read(read_batch, batch)
            except Exception as error:
                # Every request of the batch fails; none waits for ever.
                results = [error] * len(batch)
            for request, result in zip(batch, results, strict=True):
                resolve(request, result)
        self._task = None


def resolve(request: ReadRequest, result: ReadResult) -> None:
    try:
        request.done(result)
    except Exception:
        # All other requests must still get their results.
        logger.exception("callback of a log read failed", device_id=request.device_id)


def read_batch(conn: Connection, batch: list[ReadRequest]) -> list[ReadResult]:
    results: list[ReadResult] = []
    heads = log.read_heads(conn, (request.device_id for request in batch))
    for request in batch:
        head = heads.get(request.device_id, _NO_HEAD)
        try:
            results.append(log.read_with_head(conn, request.device_id, head, request.cursor, request.limit))
        except CursorExpired as expired:
            results.append(expired)
    return results
