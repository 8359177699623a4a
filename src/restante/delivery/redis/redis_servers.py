"""The Redis servers that hold streams and rate windows: finds them, connects, and monitors the connections.

    find masters ─▶ connect to each, with tracking ─▶ up ──connection lost, or no longer a master──▶ down ─▶ reconnect

Each master has one connection for everything. Server-assisted client-side caching is on for the keys of the streams
(`CLIENT TRACKING … BCAST`): Redis reports every change of a stream. It reports our own changes too, because scripts
make them, which Redis does not attribute to the connection.

Invariant: while `is_up`, every change of a stream is reported. It is therefore up only while all masters are connected
and tracking, and everything that was cached before is invalid when it comes up again.
"""

import asyncio
import ssl
from binascii import crc_hqx
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from restante.delivery.redis.redis_address import RedisAddress
from restante.delivery.redis.redis_connection import (
    Command,
    RedisCommandError,
    RedisConnection,
    RedisUnavailable,
    connect,
)
from restante.delivery.redis.redis_tls import RedisTlsError

log = structlog.get_logger()

PREFIX = b"device:updates:"
CHECK_SECONDS = 1.0
RECONNECT_SECONDS = (0.05, 5.0)
SLOTS = 16_384


def stream_key(device_id: int) -> bytes:
    return b"device:updates:%d" % device_id


def slot_of(key: bytes) -> int:
    """The cluster slot of a key. Our keys contain no braces (hash tags), which would change it."""
    return crc_hqx(key, 0) % SLOTS


