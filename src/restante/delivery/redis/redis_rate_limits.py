"""The rate limit mirror in Redis: `ratelimit:<site>:<kind>`, a sorted set of dispatches by time.

Beside the rate windows of a site, `ratelimit:<site>:held:<zone>` holds the last snapshot of its queue for as long as
it is useful. Every command uses one key, so the keys may be on any master of a cluster.

Invariant: only committed dispatches are written, each under a unique name. A window in Redis therefore never holds more
than was dispatched, and data that Redis loses only makes it hold less.
"""

import asyncio
from collections import defaultdict
from typing import Any

import msgspec

from restante.delivery.redis.rate_limit_mirror import (
    DispatchRecord,
    MirroredLimit,
    QueueSnapshot,
    RateLimitMirrorCounters,
    SiteQueue,
    WindowUsage,
)
from restante.delivery.redis.redis_connection import Command
from restante.delivery.redis.redis_servers import RedisServers

DISPATCHES_QUEUED_MAX = 10_000
# After a restore of the database, a snapshot of the old one is used for no longer than this.
SNAPSHOT_MS_MAX = 30_000

_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(QueueSnapshot)


def window_key(site_id: int, kind: str) -> bytes:
    return f"ratelimit:{site_id}:{kind}".encode()


def snapshot_key(queue: SiteQueue) -> bytes:
    zone = "" if queue.zone_id is None else str(queue.zone_id)
    return f"ratelimit:{queue.site_id}:held:{zone}".encode()


class RedisRateLimits:
    def __init__(self, servers: RedisServers) -> None:
        self.counters = RateLimitMirrorCounters()
        self._servers = servers
        self._dispatched: list[DispatchRecord] = []
        # The snapshot of each queue, and its time.
        self._snapshots: dict[SiteQueue, tuple[QueueSnapshot, int]] = {}
        self._writing: asyncio.Task[None] | None = None

    @property
    def is_up(self) -> bool:
        return self._servers.is_up

    def record(
        self, dispatched: list[DispatchRecord], queue: SiteQueue, snapshot: QueueSnapshot | None, at_ms: int
    ) -> None:
        """Queue the dispatches of a commit, and the snapshot that it found, for writing. Returns at once."""
        if not self.is_up or len(self._dispatched) >= DISPATCHES_QUEUED_MAX:
            return
        self._dispatched += dispatched
        if snapshot is not None:
            self._snapshots[queue] = snapshot, at_ms
        if self._writing is None and (dispatched or snapshot is not None):
            self._writing = asyncio.ensure_future(self._write())

    async def read_snapshots(self, queues: list[SiteQueue]) -> list[QueueSnapshot | None]:
        """The last snapshot of each queue; None if it is unknown."""
        keys = [snapshot_key(queue) for queue in queues]
        replies = await self._servers.execute([(key, ("GET", key)) for key in keys])
        return [_decode_snapshot(reply) for reply in replies]

    async def read_usage(self, windows: list[MirroredLimit], now_ms: int) -> list[WindowUsage | None]:
        """The usage of each rate window; None if it is empty or unknown."""
        commands: list[tuple[bytes, Command]] = []
        for window in windows:
            key = window_key(window.site_id, window.kind)
            # Dispatches further ahead than one window are a clock error and do not count, as in the database.
            between = (f"({now_ms - window.window_ms}", now_ms + window.window_ms)
            commands.append((key, ("ZCOUNT", key, *between)))
            commands.append((key, ("ZRANGEBYSCORE", key, *between, "WITHSCORES", "LIMIT", 0, 1)))
        replies = await self._servers.execute(commands)
        return [_usage(*replies[index : index + 2]) for index in range(0, len(replies), 2)]

    async def wait_until_idle(self) -> None:
        """Wait until nothing is left to write. For tests."""
        while self._writing is not None:
            await asyncio.wait([self._writing])

    async def _write(self) -> None:
        try:
            while self._dispatched or self._snapshots:
                dispatched, self._dispatched = self._dispatched, []
                snapshots, self._snapshots = self._snapshots, {}
                # The windows first: a snapshot is useless without them.
                await self._servers.execute_writes(_window_commands(dispatched) + _snapshot_commands(snapshots))
        finally:
            self._writing = None


def _window_commands(dispatched: list[DispatchRecord]) -> list[tuple[bytes, Command]]:
    by_window: dict[MirroredLimit, list[DispatchRecord]] = defaultdict(list)
    for each in dispatched:
        by_window[each.window].append(each)
    commands: list[tuple[bytes, Command]] = []
    for window, added in by_window.items():
        key = window_key(window.site_id, window.kind)
        pairs = [part for each in added for part in (each.at_ms, each.name)]
        newest = max(each.at_ms for each in added)
        commands.append((key, ("ZADD", key, *pairs)))
        commands.append((key, ("ZREMRANGEBYSCORE", key, "-inf", newest - window.window_ms)))
        commands.append((key, ("PEXPIRE", key, window.window_ms + 1000)))
    return commands


def _snapshot_commands(snapshots: dict[SiteQueue, tuple[QueueSnapshot, int]]) -> list[tuple[bytes, Command]]:
    commands: list[tuple[bytes, Command]] = []
    for queue, (snapshot, at_ms) in snapshots.items():
        lifetime_ms = min(SNAPSHOT_MS_MAX, snapshot.next_due_ms - at_ms)
        if lifetime_ms > 0:
            key = snapshot_key(queue)
            commands.append((key, ("SET", key, _encode(snapshot), "PX", lifetime_ms)))
    return commands


def _decode_snapshot(reply: Any) -> QueueSnapshot | None:
    try:
        return _decoder.decode(reply) if isinstance(reply, bytes) else None
    except msgspec.MsgspecError:
        # Written by another version or another program.
        return None


def _usage(count: Any, oldest: Any) -> WindowUsage | None:
    if not isinstance(count, int) or not isinstance(oldest, list) or not oldest:
        return None
    return WindowUsage(count, int(oldest[0][1]))
