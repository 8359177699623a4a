"""Rate windows in Redis: `ratelimit:<site>:<kind>`, a sorted set of hand-outs by the moment of each.

Beside the windows of a site lies what a look in the database last found to be held back there,
`ratelimit:<site>:held:<zone>`, for as long as it can be of use. Every key is asked for by itself, so it does not matter
on which master of a cluster it lies.

Must always hold: only what is committed is written, each hand-out under a name of its own. So a window here never
holds more than was handed out, and whatever Redis forgets makes it hold less.
"""

import asyncio
from collections import defaultdict
from typing import Any, NamedTuple

import msgspec

from restante.delivery.redis_connection import Command
from restante.delivery.redis_servers import RedisServers
from restante.delivery.window_copies import Filling, HandOut, Held, Queue, Window, WindowTotals

HAND_OUTS_WAITING_MAX = 10_000
# What a database says that was put in the place of another is not mistaken for what that one said for longer than this.
HELD_MS_MAX = 30_000

_encode = msgspec.json.Encoder().encode
_decoder = msgspec.json.Decoder(Held)


class _Found(NamedTuple):
    """What a look found, and when."""

    held: Held
    at_ms: int


def window_key(site_id: int, kind: str) -> bytes:
    return f"ratelimit:{site_id}:{kind}".encode()


def held_key(queue: Queue) -> bytes:
    zone = "" if queue.zone_id is None else str(queue.zone_id)
    return f"ratelimit:{queue.site_id}:held:{zone}".encode()


class RedisWindows:
    def __init__(self, servers: RedisServers) -> None:
        self.totals = WindowTotals()
        self._servers = servers
        self._handed_out: list[HandOut] = []
        self._held: dict[Queue, _Found] = {}
        self._writing: asyncio.Task[None] | None = None

    @property
    def is_up(self) -> bool:
        return self._servers.is_up

    def keep(self, handed_out: list[HandOut], queue: Queue, held: Held | None, at_ms: int) -> None:
        """Have written down what a commit has handed out, and what it found to be held back. Returns at once."""
        if not self.is_up or len(self._handed_out) >= HAND_OUTS_WAITING_MAX:
            return
        self._handed_out += handed_out
        if held is not None:
            self._held[queue] = _Found(held, at_ms)
        if self._writing is None and (handed_out or held is not None):
            self._writing = asyncio.ensure_future(self._write())

    async def held_at(self, queues: list[Queue]) -> list[Held | None]:
        """What was last found in each queue; None if that is not known."""
        keys = [held_key(queue) for queue in queues]
        replies = await self._servers.ask([(key, ("GET", key)) for key in keys])
        return [_read_held(reply) for reply in replies]

    async def fillings(self, windows: list[Window], now_ms: int) -> list[Filling | None]:
        """How full each window is; None if that is not known, or nothing is in it."""
        asked: list[tuple[bytes, Command]] = []
        for window in windows:
            key = window_key(window.site_id, window.kind)
            # From further ahead than a window is a clock's mistake, as in the database.
            between = (f"({now_ms - window.window_ms}", now_ms + window.window_ms)
            asked.append((key, ("ZCOUNT", key, *between)))
            asked.append((key, ("ZRANGEBYSCORE", key, *between, "WITHSCORES", "LIMIT", 0, 1)))
        replies = await self._servers.ask(asked)
        return [_filling(*replies[index : index + 2]) for index in range(0, len(replies), 2)]

    async def settled(self) -> None:
        """Wait until nothing is left to write, for those who want to look at the windows."""
        while self._writing is not None:
            await asyncio.wait([self._writing])

    async def _write(self) -> None:
        try:
            while self._handed_out or self._held:
                handed_out, self._handed_out = self._handed_out, []
                held, self._held = self._held, {}
                # The windows first: without them what is held back counts for nothing.
                await self._servers.ask(_window_commands(handed_out) + _held_commands(held))
        finally:
            self._writing = None


def _window_commands(handed_out: list[HandOut]) -> list[tuple[bytes, Command]]:
    by_window: dict[Window, list[HandOut]] = defaultdict(list)
    for each in handed_out:
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


def _held_commands(held: dict[Queue, _Found]) -> list[tuple[bytes, Command]]:
    commands: list[tuple[bytes, Command]] = []
    for queue, found in held.items():
        lives_ms = min(HELD_MS_MAX, found.held.look_again_ms - found.at_ms)
        if lives_ms > 0:
            key = held_key(queue)
            commands.append((key, ("SET", key, _encode(found.held), "PX", lives_ms)))
    return commands


def _read_held(reply: Any) -> Held | None:
    try:
        return _decoder.decode(reply) if isinstance(reply, bytes) else None
    except msgspec.MsgspecError:
        # Another version's, or somebody else's.
        return None


def _filling(count: Any, oldest: Any) -> Filling | None:
    if not isinstance(count, int) or not isinstance(oldest, list) or not oldest:
        return None
    return Filling(count, int(oldest[0][1]))
