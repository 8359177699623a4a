"""The Redis servers that hold streams and windows: found, connected to, listened to, and watched.

    find masters ─▶ connect to each, tracking on ─▶ up ──a connection lost, a master no longer one──▶ down ─▶ again

On each master one connection does everything. It has server-assisted client-side caching on for the streams' keys
(`CLIENT TRACKING … BCAST`): whatever is changed rings here, by whomever. Our own changes ring, too: they are made by
scripts, which Redis does not take for the connection's own.

Must always hold: while `is_up`, every change of a stream is heard. So it is up only with all masters
connected and tracking, and whatever was heard about before is void when it comes up again.
"""

import asyncio
import ssl
from binascii import crc_hqx
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from restante.delivery.redis_address import RedisAddress
from restante.delivery.redis_connection import Command, RedisAway, RedisConnection, RedisRefused, connect
from restante.delivery.redis_tls import RedisTlsError

log = structlog.get_logger()

PREFIX = b"device:updates:"
WATCH_SECONDS = 1.0
AGAIN_SECONDS = (0.05, 5.0)
SLOTS = 16_384


def stream_key(device_id: int) -> bytes:
    return b"device:updates:%d" % device_id


def slot_of(key: bytes) -> int:
    """The part of a cluster that a stream's key falls into. None of our keys has braces, which would narrow it."""
    return crc_hqx(key, 0) % SLOTS


