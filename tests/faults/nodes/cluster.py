"""Several server processes on one private PostgreSQL with durable commits. Tests kill, stop and restart the parts."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from restante.database.database import Database
from restante.database.migrate import migrate
from tests.defaults import new_postgres_engine
from tests.faults.server_process import (
    NO_RATE_LIMIT,
    PROGRAM,
    TIMEOUT_SECONDS,
    PreparedData,
    ServerProcess,
    add_user_and_key,
)
from tests.services.postgres import PostgresServer

FLAGS = (*NO_RATE_LIMIT, "--log-keep-signals", "1000000", "--log-level", "warning")


class Cluster:
    """A PostgreSQL database with an admin user and an admin API key, and the nodes on it."""

    def __init__(self, folder: Path, postgres: PostgresServer, *flags: str, url: str | None = None) -> None:
        """`url` is the address of an empty database; without it, a new database is created."""
        self.postgres = postgres
        self.url = url or postgres.create()
        self.nodes: list[ServerProcess] = []
        self._data = folder / "data"
        self._flags = flags
        migrate(new_postgres_engine(self.url))
        database = Database(new_postgres_engine(self.url, writers=1))
        try:
            user_id, key = database.write_now(add_user_and_key)
        finally:
            database.close()
        self.prepared = PreparedData(self._data, user_id, key)

    def add(self, *flags: str, command: tuple[str, ...] = (PROGRAM,)) -> ServerProcess:
        """Start a node. The first node creates the master key that all share, so wait until it is ready."""
        node = ServerProcess(self._data, "--database", self.url, *FLAGS, *self._flags, *flags, command=command)
        node.log_path = self._data.parent / f"node-{len(self.nodes)}.log"
        self.nodes.append(node)
        node.start()
        if len(self.nodes) == 1:
            node.wait_until_ready()
        return node

    def wait_until_ready(self) -> None:
        for node in self.nodes:
            node.wait_until_ready()

    def kill_postgres(self) -> None:
        """Kill PostgreSQL with SIGKILL, and start it again when the children of the killed one have exited."""
        self.postgres.stop(signal.SIGKILL)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                self.postgres.start()
            except AssertionError:
                assert time.monotonic() < deadline, "PostgreSQL does not come back"
                self.postgres.stop(signal.SIGKILL)
                time.sleep(0.05)
            else:
                return

    def restart_exited(self) -> None:
        """Restart the nodes that exited because the database was away, as a service manager does."""
        for node in self.nodes:
            if node.process.poll() is not None:
                node.start()

    def wait_for_transactions(self) -> None:
        """Wait until every transaction that is open now has ended, also those of nodes that were killed."""
        open_now = self._until_answered("SELECT CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS TEXT) AS BIGINT)")
        ended = "SELECT CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS TEXT) AS BIGINT)"
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while self._until_answered(ended) < open_now:
            assert time.monotonic() < deadline, "a transaction does not end"
            time.sleep(0.005)

    def one(self, statement: str) -> int:
        with psycopg.connect(self.url, autocommit=True) as conn:
            row = conn.execute(statement.encode()).fetchone()
        assert row is not None
        return int(row[0])

    def _until_answered(self, statement: str) -> int:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            try:
                return self.one(statement)
            except psycopg.OperationalError:
                assert time.monotonic() < deadline, "PostgreSQL does not answer"
                time.sleep(0.02)

    def end(self) -> None:
        for node in self.nodes:
            node.end()


@contextmanager
def running_cluster(folder: Path, *flags: str) -> Iterator[Cluster]:
    """A cluster without nodes; every node that is added gets the `flags`."""
    # Recovery after a crash then syncs the file system once, instead of every file, which takes seconds.
    recovery = "recovery_init_sync_method=syncfs"
    postgres = PostgresServer("max_wal_senders=0", "wal_level=minimal", "shared_buffers=32MB", recovery)
    try:
        postgres.start()
        cluster = Cluster(folder, postgres, *flags)
        try:
            yield cluster
        finally:
            cluster.end()
    finally:
        postgres.remove()


def seconds_until(is_true: Callable[[], bool], timeout_seconds: float = TIMEOUT_SECONDS) -> float:
    """Wait until the condition is true; returns how long it took."""
    started = time.monotonic()
    while not is_true():
        assert time.monotonic() - started < timeout_seconds, "the condition does not become true"
        time.sleep(0.02)
    return time.monotonic() - started
