"""The log's fast copy in Redis Streams: `device:updates:<device_id>`, each entry under the position SQL gave it.

Redis decides nothing here. What there is to read is known from SQL, or from news of a commit; a stream only saves
fetching it from there. A reading from it counts when it proves itself by arithmetic:

    the entry at the cursor is there · every n is one more than the one before · the run ends at the known tail

Whatever happened to Redis, flushed, restarted empty, behind, promoted from a stale replica, such a reading is whole;
anything else goes to SQL, and the stream is built again from there, with the same ids.

Must always hold: a stream is one unbroken run of positions. What does not follow its last entry starts it anew.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, NamedTuple

import structlog

from restante.core.cursor import Head, Position
from restante.database.database import Database
from restante.delivery import log
from restante.delivery.log import LogEntry, Published, Reading, Run
from restante.delivery.redis_connection import Command
from restante.delivery.redis_servers import RedisServers, stream_key

logger = structlog.get_logger()

FIELD = b"signal"
STREAM_ENTRIES = 1000
COPIES_WAITING_MAX = 10_000
REBUILDS_WAITING_MAX = 10_000

_SCRIPTS = {name: (files("restante.delivery") / f"redis_{name}.lua").read_bytes() for name in ("copy", "rebuild")}


class StreamRead(NamedTuple):
    """What a poll wants from a stream: what follows the cursor, up to the tail that is known."""

    device_id: int
    cursor: Position | None
    tail: Position
    limit: int


@dataclass(slots=True)
class RedisTotals:
    """Counts since the start, for the metrics."""

    hits: int = 0
    misses: int = 0
    fallbacks: int = 0
    copied: int = 0
    rebuilt: int = 0
    rings: int = 0


class RedisLog:
    def __init__(self, servers: RedisServers, database: Database) -> None:
        self.servers = servers
        self.totals = RedisTotals()
        self._database = database
        self._copies: list[Published] = []
        self._copying: asyncio.Task[None] | None = None
        self._rebuilds: dict[int, None] = {}
        self._rebuilding: asyncio.Task[None] | None = None

    def copy(self, published: Published) -> None:
        """Have what a commit published copied. Without Redis, or behind too many others, it is left to a rebuild."""
        if not self.servers.is_up or len(self._copies) >= COPIES_WAITING_MAX:
            return
        self._copies.append(published)
        if self._copying is None:
            self._copying = asyncio.ensure_future(self._copy_waiting())

    async def read(self, wanted: list[StreamRead]) -> list[Reading | None]:
        """Each one's reading, all in one trip to each server; None where the stream does not prove it."""
        replies = await self.servers.ask([(stream_key(each.device_id), _read_command(each)) for each in wanted])
        readings = [_proven(each, reply) for each, reply in zip(wanted, replies, strict=True)]
        await self._prove_ends(wanted, readings)
        for each, reply, reading in zip(wanted, replies, readings, strict=True):
            if reading is not None:
                self.totals.hits += 1
            elif isinstance(reply, list):
                self.totals.misses += 1
                self._rebuild_soon(each.device_id)
            else:
                self.totals.fallbacks += 1
        return readings

    async def _prove_ends(self, wanted: list[StreamRead], readings: list[Reading | None]) -> None:
        """Of readings that the limit cut off, keep those of streams that end where the log does.

        An unbroken run that ends at the log's tail is the log's; one that does not may be of a history that was undone,
        when a backup was restored.
        """
        cut = [
            index
            for index, (each, reading) in enumerate(zip(wanted, readings, strict=True))
            if reading is not None and reading.entries and reading.entries[-1].position != each.tail
        ]
        for index, end in zip(cut, await self.ends([wanted[index].device_id for index in cut]), strict=True):
            if end != wanted[index].tail:
                readings[index] = None

    async def ends(self, device_ids: list[int]) -> list[Position | None]:
        """Where each device's stream ends; None if that is not known, or nowhere."""
        keys = [stream_key(device_id) for device_id in device_ids]
        replies = await self.servers.ask([(key, ("XREVRANGE", key, "+", "-", "COUNT", 1)) for key in keys])
        return [_position(reply[0][0]) if isinstance(reply, list) and reply else None for reply in replies]

    async def settled(self) -> None:
        """Wait until nothing is left to copy or rebuild, for those who want to look at the streams."""
        while tasks := [task for task in (self._copying, self._rebuilding) if task is not None]:
            await asyncio.wait(tasks)

    async def _copy_waiting(self) -> None:
        try:
            while self._copies:
                copies, self._copies = self._copies, []
                await self._copy_all(copies)
        finally:
            self._copying = None

    async def _copy_all(self, copies: list[Published]) -> None:
        by_device: dict[int, list[Published]] = defaultdict(list)
        for published in copies:
            by_device[published.device_id].append(published)
        asked = [
            (stream_key(device_id), _copy_command(device_id, run))
            for device_id, all_of_it in by_device.items()
            for run in _runs(all_of_it)
        ]
        replies = await self.servers.ask(asked)
        self.totals.copied += sum(isinstance(reply, int) for reply in replies)

    def _rebuild_soon(self, device_id: int) -> None:
        if len(self._rebuilds) < REBUILDS_WAITING_MAX:
            self._rebuilds[device_id] = None
            if self._rebuilding is None:
                self._rebuilding = asyncio.ensure_future(self._rebuild_waiting())

    async def _rebuild_waiting(self) -> None:
        try:
            while self._rebuilds:
                device_id = next(iter(self._rebuilds))
                del self._rebuilds[device_id]
                await self._rebuild(device_id)
        finally:
            self._rebuilding = None

    async def _rebuild(self, device_id: int) -> None:
        try:
            reading = await self._database.read(log.read, device_id, None, STREAM_ENTRIES)
        except Exception as error:
            logger.error("a stream could not be rebuilt", device_id=device_id, error=str(error))
            return
        if reading.entries:
            key = stream_key(device_id)
            (reply,) = await self.servers.ask([(key, rebuild_command(key, reading.entries))])
            self.totals.rebuilt += reply == 1


