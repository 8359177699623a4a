"""A fast copy of the log in Redis Streams: `device:updates:<device_id>`, each entry under its position in the database.

Redis decides nothing and is not trusted. The tail of a log is known from the database or from a commit event; a stream
only saves the read of the signals. A read from a stream is valid only if arithmetic proves it complete:

    the entry at the cursor exists · every n is one more than the one before · the last entry is the known tail
    every entry has the tag of its device, position and signal, which needs a key that Redis does not have

Such a read is complete whatever happened to Redis: a flush, a restart without data, a lag, the promotion of a stale
replica. Otherwise the database is read, and the stream is rebuilt from it with the same positions.

Invariant: the positions of a stream have no gaps. Signals that do not follow its last entry start the stream anew.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hmac import compare_digest
from importlib.resources import files
from typing import Any

import msgspec
import structlog

from restante.core.cursor import LogHead, Position
from restante.core.keyed_hash import KeyedHash
from restante.database.database import Database
from restante.delivery.log import log
from restante.delivery.log.log import EncodedEntries, LogEntry, LogSlice, SignalsPublished
from restante.delivery.redis.redis_connection import Command
from restante.delivery.redis.redis_servers import RedisServers, stream_key

logger = structlog.get_logger()

FIELDS = (b"signal", b"tag")
TAG_BYTES = 16
KEY_PURPOSE = "redis entries"
STREAM_ENTRIES = 1000
COPIES_QUEUED_MAX = 10_000
REBUILDS_QUEUED_MAX = 10_000

_SCRIPTS = {name: (files("restante.delivery.redis") / f"redis_{name}.lua").read_bytes() for name in ("copy", "rebuild")}


class StreamRequest(msgspec.Struct, frozen=True):
    """The read of a poll from a stream: the entries after the cursor, up to the known tail."""

    device_id: int
    cursor: Position | None
    tail: Position
    limit: int


@dataclass(slots=True)
class RedisCounters:
    """Counted since the start, for the metrics."""

    hits: int = 0
    misses: int = 0
    fallbacks: int = 0
    copied: int = 0
    rebuilt: int = 0
    # Metric restante_redis_rings.
    invalidations: int = 0


class EntryTags:
    """Tags of stream entries: an entry that this program did not write, or wrote for another place, has another tag."""

    def __init__(self, key: bytes) -> None:
        self._mac = KeyedHash(key)

    def of(self, device_id: int, position: bytes, signal: bytes) -> bytes:
        return self._mac.digest(b"%d\0%b\0%b" % (device_id, position, signal))[:TAG_BYTES]

    def match(self, device_id: int, reply: list[Any]) -> bool:
        """Whether every entry of a reply has its tag. An entry is an identifier and its fields: signal, tag."""
        return all(
            len(fields) == len(FIELDS) * 2 and compare_digest(fields[3], self.of(device_id, position, fields[1]))
            for position, fields in reply
        )


class RedisLog:
    def __init__(self, servers: RedisServers, database: Database, tags: EntryTags) -> None:
        self.servers = servers
        self._tags = tags
        self.counters = RedisCounters()
        self._database = database
        self._copies: list[SignalsPublished] = []
        self._copying: asyncio.Task[None] | None = None
        self._rebuilds: dict[int, None] = {}
        self._rebuilding: asyncio.Task[None] | None = None

    def copy(self, published: SignalsPublished) -> None:
        """Queue published signals for copying. Without Redis, or with a full queue, they are left to a rebuild."""
        if not self.servers.is_up or len(self._copies) >= COPIES_QUEUED_MAX:
            return
        self._copies.append(published)
        if self._copying is None:
            self._copying = asyncio.ensure_future(self._copy_queued())

    async def read(self, requests: list[StreamRequest]) -> list[LogSlice | None]:
        """Run the reads in one round trip per server. None for a read that is not proven complete."""
        replies = await self.servers.execute([(stream_key(each.device_id), _read_command(each)) for each in requests])
        slices = [_proven(each, reply, self._tags) for each, reply in zip(requests, replies, strict=True)]
        await self._prove_tails(requests, slices)
        for each, reply, log_slice in zip(requests, replies, slices, strict=True):
            if log_slice is not None:
                self.counters.hits += 1
            elif isinstance(reply, list):
                self.counters.misses += 1
                self._queue_rebuild(each.device_id)
            else:
                self.counters.fallbacks += 1
        return slices

    async def _prove_tails(self, requests: list[StreamRequest], slices: list[LogSlice | None]) -> None:
        """Discard reads cut off by their limit, unless their stream ends at the tail of the log.

        A stream without gaps that ends at the tail of the log is a copy of the log. Any other may contain signals of a
        history that a restored backup has undone.
        """
        cut_off = [
            index
            for index, (each, log_slice) in enumerate(zip(requests, slices, strict=True))
            if log_slice is not None and log_slice.entries and log_slice.entries[-1].position != each.tail
        ]
        tails = await self.tails([requests[index].device_id for index in cut_off])
        for index, tail in zip(cut_off, tails, strict=True):
            if tail != requests[index].tail:
                slices[index] = None

    async def tails(self, device_ids: list[int]) -> list[Position | None]:
        """The last position of each device's stream; None if it is empty or unknown."""
        keys = [stream_key(device_id) for device_id in device_ids]
        replies = await self.servers.execute([(key, ("XREVRANGE", key, "+", "-", "COUNT", 1)) for key in keys])
        return [_position(reply[0][0]) if isinstance(reply, list) and reply else None for reply in replies]

    async def wait_until_idle(self) -> None:
        """Wait until nothing is left to copy or rebuild. For tests."""
        while tasks := [task for task in (self._copying, self._rebuilding) if task is not None]:
            await asyncio.wait(tasks)

    async def _copy_queued(self) -> None:
        try:
            while self._copies:
                copies, self._copies = self._copies, []
                await self._copy_all(copies)
        finally:
            self._copying = None

    async def _copy_all(self, copies: list[SignalsPublished]) -> None:
        by_device: dict[int, list[SignalsPublished]] = defaultdict(list)
        for each in copies:
            by_device[each.device_id].append(each)
        commands = [
            (stream_key(device_id), _copy_command(device_id, run, self._tags))
            for device_id, published in by_device.items()
            for run in _consecutive(published)
        ]
        replies = await self.servers.execute_writes(commands)
        self.counters.copied += sum(isinstance(reply, int) for reply in replies)

    def _queue_rebuild(self, device_id: int) -> None:
        if len(self._rebuilds) < REBUILDS_QUEUED_MAX:
            self._rebuilds[device_id] = None
            if self._rebuilding is None:
                self._rebuilding = asyncio.ensure_future(self._rebuild_queued())

    async def _rebuild_queued(self) -> None:
        try:
            while self._rebuilds:
                device_id = next(iter(self._rebuilds))
                del self._rebuilds[device_id]
                await self._rebuild(device_id)
        finally:
            self._rebuilding = None

    async def _rebuild(self, device_id: int) -> None:
        try:
            log_slice = await self._database.read(log.read, device_id, None, STREAM_ENTRIES)
        except Exception as error:
            logger.error("rebuilding a stream failed", device_id=device_id, error=str(error))
            return
        if log_slice.entries:
            command = rebuild_command(device_id, log_slice.entries, self._tags)
            (reply,) = await self.servers.execute_writes([(stream_key(device_id), command)])
            self.counters.rebuilt += reply == 1


