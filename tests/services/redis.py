"""Private Redis servers for tests: a single one, a cluster of three, or a master with a replica and a Sentinel."""

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
from tests.pki import CertificateFiles, pki
from tests.services.processes import end, program, service_folder, start, wait_until

ACCOUNT = "redis"
PASSWORD = "s3cret/of:redis"
QUOTED_PASSWORD = "s3cret%2Fof%3Aredis"


class RedisServer:
    """One Redis server with its own folder and port."""

    def __init__(
        self, folder: Path, *flags: str, password: str = "", sentinel: bool = False, tls: CertificateFiles | None = None
    ) -> None:
        self.folder = folder
        self._tls = None if tls is None else _copy_files(folder, tls)
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
            # Listen with TLS only.
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
        """Stop the process with SIGSTOP: connections stay open, but it does not respond."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def delete_data(self) -> None:
        """Delete its data, as after the replacement of a disk. Only while it does not run."""
        shutil.rmtree(self.folder / "appendonlydir", ignore_errors=True)

    def client(self) -> "redis.Redis":
        # The tests' own client does not verify certificates: that is not what is tested.
        tls: dict[str, Any] = {} if self._tls is None else {"ssl": True, "ssl_cert_reqs": "none"}
        return redis.Redis(port=self.port, password=self._password or None, **tls)

    def execute(self, *command: Any) -> Any:
        with self.client() as client:
            return client.execute_command(*command)

    def wait_until(self, is_true: Callable[[], bool]) -> None:
        assert self._process is not None
        wait_until(is_true, self._process, self.folder)

    def is_joined(self) -> bool:
        """Whether it knows all nodes of the cluster and all slots are served."""
        state: bytes = self.execute("CLUSTER", "INFO")
        return b"cluster_state:ok" in state and b"cluster_known_nodes:3" in state

    def _is_ready(self) -> bool:
        try:
            return bool(self.execute("PING"))
        except redis.ConnectionError:
            return False


def _copy_files(folder: Path, files: CertificateFiles) -> CertificateFiles:
    """Copy the certificate files so that the account of the service can read them."""
    copies = CertificateFiles(folder / "server.crt", folder / "server.key")
    for source, target in zip(
        (files.certificate, files.key, pki().authority.certificate),
        (copies.certificate, copies.key, folder / "ca.crt"),
        strict=True,
    ):
        shutil.copy(source, target)
        if os.geteuid() == 0:
            shutil.chown(target, ACCOUNT, ACCOUNT)
    return copies


@contextmanager
def running_redis(*flags: str, password: str = "", tls: CertificateFiles | None = None) -> Iterator[RedisServer]:
    with service_folder(ACCOUNT) as folder:
        server = RedisServer(folder, *flags, password=password, tls=tls)
        server.start()
        try:
            yield server
        finally:
            server.kill()


@contextmanager
def running_cluster(tls: CertificateFiles | None = None) -> Iterator[list[RedisServer]]:
    """Three masters that share the hash slots."""
    with service_folder(ACCOUNT) as a, service_folder(ACCOUNT) as b, service_folder(ACCOUNT) as c:
        servers = [RedisServer(folder, "--cluster-enabled", "yes", tls=tls) for folder in (a, b, c)]
        for server in servers:
            # Choose the port of the cluster bus. The default, 10,000 above, may be in use.
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
        server.execute("CLUSTER", "ADDSLOTSRANGE", slot, beyond - 1)
    first, *others = servers
    for server in others:
        bus = server.execute("CONFIG", "GET", "cluster-port")
        bus_port = int(bus[b"cluster-port"] if isinstance(bus, dict) else bus[1])
        first.execute("CLUSTER", "MEET", "127.0.0.1", server.port, bus_port)
    for server in servers:
        server.wait_until(server.is_joined)


@contextmanager
def running_sentinel(tls: CertificateFiles | None = None) -> Iterator[tuple[RedisServer, RedisServer, RedisServer]]:
    """A master, its replica, and a Sentinel that monitors them as the service `updates`."""
    with service_folder(ACCOUNT) as a, service_folder(ACCOUNT) as b, service_folder(ACCOUNT) as c:
        master, replica = RedisServer(a, tls=tls), RedisServer(b, tls=tls)
        master.start()
        replica.start("--replicaof", "127.0.0.1", str(master.port))
        (c / "sentinel.conf").write_text(
            f"sentinel monitor updates 127.0.0.1 {master.port} 1\nsentinel down-after-milliseconds updates 300\n"
            "sentinel failover-timeout updates 2000\n"
        )
        if os.geteuid() == 0:
            # Sentinel writes its state into this file.
            shutil.chown(c / "sentinel.conf", ACCOUNT, ACCOUNT)
        sentinel = RedisServer(c, sentinel=True, tls=tls)
        sentinel.start()
        try:
            yield master, replica, sentinel
        finally:
            for server in (sentinel, replica, master):
                server.kill()


async def until(is_true: Callable[[], bool], timeout_seconds: float = 60.0) -> None:
    """Wait in the event loop until the condition is true."""
    async with asyncio.timeout(timeout_seconds):
        while not is_true():
            await asyncio.sleep(0.005)
