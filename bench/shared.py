"""A PostgreSQL with devices on it for benchmarks, servers on that, in roles as a deployment has them, and Redis."""

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg

from bench.prepared import DAY_SECONDS
from bench.processes import free_port, pinned
from restante.database.database import Database
from restante.database.migrate import migrate
from restante.database.postgres import PostgresEngine
from restante.identity.device_tokens import DeviceTokens
from restante.identity.issuers import OutsideIssuers
from restante.identity.master_key import MasterKeySource
from restante.identity.signing_keys import SigningKeys, unlock
from restante.server.data_folder import DataFolder
from tests.services.postgres import PostgresServer

UNPACED = ["--poll-rate-per-second", "100000", "--poll-burst", "1000000", "--log-level", "error"]
_DEVICES = """
INSERT INTO user_devices (id, user_id, device_public_id, dev_pk, device_keyfp, created_at, updated_at)
SELECT n, 1, 'device-' || n, decode(repeat('00', 32), 'hex'), decode(repeat('00', 32), 'hex'), 0, 0
FROM generate_series(1, %s) AS n
"""
_USER = "INSERT INTO users (id, email, password_hash, role, created_at) VALUES (1, 'b@example.com', '', 'admin', 0)"
_TRANSACTIONS = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
_TICKS = os.sysconf("SC_CLK_TCK")


class Shared:
    """A database with one user and so many devices, and the folder with its master key."""

    def __init__(self, server: PostgresServer, path: Path, devices: int) -> None:
        self.url = server.create()
        self.devices = devices
        self._server = server
        self._folder = DataFolder(path)
        self._folder.create()
        migrate(PostgresEngine(self.url))
        with psycopg.connect(self.url) as conn:
            conn.execute(_USER)
            conn.execute(_DEVICES, (devices,))

    async def mint(self) -> list[str]:
        """A valid access token for each of the devices."""
        database = Database(PostgresEngine(self.url))
        try:
            key = unlock(database, MasterKeySource(self._folder.master_key_path, None))
            keys = SigningKeys(database, key)
            tokens = DeviceTokens(database, keys, OutsideIssuers(()), access_token_seconds=DAY_SECONDS)
            await tokens.start()
            return [tokens.mint(1, device) for device in range(1, self.devices + 1)]
        finally:
            database.close()

    @contextmanager
    def serving(self, role: str, core: str, redis_port: int | None) -> Iterator[tuple[int, int]]:
        """A server in that role; its port and process id."""
        port = free_port()
        listen = ["--data", str(self._folder.path), "--listen", f"127.0.0.1:{port}", "--roles", role]
        command = [str(Path(sys.executable).with_name("restante")), "serve", *listen, *UNPACED]
        environment = {"RESTANTE_DATABASE": self.url}
        if redis_port is not None:
            environment["REDIS_URL"] = f"redis://127.0.0.1:{redis_port}"
        with pinned(core, command, port, environment, self._folder.path / f"{port}.log") as pid:
            yield port, pid

    @contextmanager
    def several(self, role: str, count: int, core: str, redis_port: int | None) -> Iterator[list[int]]:
        """So many servers in that role; their process ids."""
        with ExitStack() as stack:
            yield [stack.enter_context(self.serving(role, core, redis_port))[1] for _ in range(count)]

    def transactions(self) -> int:
        """How many transactions there were in the database so far."""
        with psycopg.connect(self.url) as conn:
            conn.execute("SELECT pg_stat_force_next_flush()")
            row = conn.execute(_TRANSACTIONS).fetchone()
        return row[0] if row else 0

    def cpu_seconds(self) -> float:
        """What the database has used, all of its processes."""
        postmaster = int((self._server.folder / "data" / "postmaster.pid").read_text().split("\n")[0])
        children = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
        return cpu_seconds([postmaster, *(pid for pid in children if _parent(pid) == postmaster)])


def cpu_seconds(pids: Sequence[int]) -> float:
    """What processes have used so far, those they have ended included."""
    return sum(sum(map(int, _stat(pid)[11:15])) for pid in pids) / _TICKS


def _parent(pid: int) -> int | None:
    try:
        return int(_stat(pid)[1])
    except OSError:
        return None


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
