"""Reads the log for polls through Redis, with `LogReader` as its fallback. Both are a `LogSource`.

    tail cached ──────────────────────────────────▶ stream ──proven complete──▶ result
    unknown ──▶ heads from the database, batched ──▶ nothing new, or cursor expired: result
                                                 └─▶ stream ──not proven, Redis down──▶ database; stream is rebuilt

Only the database decides which signals exist and whether a cursor has expired; Redis only returns their content.
"""

import asyncio
from collections.abc import Callable, Mapping

import structlog

from restante.core.cursor import LogHead, Position, check_cursor, parse_cursor
from restante.core.errors import CursorExpired
from restante.database.connection import Connection
from restante.database.database import Database
from restante.delivery.log import log
from restante.delivery.log.log import LogSlice
from restante.delivery.log.log_reader import BATCH_MAX, LogReader, ReadRequest, ReadResult, resolve
from restante.delivery.redis.redis_log import RedisLog, StreamRequest

logger = structlog.get_logger()

_NO_TAILS: Mapping[int, bytes] = {}


class RedisReader:
    def __init__(self, database: Database, redis_log: RedisLog) -> None:
        self._database = database
        self._redis_log = redis_log
        self._log_reader = LogReader(database)
        # The tail of each device as a cursor: the knowledge of the poll's waiters.
        self.known: Mapping[int, bytes] = _NO_TAILS
        self._queued: list[ReadRequest] = []
        self._task: asyncio.Task[None] | None = None

    def read(self, device_id: int, cursor: Position | None, limit: int, done: Callable[[ReadResult], None]) -> None:
        """Call `done` in the event loop with the signals for this poll."""
        if not self._redis_log.servers.is_up:
            self._redis_log.counters.fallbacks += 1
            self._log_reader.read(device_id, cursor, limit, done)
            return
        self._queued.append(ReadRequest(device_id, cursor, limit, done))
        if self._task is None:
            self._task = asyncio.ensure_future(self._read_queued())

    async def _read_queued(self) -> None:
        try:
            while self._queued:
                batch, self._queued = self._queued[:BATCH_MAX], self._queued[BATCH_MAX:]
                await self._read_batch(batch)
        finally:
            self._task = None

    async def _read_batch(self, batch: list[ReadRequest]) -> None:
        try:
            heads = await self._heads(batch)
        except Exception as error:
            # Every request of the batch fails; none waits for ever.
            for request in batch:
                resolve(request, error)
            return
        from_streams: list[tuple[ReadRequest, StreamRequest]] = []
        for request, head in zip(batch, heads, strict=True):
            result = _result_of_head(request.cursor, head)
            if result is None:
                stream_request = StreamRequest(request.device_id, request.cursor, head.newest, request.limit)
                from_streams.append((request, stream_request))
            else:
                resolve(request, result)
        if from_streams:
            await self._read_streams(from_streams)

    async def _read_streams(self, requests: list[tuple[ReadRequest, StreamRequest]]) -> None:
        try:
            slices = await self._redis_log.read([stream_request for _, stream_request in requests])
        except Exception:
            logger.exception("reading streams failed, using the database")
            slices = [None] * len(requests)
        for (request, _), log_slice in zip(requests, slices, strict=True):
            if log_slice is not None:
                resolve(request, log_slice)
            else:
                self._log_reader.read(request.device_id, request.cursor, request.limit, request.done)

    async def _heads(self, batch: list[ReadRequest]) -> list[LogHead]:
        """The head of each log: from the cache if that is enough, else from the database, all in one read."""
        tails = [self._cached_tail(request) for request in batch]
        unknown = [request.device_id for request, tail in zip(batch, tails, strict=True) if tail is None]
        found = dict(zip(unknown, await self._database.read(_read_heads, unknown), strict=True)) if unknown else {}
        return [
            found[request.device_id] if tail is None else LogHead(tail)
            for request, tail in zip(batch, tails, strict=True)
        ]

    def _cached_tail(self, request: ReadRequest) -> Position | None:
        """The cached tail, unless the cursor is beyond it: another node has published more, or the cursor is wrong."""
        known = self.known.get(request.device_id)
        tail = None if known is None else parse_cursor(known.decode())
        return None if tail is None or (request.cursor is not None and request.cursor > tail) else tail


def _result_of_head(cursor: Position | None, head: LogHead) -> ReadResult | None:
    """The result, if the head alone determines it."""
    if cursor == head.newest or (cursor is None and head.newest.n == 0):
        return LogSlice(head, [])
    if cursor is None:
        return None
    try:
        check_cursor(cursor, head)
    except CursorExpired as expired:
        return expired
    return None


def _read_heads(conn: Connection, device_ids: list[int]) -> list[LogHead]:
    return [log.read_head(conn, device_id) for device_id in device_ids]