class RedisServers:
    def __init__(self, address: RedisAddress) -> None:
        self._address = address
        self.is_up = False
        self.problem: str | None = None
        # A key whose write was refused, although Redis answers: its memory is full, its disk fails, or an access rule.
        self._refused_key: bytes | None = None
        # Called with the device whose stream was changed; None: any stream may have been changed.
        self.on_change: Callable[[int | None], None] = lambda _device_id: None
        # Called when it comes up or goes down: everything cached is invalid.
        self.on_interruption: Callable[[], None] = lambda: None
        self._masters: dict[tuple[str, int], RedisConnection] = {}
        self._slots: list[tuple[int, int, RedisConnection]] = []
        self._tls: ssl.SSLContext | None = None
        self._is_broken = asyncio.Event()

    async def run(self) -> None:
        shortest, longest = RECONNECT_SECONDS
        pause = shortest
        while True:
            try:
                await self._go_up()
                pause = shortest
                await self._monitor()
            except (RedisUnavailable, RedisCommandError) as error:
                self._record_problem(str(error))
            finally:
                self._go_down()
            await asyncio.sleep(pause)
            pause = min(longest, pause * 2)

    def connection_for(self, key: bytes) -> RedisConnection | None:
        """The connection to the master of the key; None while it is unknown."""
        if self._address.kind != "cluster":
            return next(iter(self._masters.values()), None)
        slot = slot_of(key)
        return next((master for first, last, master in self._slots if first <= slot <= last), None)

    async def execute(self, commands: Sequence[tuple[bytes, Command]]) -> list[Any]:
        """Run commands, each given with its key, in one round trip per master. Returns the replies in order.

        The reply of a command that could not be sent is the exception.
        """
        by_master: dict[RedisConnection | None, list[int]] = defaultdict(list)
        for index, (key, _command) in enumerate(commands):
            by_master[self.connection_for(key)].append(index)
        if len(by_master) == 1:
            return await self._execute_on(next(iter(by_master)), [command for _key, command in commands])
        replies: list[Any] = [None] * len(commands)
        round_trips = [self._execute_on(each, [commands[index][1] for index in own]) for each, own in by_master.items()]
        for own, found in zip(by_master.values(), await asyncio.gather(*round_trips), strict=True):
            for index, reply in zip(own, found, strict=True):
                replies[index] = reply
        return replies

    @property
    def accepts_writes(self) -> bool:
        """False from the first refused write until Redis accepts one again, and while it is down."""
        return self.is_up and self._refused_key is None

    async def execute_writes(self, commands: Sequence[tuple[bytes, Command]]) -> list[Any]:
        """Like `execute`, for commands that write: notices a Redis that answers and refuses them."""
        replies = await self.execute(commands)
        for (key, _command), reply in zip(commands, replies, strict=True):
            if isinstance(reply, RedisCommandError) and self._refused_key is None and not _is_about_topology(reply):
                self._refused_key = key
                log.warning("redis refuses writes, polls are answered from the database", problem=str(reply))
        return replies

    async def _check_refusal(self) -> None:
        """Check whether writes are accepted again, by one that changes nothing: it adds an entry before all others."""
        key = self._refused_key
        if key is None:
            return
        (reply,) = await self.execute([(key, ("XADD", key, "NOMKSTREAM", "0-1", "probe", "1"))])
        if not isinstance(reply, RedisUnavailable) and not _is_refusal(reply):
            self._refused_key = None
            log.info("redis accepts writes again")

    async def _execute_on(self, master: RedisConnection | None, commands: list[Command]) -> list[Any]:
        try:
            if master is None:
                raise RedisUnavailable("not connected")
            replies = await master.execute(commands)
        except RedisUnavailable as error:
            return [error] * len(commands)
        for reply in replies:
            if isinstance(reply, RedisCommandError):
                self.check_topology(reply)
        return replies

    def check_topology(self, error: RedisCommandError) -> None:
        """Reconnect if the error shows that a master was demoted or has lost slots."""
        if _is_about_topology(error):
            self._is_broken.set()

    async def probe(self) -> int:
        """Connect and disconnect. Returns the number of masters; raises RedisUnavailable or RedisCommandError."""
        try:
            await self._connect_all()
            return len(self._masters)
        finally:
            self._go_down()

    async def _go_up(self) -> None:
        await self._connect_all()
        self.is_up = True
        self.problem = None
        log.info("redis is up", masters=len(self._masters))
        self.on_interruption()

    async def _connect_all(self) -> None:
        self._is_broken.clear()
        try:
            self._tls = None if self._address.tls is None else self._address.tls.context()
        except RedisTlsError as error:
            raise RedisUnavailable(str(error)) from error
        if self._address.kind == "cluster":
            await self._connect_cluster()
        else:
            host, port = self._address.hosts[0] if self._address.kind == "single" else await self._find_master()
            await self._connect_master(host, port)
        if self._is_broken.is_set():
            raise RedisUnavailable("a connection was lost immediately")

    def _go_down(self) -> None:
        was_up, self.is_up = self.is_up, False
        masters, self._masters, self._slots = self._masters, {}, []
        for master in masters.values():
            master.close()
        if was_up:
            if self.problem is not None:
                # Not if this process disconnected.
                log.warning("redis is away, polls are answered from the database", problem=self.problem)
            self.on_interruption()

    async def _monitor(self) -> None:
        """Run until something is wrong: a lost connection, no reply, a demoted master."""
        while not self._is_broken.is_set():
            try:
                async with asyncio.timeout(CHECK_SECONDS):
                    await self._is_broken.wait()
            except TimeoutError:
                for master in self._masters.values():
                    await _require_master(master)
                await self._check_refusal()
        raise RedisUnavailable("a connection was lost")

    async def _find_master(self) -> tuple[str, int]:
        problem: Exception = RedisUnavailable("no sentinel has the service")
        for host, port in self._address.hosts:
            try:
                sentinel = await self._connect_sentinel(host, port)
            except (RedisUnavailable, RedisCommandError) as error:
                problem = error
                continue
            try:
                found = await sentinel.execute_one("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._address.service)
            finally:
                sentinel.close()
            if found is not None:
                return found[0].decode(), int(found[1])
        raise problem

    async def _connect_sentinel(self, host: str, port: int) -> RedisConnection:
        try:
            return await connect(host, port, tls=self._tls)
        except RedisCommandError:
            # It may require the password of the servers.
            address = self._address
            return await connect(host, port, username=address.username, password=address.password, tls=self._tls)

    async def _connect_cluster(self) -> None:
        problem: Exception = RedisUnavailable("no server of the cluster replies")
        for host, port in self._address.hosts:
            try:
                found = await self._read_slots(host, port)
            except (RedisUnavailable, RedisCommandError) as error:
                problem = error
                continue
            for first, last, master_host, master_port in found:
                master = await self._connect_master(master_host or host, master_port)
                self._slots.append((first, last, master))
            if sum(last - first + 1 for first, last, _ in self._slots) == SLOTS:
                return
            problem = RedisUnavailable("the cluster does not serve all slots")
        raise problem

    async def _read_slots(self, host: str, port: int) -> list[tuple[int, int, str, int]]:
        connection = await self._connect(host, port)
        try:
            slots = await connection.execute_one("CLUSTER", "SLOTS")
        finally:
            connection.close()
        return [(first, last, (master[0] or b"").decode(), master[1]) for first, last, master, *_ in slots]

    async def _connect_master(self, host: str, port: int) -> RedisConnection:
        known = self._masters.get((host, port))
        if known is not None:
            return known
        master = await self._connect(host, port, self._receive_push, self._is_broken.set)
        self._masters[host, port] = master
        await _require_master(master)
        await master.execute_one("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", PREFIX)
        return master

    async def _connect(self, host: str, port: int, *callbacks: Any) -> RedisConnection:
        address = self._address
        return await connect(
            host,
            port,
            *callbacks,
            username=address.username,
            password=address.password,
            database=address.database,
            tls=self._tls,
        )

    def _receive_push(self, push: list[Any]) -> None:
        if push[0] != b"invalidate":
            return
        keys = push[1]
        if keys is None:
            # The whole database was flushed.
            self.on_change(None)
            return
        for key in keys:
            device = key[len(PREFIX) :]
            if device.isdigit():
                self.on_change(int(device))

    def _record_problem(self, problem: str) -> None:
        if self.problem is None and not self.is_up:
            log.warning("redis cannot be reached, polls are answered from the database", problem=problem)
        self.problem = problem


def _is_about_topology(error: RedisCommandError) -> bool:
    return str(error).split(" ", 1)[0] in ("MOVED", "ASK", "READONLY", "CLUSTERDOWN", "MASTERDOWN")


def _is_refusal(reply: Any) -> bool:
    """Whether the reply refuses every write, and not only this one: an id that is too small, another type of key."""
    return isinstance(reply, RedisCommandError) and str(reply).split(" ", 1)[0] not in ("ERR", "WRONGTYPE")


async def _require_master(connection: RedisConnection) -> None:
    (role, *_) = await connection.execute_one("ROLE")
    if role != b"master":
        raise RedisUnavailable(f"a {role.decode()} where a master was expected")
