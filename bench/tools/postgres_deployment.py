"""A PostgreSQL database with devices, and servers on it in roles as in a deployment, optionally with Redis."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg

from bench.data.device_data import DAY_SECONDS
from bench.tools.processes import cpu_seconds, free_port, pinned, process_stat, serve_command
from restante.database.database import Database
from restante.database.migrate import migrate
from restante.identity.master_key import MasterKeySource
from restante.identity.signing_keys import SigningKeys, unlock
from restante.server.data_folder import DataFolder
from tests.defaults import new_device_tokens, new_postgres_engine
from tests.services.postgres import PostgresServer

NO_RATE_LIMIT = ["--poll-rate-per-second", "100000", "--poll-burst", "1000000", "--log-level", "error"]
_DEVICES = """
INSERT INTO user_devices (id, user_id, device_public_id, dev_pk, device_keyfp, created_at, updated_at)
SELECT n, 1, 'device-' || n, decode(repeat('00', 32), 'hex'), decode(repeat('00', 32), 'hex'), 0, 0
FROM generate_series(1, %s) AS n
"""
_USER = "INSERT INTO users (id, email, password_hash, role, created_at) VALUES (1, 'b@example.com', '', 'admin', 0)"
_TRANSACTIONS = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"


class PostgresDeployment:
    """A database with one user and so many devices, and a data folder with the master key."""

    def __init__(self, server: PostgresServer, path: Path, devices: int) -> None:
        self.url = server.create()
        self.devices = devices
        self._server = server
        self._folder = DataFolder(path)
        self._folder.create()
        migrate(new_postgres_engine(self.url))
        with psycopg.connect(self.url) as conn:
            conn.execute(_USER)
            conn.execute(_DEVICES, (devices,))

    async def mint(self) -> list[str]:
        """A valid access token for each device."""
        database = Database(new_postgres_engine(self.url))
        try:
            key = unlock(database, MasterKeySource(self._folder.master_key_path, None))
            keys = SigningKeys(database, key)
            tokens = new_device_tokens(database, keys, access_token_seconds=DAY_SECONDS)
            await tokens.start()
            return [tokens.mint(1, device) for device in range(1, self.devices + 1)]
        finally:
            database.close()

    @contextmanager
    def serving(self, role: str, core: str, redis_port: int | None, *flags: str) -> Iterator[tuple[int, int]]:
        """Run a server in that role; yields its port and process id."""
        port = free_port()
        command = serve_command(self._folder.path, port, "--roles", role, *NO_RATE_LIMIT, *flags)
        environment = {"RESTANTE_DATABASE": self.url}
        if redis_port is not None:
            environment["REDIS_URL"] = f"redis://127.0.0.1:{redis_port}"
        with pinned(core, command, port, environment, self._folder.path / f"{port}.log") as pid:
            yield port, pid

    @contextmanager
    def several(self, role: str, count: int, core: str, redis_port: int | None) -> Iterator[list[int]]:
        """Run so many servers in that role; yields their process ids."""
        with ExitStack() as stack:
            yield [stack.enter_context(self.serving(role, core, redis_port))[1] for _ in range(count)]

    def transactions(self) -> int:
        """The number of transactions in the database so far."""
        with psycopg.connect(self.url) as conn:
            conn.execute("SELECT pg_stat_force_next_flush()")
            row = conn.execute(_TRANSACTIONS).fetchone()
        return row[0] if row else 0

    def cpu_seconds(self) -> float:
        """The CPU time that all processes of PostgreSQL have used."""
        postmaster = int((self._server.folder / "data" / "postmaster.pid").read_text().split("\n")[0])
        children = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
        pids = [postmaster, *(pid for pid in children if _parent(pid) == postmaster)]
        return cpu_seconds(pids, with_ended_children=True)


def _parent(pid: int) -> int | None:
    try:
        return int(process_stat(pid)[1])
    except OSError:
        return None
