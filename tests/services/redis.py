"""Redis servers of the tests' own: alone, in a cluster of three, or watched by a Sentinel, with a replica."""

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import redis

from tests.faults.server_process import free_port
from tests.pki import Pair, pki
from tests.services.processes import end, folder_of, program, start, wait_until

ACCOUNT = "redis"
PASSWORD = "s3cret/of:redis"
QUOTED_PASSWORD = "s3cret%2Fof%3Aredis"


class RedisServer:
    """One server; what it keeps it keeps in its folder, every second."""

    def __init__(
        self, folder: Path, *flags: str, password: str = "", sentinel: bool = False, tls: Pair | None = None
    ) -> None:
        self.folder = folder
        self._tls = None if tls is None else _own(folder, tls)
        self.port = free_port()
        self._flags = flags
        self._password = password
        self._program = "redis-sentinel" if sentinel else "redis-server"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        password = f":{QUOTED_PASSWORD}@" if self._password else ""
        return f"{'redis' if self._tls is None else 'rediss'}://{password}127.0.0.1:{self.port}"

    def start(self, *flags: str) -> None:
        command = [program(self._program)]
        if self._program == "redis-sentinel":
            command.append(str(self.folder / "sentinel.conf"))
        if self._tls is not None:
            # Only with TLS: nothing else is listened to.
            files = ("--tls-cert-file", str(self._tls.certificate), "--tls-key-file", str(self._tls.key))
            authority = ("--tls-ca-cert-file", str(self.folder / "ca.crt"), "--tls-auth-clients", "no")
            command += ["--port", "0", "--tls-port", str(self.port), *files, *authority, "--tls-replication", "yes"]
            command += ["--tls-cluster", "yes"] if "--cluster-enabled" in self._flags else []
        else:
            command += ["--port", str(self.port)]
        command += ["--bind", "127.0.0.1", "--dir", str(self.folder), "--save", ""]
        if self._password:
            command += ["--requirepass", self._password]
        self._process = start(ACCOUNT, self.folder, *command, *self._flags, *flags)
        self.wait_until(self._is_ready)

    def kill(self) -> None:
        assert self._process is not None
        end(self._process)

    def freeze(self) -> None:
        """It is there, and does not answer any more."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def lose_everything(self) -> None:
        """What it kept is gone, as from a disk that was replaced. Only while it does not run."""
        shutil.rmtree(self.folder / "appendonlydir", ignore_errors=True)

    def client(self) -> "redis.Redis":
        # It is not the tests' own client whose trust is tested.
        tls: dict[str, Any] = {} if self._tls is None else {"ssl": True, "ssl_cert_reqs": "none"}
        return redis.Redis(port=self.port, password=self._password or None, **tls)

    def ask(self, *command: Any) -> Any:
        with self.client() as client:
            return client.execute_command(*command)

    def wait_until(self, is_so: Callable[[], bool]) -> None:
        assert self._process is not None
        wait_until(is_so, self._process, self.folder)

    def is_joined(self) -> bool:
        """Whether it knows the whole cluster, and all slots are served."""
        state: bytes = self.ask("CLUSTER", "INFO")
        return b"cluster_state:ok" in state and b"cluster_known_nodes:3" in state

    def _is_ready(self) -> bool:
        try:
            return bool(self.ask("PING"))
        except redis.ConnectionError:
            return False


def _own(folder: Path, pair: Pair) -> Pair:
    """The files, as the account that it runs as can read them."""
    own = Pair(folder / "server.crt", folder / "server.key")
    for source, target in zip((*pair, pki().authority.certificate), (*own, folder / "ca.crt"), strict=True):
        shutil.copy(source, target)
        if os.geteuid() == 0:
            shutil.chown(target, ACCOUNT, ACCOUNT)
    return own


@contextmanager
def running_redis(*flags: str, password: str = "", tls: Pair | None = None) -> Iterator[RedisServer]:
    with folder_of(ACCOUNT) as folder:
        server = RedisServer(folder, *flags, password=password, tls=tls)
        server.start()
        try:
            yield server
        finally:
            server.kill()


@contextmanager
def running_cluster(tls: Pair | None = None) -> Iterator[list[RedisServer]]:
    """Three masters that share the slots."""
    with folder_of(ACCOUNT) as a, folder_of(ACCOUNT) as b, folder_of(ACCOUNT) as c:
        servers = [RedisServer(folder, "--cluster-enabled", "yes", tls=tls) for folder in (a, b, c)]
        for server in servers:
            # The bus is on a port of its own, else ten thousand above, where nobody has looked whether it is free.
            server.start("--cluster-port", str(free_port()))
        try:
            _join(servers)
            yield servers
        finally:
            for server in servers:
                server.kill()


def _join(servers: list[RedisServer]) -> None:
    edges = [0, 5461, 10923, 16384]
    for server, (slot, beyond) in zip(servers, pairwise(edges), strict=True):
        server.ask("CLUSTER", "ADDSLOTSRANGE", slot, beyond - 1)
    first, *others = servers
    for server in others:
        bus = server.ask("CONFIG", "GET", "cluster-port")
        bus_port = int(bus[b"cluster-port"] if isinstance(bus, dict) else bus[1])
        first.ask("CLUSTER", "MEET", "127.0.0.1", server.port, bus_port)
    for server in servers:
        server.wait_until(server.is_joined)


@contextmanager
def running_sentinel(tls: Pair | None = None) -> Iterator[tuple[RedisServer, RedisServer, RedisServer]]:
    """A master, its replica, and a Sentinel that watches them as the service `updates`."""
    with folder_of(ACCOUNT) as a, folder_of(ACCOUNT) as b, folder_of(ACCOUNT) as c:
        master, replica = RedisServer(a, tls=tls), RedisServer(b, tls=tls)
        master.start()
        replica.start("--replicaof", "127.0.0.1", str(master.port))
        (c / "sentinel.conf").write_text(
            f"sentinel monitor updates 127.0.0.1 {master.port} 1\nsentinel down-after-milliseconds updates 300\n"
            "sentinel failover-timeout updates 2000\n"
        )
        if os.geteuid() == 0:
            # It writes down there what it has learnt.
            shutil.chown(c / "sentinel.conf", ACCOUNT, ACCOUNT)
        sentinel = RedisServer(c, sentinel=True, tls=tls)
        sentinel.start()
        try:
            yield master, replica, sentinel
        finally:
            for server in (sentinel, replica, master):
                server.kill()


async def until(is_so: Callable[[], bool], within_seconds: float = 60.0) -> None:
    """Wait in the event loop until something is so."""
    async with asyncio.timeout(within_seconds):
        while not is_so():
            await asyncio.sleep(0.005)