class RedisServers:
    def __init__(self, address: RedisAddress) -> None:
        self._address = address
        self.is_up = False
        self.problem: str | None = None
        # Told which device's stream was changed; None: any of them may have been.
        self.on_ring: Callable[[int | None], None] = lambda _device_id: None
        # Told when it has come up or gone down: what was known by hearing is void.
        self.on_interruption: Callable[[], None] = lambda: None
        self._masters: dict[tuple[str, int], RedisConnection] = {}
        self._slots: list[tuple[int, int, RedisConnection]] = []
        self._tls: ssl.SSLContext | None = None
        self._broken = asyncio.Event()

    async def run(self) -> None:
        shortest, longest = AGAIN_SECONDS
        pause = shortest
        while True:
            try:
                await self._come_up()
                pause = shortest
                await self._watch()
            except (RedisAway, RedisRefused) as error:
                self._tell_problem(str(error))
            finally:
                self._go_down()
            await asyncio.sleep(pause)
            pause = min(longest, pause * 2)

    def connection_for(self, key: bytes) -> RedisConnection | None:
        """Who holds the key; None while that is not known."""
        if self._address.kind != "cluster":
            return next(iter(self._masters.values()), None)
        slot = slot_of(key)
        return next((master for first, last, master in self._slots if first <= slot <= last), None)

    async def ask(self, asked: Sequence[tuple[bytes, Command]]) -> list[Any]:
        """The replies to commands, each with the key it is about, in their order; in one trip to each master. What
        could not be asked is answered by the exception that says why."""
        by_master: dict[RedisConnection | None, list[int]] = defaultdict(list)
        for index, (key, _command) in enumerate(asked):
            by_master[self.connection_for(key)].append(index)
        if len(by_master) == 1:
            return await self._ask_master(next(iter(by_master)), [command for _key, command in asked])
        replies: list[Any] = [None] * len(asked)
        trips = [self._ask_master(each, [asked[index][1] for index in own]) for each, own in by_master.items()]
        for own, found in zip(by_master.values(), await asyncio.gather(*trips), strict=True):
            for index, reply in zip(own, found, strict=True):
                replies[index] = reply
        return replies

    async def _ask_master(self, master: RedisConnection | None, commands: list[Command]) -> list[Any]:
        try:
            if master is None:
                raise RedisAway("not connected")
            replies = await master.ask(commands)
        except RedisAway as away:
            return [away] * len(commands)
        for reply in replies:
            if isinstance(reply, RedisRefused):
                self.doubt(reply)
        return replies

    def doubt(self, refusal: RedisRefused) -> None:
        """An answer that shows that a master is none any more, or has given slots away: find out anew."""
        if str(refusal).split(" ", 1)[0] in ("MOVED", "ASK", "READONLY", "CLUSTERDOWN", "MASTERDOWN"):
            self._broken.set()

    async def look(self) -> int:
        """Connect once, and leave again; how many masters there are. RedisAway or RedisRefused."""
        try:
            await self._connect_all()
            return len(self._masters)
        finally:
            self._go_down()

    async def _come_up(self) -> None:
        await self._connect_all()
        self.is_up = True
        self.problem = None
        log.info("redis is up", masters=len(self._masters))
        self.on_interruption()

    async def _connect_all(self) -> None:
        self._broken.clear()
        try:
            self._tls = None if self._address.tls is None else self._address.tls.context()
        except RedisTlsError as error:
            raise RedisAway(str(error)) from error
        if self._address.kind == "cluster":
            await self._connect_cluster()
        else:
            host, port = self._address.hosts[0] if self._address.kind == "single" else await self._ask_sentinels()
            await self._connect_master(host, port)
        if self._broken.is_set():
            raise RedisAway("a connection was lost at once")

    def _go_down(self) -> None:
        was_up, self.is_up = self.is_up, False
        masters, self._masters, self._slots = self._masters, {}, []
        for master in masters.values():
            master.close()
        if was_up:
            if self.problem is not None:
                # Not if it is us who leave.
                log.warning("redis is away, polls are answered from the database", problem=self.problem)
            self.on_interruption()

    async def _watch(self) -> None:
        """Until something is wrong: a lost connection, no answer, a master that was made a replica."""
        while not self._broken.is_set():
            try:
                async with asyncio.timeout(WATCH_SECONDS):
                    await self._broken.wait()
            except TimeoutError:
                for master in self._masters.values():
                    await _require_master(master)
        raise RedisAway("a connection was lost")

    async def _ask_sentinels(self) -> tuple[str, int]:
        problem: Exception = RedisAway("no sentinel knows the service")
        for host, port in self._address.hosts:
            try:
                sentinel = await self._connect_sentinel(host, port)
            except (RedisAway, RedisRefused) as error:
                problem = error
                continue
            try:
                found = await sentinel.ask_one("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._address.service)
            finally:
                sentinel.close()
            if found is not None:
                return found[0].decode(), int(found[1])
        raise problem

    async def _connect_sentinel(self, host: str, port: int) -> RedisConnection:
        try:
            return await connect(host, port, tls=self._tls)
        except RedisRefused:
            # It may want the password that the servers want.
            address = self._address
            return await connect(host, port, username=address.username, password=address.password, tls=self._tls)

    async def _connect_cluster(self) -> None:
        problem: Exception = RedisAway("no server of the cluster answers")
        for host, port in self._address.hosts:
            try:
                found = await self._ask_for_slots(host, port)
            except (RedisAway, RedisRefused) as error:
                problem = error
                continue
            for first, last, master_host, master_port in found:
                master = await self._connect_master(master_host or host, master_port)
                self._slots.append((first, last, master))
            if sum(last - first + 1 for first, last, _ in self._slots) == 16384:
                return
            problem = RedisAway("the cluster does not serve all slots")
        raise problem

    async def _ask_for_slots(self, host: str, port: int) -> list[tuple[int, int, str, int]]:
        connection = await self._connect(host, port)
        try:
            slots = await connection.ask_one("CLUSTER", "SLOTS")
        finally:
            connection.close()
        return [(first, last, (master[0] or b"").decode(), master[1]) for first, last, master, *_ in slots]

    async def _connect_master(self, host: str, port: int) -> RedisConnection:
        known = self._masters.get((host, port))
        if known is not None:
            return known
        master = await self._connect(host, port, self._hear, self._broken.set)
        self._masters[host, port] = master
        await _require_master(master)
        await master.ask_one("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", PREFIX)
        return master

    async def _connect(self, host: str, port: int, *told: Any) -> RedisConnection:
        address = self._address
        return await connect(
            host,
            port,
            *told,
            username=address.username,
            password=address.password,
            database=address.database,
            tls=self._tls,
        )

    def _hear(self, push: list[Any]) -> None:
        if push[0] != b"invalidate":
            return
        keys = push[1]
        if keys is None:
            # Everything was flushed.
            self.on_ring(None)
            return
        for key in keys:
            device = key[len(PREFIX) :]
            if device.isdigit():
                self.on_ring(int(device))

    def _tell_problem(self, problem: str) -> None:
        if self.problem is None and not self.is_up:
            log.warning("redis cannot be reached, polls are answered from the database", problem=problem)
        self.problem = problem


async def _require_master(connection: RedisConnection) -> None:
    (role, *_) = await connection.ask_one("ROLE")
    if role != b"master":
        raise RedisAway(f"a {role.decode()} where a master was expected")