def _consecutive(published: list[SignalsPublished]) -> Iterable[list[SignalsPublished]]:
    """Group events whose signals follow one another: each group needs one command."""
    run: list[SignalsPublished] = []
    for each in published:
        if run and run[-1].head.newest != each.before:
            yield run
            run = []
        run.append(each)
    if run:
        yield run


def _copy_command(device_id: int, run: list[SignalsPublished], tags: EntryTags) -> Command:
    entries = [part for published in run for entry in published.entries for part in _encode(device_id, entry, tags)]
    before = b"%d-%d" % run[0].before
    return ("EVAL", _SCRIPTS["copy"], 1, stream_key(device_id), before, STREAM_ENTRIES, *entries)


def rebuild_command(device_id: int, entries: Sequence[LogEntry], tags: EntryTags) -> Command:
    encoded = [part for entry in entries for part in _encode(device_id, entry, tags)]
    return ("EVAL", _SCRIPTS["rebuild"], 1, stream_key(device_id), STREAM_ENTRIES, *encoded)


def _encode(device_id: int, entry: LogEntry, tags: EntryTags) -> tuple[bytes, bytes, bytes]:
    position = b"%d-%d" % entry.position
    return position, entry.json, tags.of(device_id, position, entry.json)


def _read_command(request: StreamRequest) -> Command:
    key = stream_key(request.device_id)
    if request.cursor is None:
        return ("XREVRANGE", key, b"%d-%d" % request.tail, "-", "COUNT", request.limit)
    # One more than the limit: the entry at the cursor itself, which proves that no entry is missing after it.
    return ("XRANGE", key, b"%d-%d" % request.cursor, b"%d-%d" % request.tail, "COUNT", request.limit + 1)


def _proven(request: StreamRequest, reply: Any, tags: EntryTags) -> LogSlice | None:
    """The slice, if the reply proves that it is complete."""
    if not isinstance(reply, list) or not reply:
        return None
    # Compared in encoded form: a poll may return many entries, and decoding each would be slow.
    entries = EncodedEntries([identifier for identifier, _ in reply], [fields[1] for _, fields in reply])
    if request.cursor is None:
        entries = entries[::-1]
    ns = b" ".join(entries.positions).replace(b"-", b" ").split()[1::2]
    first_n = int(ns[0])
    if ns != [b"%d" % n for n in range(first_n, first_n + len(ns))]:
        return None
    ends_at_tail = entries.positions[-1] == b"%d-%d" % request.tail
    if request.cursor is None:
        is_complete = ends_at_tail and (len(entries) == request.limit or first_n == 1)
    else:
        begins_at_cursor = entries.positions[0] == b"%d-%d" % request.cursor
        is_complete = begins_at_cursor and (ends_at_tail or len(entries) == request.limit + 1)
    if not is_complete or not tags.match(request.device_id, reply):
        return None
    return LogSlice(LogHead(request.tail), entries if request.cursor is None else entries[1:])


def _position(identifier: bytes) -> Position:
    ms, _, n = identifier.partition(b"-")
    return Position(int(ms), int(n))
