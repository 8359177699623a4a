"""Reads of the log, through Redis where it helps: the same to polls as `LogReader`, which it falls back on.

    tail known from memory ───────────────────▶ stream ──proven──▶ answer
    not known ──▶ heads from SQL, all at once ──▶ idle, expired: answered
                                              └─▶ stream ──not proven, Redis away──▶ SQL, and the stream is rebuilt

What there is, and whether a cursor has expired, is SQL's to say; Redis only hands over what SQL says there is.
"""

import asyncio
from collections.abc import Callable, Mapping

import structlog

from restante.core.cursor import Head, Position, check_cursor, parse_cursor
from restante.core.errors import CursorExpired
from restante.database.connection import Connection
from restante.database.database import Database
from restante.delivery import log
from restante.delivery.log import Reading
from restante.delivery.log_reader import BATCH_MAX, LogRead, LogReader, ReadResult, tell
from restante.delivery.redis_log import RedisLog, StreamRead

logger = structlog.get_logger()

_NOTHING_KNOWN: Mapping[int, bytes] = {}


class RedisReader:
    def __init__(self, database: Database, redis_log: RedisLog) -> None:
        self._database = database
        self._redis_log = redis_log
        self._record = LogReader(database)
        # What the bell knows: each device's tail, as a cursor.
        self.known: Mapping[int, bytes] = _NOTHING_KNOWN
        self._waiting: list[LogRead] = []
        self._task: asyncio.Task[None] | None = None

    def read(self, device_id: int, cursor: Position | None, limit: int, done: Callable[[ReadResult], None]) -> None:
        """Have `done` called, in the event loop, with what the log holds for this poll."""
        if not self._redis_log.servers.is_up:
            self._redis_log.totals.fallbacks += 1
            self._record.read(device_id, cursor, limit, done)
            return
        self._waiting.append(LogRead(device_id, cursor, limit, done))
        if self._task is None:
            self._task = asyncio.ensure_future(self._read_waiting())

    async def _read_waiting(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[:BATCH_MAX], self._waiting[BATCH_MAX:]
                await self._read_batch(batch)
        finally:
            self._task = None

    async def _read_batch(self, batch: list[LogRead]) -> None:
        try:
            heads = await self._heads(batch)
        except Exception as error:
            # Each of the batch is told; none waits for ever.
            for ask in batch:
                tell(ask, error)
            return
        wanted: list[tuple[LogRead, StreamRead]] = []
        for ask, head in zip(batch, heads, strict=True):
            answer = _without_entries(ask.cursor, head)
            if answer is None:
                wanted.append((ask, StreamRead(ask.device_id, ask.cursor, head.newest, ask.limit)))
            else:
                tell(ask, answer)
        if wanted:
            await self._read_streams(wanted)

    async def _read_streams(self, wanted: list[tuple[LogRead, StreamRead]]) -> None:
        try:
            readings = await self._redis_log.read([read for _, read in wanted])
        except Exception:
            logger.exception("streams could not be read, the database is asked")
            readings = [None] * len(wanted)
        for (ask, _), reading in zip(wanted, readings, strict=True):
            if reading is not None:
                tell(ask, reading)
            else:
                self._record.read(ask.device_id, ask.cursor, ask.limit, ask.done)

    async def _heads(self, batch: list[LogRead]) -> list[Head]:
        """Where each one's log stands: from memory where that is enough, and else from the database, in one read."""
        tails = [self._tail_before(ask) for ask in batch]
        unknown = [ask.device_id for ask, tail in zip(batch, tails, strict=True) if tail is None]
        found = dict(zip(unknown, await self._database.read(_read_heads, unknown), strict=True)) if unknown else {}
        return [found[ask.device_id] if tail is None else Head(tail) for ask, tail in zip(batch, tails, strict=True)]

    def _tail_before(self, ask: LogRead) -> Position | None:
        """The known tail, unless the cursor lies beyond it: then another server knows more, or the cursor is wrong."""
        known = self.known.get(ask.device_id)
        tail = None if known is None else parse_cursor(known.decode())
        return None if tail is None or (ask.cursor is not None and ask.cursor > tail) else tail


def _without_entries(cursor: Position | None, head: Head) -> ReadResult | None:
    """The answer, if where the log stands is enough for it."""
    if cursor == head.newest or (cursor is None and head.newest.n == 0):
        return Reading(head, [])
    if cursor is None:
        return None
    try:
        check_cursor(cursor, head)
    except CursorExpired as expired:
        return expired
    return None


def _read_heads(conn: Connection, device_ids: list[int]) -> list[Head]:
    return [log.read_head(conn, device_id) for device_id in device_ids]