def _runs(published: list[Published]) -> Iterable[list[Published]]:
    """Those that follow one upon the other, together: one command for each run."""
    run: list[Published] = []
    for each in published:
        if run and run[-1].head.newest != each.before:
            yield run
            run = []
        run.append(each)
    if run:
        yield run


def _copy_command(device_id: int, run: list[Published]) -> Command:
    entries = [part for published in run for entry in published.entries for part in _written(entry)]
    before = b"%d-%d" % run[0].before
    return ("EVAL", _SCRIPTS["copy"], 1, stream_key(device_id), before, STREAM_ENTRIES, *entries)


def rebuild_command(key: bytes, entries: Sequence[LogEntry]) -> Command:
    written = [part for entry in entries for part in _written(entry)]
    return ("EVAL", _SCRIPTS["rebuild"], 1, key, STREAM_ENTRIES, *written)


def _written(entry: LogEntry) -> tuple[bytes, bytes]:
    return b"%d-%d" % entry.position, entry.json


def _read_command(wanted: StreamRead) -> Command:
    key = stream_key(wanted.device_id)
    if wanted.cursor is None:
        return ("XREVRANGE", key, b"%d-%d" % wanted.tail, "-", "COUNT", wanted.limit)
    # One more than wanted: the entry at the cursor itself, which shows that what follows it is what follows.
    return ("XRANGE", key, b"%d-%d" % wanted.cursor, b"%d-%d" % wanted.tail, "COUNT", wanted.limit + 1)


def _proven(wanted: StreamRead, reply: Any) -> Reading | None:
    """The reading, if the reply shows that nothing is missing in it."""
    if not isinstance(reply, list) or not reply:
        return None
    # Looked at as it is written: this is done twenty times for each poll.
    run = Run([identifier for identifier, _ in reply], [fields[1] for _, fields in reply])
    if wanted.cursor is None:
        run = run[::-1]
    ns = b" ".join(run.written).replace(b"-", b" ").split()[1::2]
    first_n = int(ns[0])
    if ns != [b"%d" % n for n in range(first_n, first_n + len(ns))]:
        return None
    ends_at_tail = run.written[-1] == b"%d-%d" % wanted.tail
    if wanted.cursor is None:
        is_whole = ends_at_tail and (len(run) == wanted.limit or first_n == 1)
    else:
        begins_at_cursor = run.written[0] == b"%d-%d" % wanted.cursor
        is_whole = begins_at_cursor and (ends_at_tail or len(run) == wanted.limit + 1)
    if not is_whole:
        return None
    return Reading(Head(wanted.tail), run if wanted.cursor is None else run[1:])


def _position(identifier: bytes) -> Position:
    ms, _, n = identifier.partition(b"-")
    return Position(int(ms), int(n))
