"""Several server processes on one private PostgreSQL, which keeps its promises about the disk: what the fault tests of
many nodes kill, stop and start again."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.migrate import migrate
from restante.database.postgres import PostgresEngine
from restante.identity import api_keys, users
from restante.identity.callers import Role
from tests.faults.server_process import PATIENCE_SECONDS, PROGRAM, UNPACED, Prepared, ServerProcess
from tests.services.postgres import PostgresServer

FLAGS = (*UNPACED, "--log-keep-signals", "1000000", "--log-level", "warning")


class Cluster:
    """A database with a user and a program that may do everything, and the nodes on it."""

    def __init__(self, folder: Path, postgres: PostgresServer, *flags: str, url: str | None = None) -> None:
        """`url` is the address of an empty database; without it, one is made."""
        self.postgres = postgres
        self.url = url or postgres.create()
        self.nodes: list[ServerProcess] = []
        self._data = folder / "data"
        self._flags = flags
        migrate(PostgresEngine(self.url))
        database = Database(PostgresEngine(self.url, writers=1))
        try:
            user_id, key = database.write_now(_add_user_and_key)
        finally:
            database.close()
        self.prepared = Prepared(self._data, user_id, key)

    def add(self, *flags: str, command: tuple[str, ...] = (PROGRAM,)) -> ServerProcess:
        """A node, started. The first one makes the key that all share, so it is to be ready before the others come."""
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
        """SIGKILL, and a new start once the dead one's children have noticed and gone."""
        self.postgres.stop(signal.SIGKILL)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                self.postgres.start()
            except AssertionError:
                assert time.monotonic() < deadline, "PostgreSQL does not come back"
                self.postgres.stop(signal.SIGKILL)
                time.sleep(0.05)
            else:
                return

    def revive(self) -> None:
        """Start again who could not start because the database was away, as whatever runs servers does."""
        for node in self.nodes:
            if node.process.poll() is not None:
                node.start()

    def settle(self) -> None:
        """Wait until every transaction that is under way now is over: also those of nodes that are dead by now."""
        under_way = self._until_answered("SELECT CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS TEXT) AS BIGINT)")
        over = "SELECT CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS TEXT) AS BIGINT)"
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._until_answered(over) < under_way:
            assert time.monotonic() < deadline, "a transaction does not end"
            time.sleep(0.005)

    def one(self, statement: str) -> int:
        with psycopg.connect(self.url, autocommit=True) as conn:
            row = conn.execute(statement.encode()).fetchone()
        assert row is not None
        return int(row[0])

    def _until_answered(self, statement: str) -> int:
        deadline = time.monotonic() + PATIENCE_SECONDS
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
def cluster(folder: Path, *flags: str) -> Iterator[Cluster]:
    """`flags` are given to all of its nodes."""
    # After a crash the file system is told to write all there is, instead of each file by itself, which takes seconds.
    recovery = "recovery_init_sync_method=syncfs"
    postgres = PostgresServer("max_wal_senders=0", "wal_level=minimal", "shared_buffers=32MB", recovery)
    try:
        postgres.start()
        running = Cluster(folder, postgres, *flags)
        try:
            yield running
        finally:
            running.end()
    finally:
        postgres.remove()


def _add_user_and_key(conn: Connection) -> tuple[int, str]:
    user_id = users.add(conn, "owner@example.com", "no hash", Role.admin)
    _key_id, key = api_keys.create(conn, "faults", Role.admin)
    return user_id, key


def seconds_until(happens: Callable[[], bool], within_seconds: float = PATIENCE_SECONDS) -> float:
    started = time.monotonic()
    while not happens():
        assert time.monotonic() - started < within_seconds, "it does not happen"
        time.sleep(0.02)
    return time.monotonic() - started
