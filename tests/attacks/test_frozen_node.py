"""A node that is stopped in a transaction keeps its locks for a few seconds only (promise 14 of SECURITY.md)."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.errors import LockWaitEnded
from restante.database.queries import Query
from tests.defaults import new_postgres_engine
from tests.faults.client import Client, NoResponse, register
from tests.faults.nodes.cluster import Cluster
from tests.faults.server_process import TIMEOUT_SECONDS, ServerProcess
from tests.services.postgres import PostgresServer

BLOCKED = b"""
SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""
# Transactions that have changed something, so that they hold locks, and in which nothing runs any more.
HELD = b"""
SELECT COUNT(*) FROM pg_stat_activity
WHERE datname = current_database() AND state = 'idle in transaction' AND backend_xid IS NOT NULL
"""
SENDERS = 4
SIGNAL: dict[str, object] = {"type": "app.test", "ref": {}}


@contextmanager
def frozen(node: ServerProcess) -> Iterator[ExitStack]:
    """Stop the process, and let it go on when the stack is closed."""
    with ExitStack() as stack:
        os.kill(node.pid, signal.SIGSTOP)
        stack.callback(os.kill, node.pid, signal.SIGCONT)
        yield stack


def counted(conn: "psycopg.Connection[tuple[int]]", count: bytes) -> int:
    row = conn.execute(count).fetchone()
    assert row is not None
    return row[0]


def wait_for(conn: "psycopg.Connection[tuple[int]]", count: bytes, least: int = 1) -> None:
    """Wait until the query counts at least so many."""
    end = time.monotonic() + TIMEOUT_SECONDS
    while counted(conn, count) < least:
        assert time.monotonic() < end, "never happened"
        time.sleep(0.01)


def freeze_in_transaction(
    stack: ExitStack, node: ServerProcess, url: str, watching: "psycopg.Connection[tuple[int]]"
) -> ExitStack:
    """Stop the node while one of its transactions holds the lock of the device."""
    end = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < end:
        with psycopg.connect(url) as holding:
            # Transactions of the node wait for this one with the statement that locks the device.
            holding.execute("LOCK TABLE device_update_outbox IN SHARE MODE")
            wait_for(watching, BLOCKED)
            freezing = stack.enter_context(frozen(node))
        # The server runs what it was sent before; then nothing of the node moves any more.
        while not (is_held := counted(watching, HELD) > 0) and counted(watching, BLOCKED):
            time.sleep(0.01)
        if is_held:
            return freezing
        # The wait had just ended, and the frozen node does not begin another one.
        freezing.close()
    raise AssertionError("never held a lock")


def send_until_over(is_over: threading.Event, cluster: Cluster, node: ServerProcess, path: str) -> None:
    """Send signals to the device without a pause."""
    with closing(Client(node.port, cluster.prepared.key)) as client, suppress(NoResponse):
        while not is_over.is_set():
            client.request("POST", path, SIGNAL)


@contextmanager
def load_on(cluster: Cluster, node: ServerProcess, path: str) -> Iterator[None]:
    is_over = threading.Event()
    with ThreadPoolExecutor(SENDERS) as threads:
        for _ in range(SENDERS):
            threads.submit(send_until_over, is_over, cluster, node, path)
        try:
            yield
        finally:
            is_over.set()


@pytest.mark.slow
def test_device_of_a_frozen_node_is_free_within_seconds(
    tmp_path: Path, postgres: PostgresServer, empty_postgres_url: str
) -> None:
    cluster = Cluster(tmp_path, postgres, "--roles", "api", url=empty_postgres_url)
    with ExitStack() as stack:
        stack.callback(cluster.end)
        first, second = cluster.add(), cluster.add()
        cluster.wait_until_ready()
        operator = stack.enter_context(closing(Client(second.port, cluster.prepared.key)))
        device = register(operator, cluster.prepared)
        path = f"/apiv1/users/{cluster.prepared.user_id}/devices/{device.id}/signals"
        watching = stack.enter_context(psycopg.connect(cluster.url, autocommit=True))
        with load_on(cluster, first, path):
            freezing = freeze_in_transaction(stack, first, cluster.url, watching)
            # Without the bound this would end with 503: the wait for the lock is over after ten seconds.
            response = operator.request("POST", path, SIGNAL)
            assert response.status == 202, response
            freezing.close()
            # The node goes on, with new connections.
            with closing(Client(first.port, cluster.prepared.key)) as client:
                while (response := client.request("POST", path, SIGNAL)).status == 503:
                    pass
            assert response.status == 202


def lock_device(conn: Connection) -> str:
    conn.lock("device", 1)
    return "locked"


def test_waiting_transactions_of_a_frozen_node_do_not_get_the_lock_in_turn(postgres_url: str) -> None:
    """Four in turn would keep it for twelve seconds, longer than a write waits."""
    engine = new_postgres_engine(postgres_url, writers=1, readers=1)
    with ExitStack() as stack:
        conns = [stack.enter_context(closing(engine.connect(writable=True))) for _ in range(4)]
        for conn in conns:
            conn.limit_transactions()
            conn.begin()
            conn.lock("device", 1)
        watching = stack.enter_context(psycopg.connect(postgres_url, autocommit=True))
        other = stack.enter_context(closing(Database(engine, limits_transactions=True)))
        threads = stack.enter_context(ThreadPoolExecutor(len(conns)))
        first, *waiting = conns
        first.flush()
        # A frozen process sends nothing after this, whatever the server answers.
        ended = [threads.submit(conn.flush) for conn in waiting]
        wait_for(watching, BLOCKED, len(waiting))
        assert other.write_now(lock_device) == "locked"
        wait(ended, TIMEOUT_SECONDS)
        assert any(isinstance(each.exception(), LockWaitEnded) for each in ended)


def test_write_that_waits_for_a_lock_for_long_is_answered(postgres_url: str) -> None:
    engine = new_postgres_engine(postgres_url, writers=1, readers=1)
    is_held, is_waiting_again, ended = threading.Event(), threading.Event(), threading.Event()
    runs = 0

    def hold(conn: Connection) -> None:
        conn.lock("device", 1)
        assert conn.now_ms > 0
        is_held.set()
        assert ended.wait(TIMEOUT_SECONDS)

    def lock_and_count(conn: Connection) -> str:
        nonlocal runs
        runs += 1
        if runs > 1:
            is_waiting_again.set()
        return lock_device(conn)

    with closing(Database(engine)) as command, closing(Database(engine, limits_transactions=True)) as serving:
        holding = command.submit(hold)
        assert is_held.wait(TIMEOUT_SECONDS)
        waiting = serving.submit(lock_and_count)
        assert is_waiting_again.wait(TIMEOUT_SECONDS)
        ended.set()
        assert waiting.result(TIMEOUT_SECONDS) == "locked"
        holding.result(TIMEOUT_SECONDS)


def show(database: Database, name: str) -> object:
    (row,) = database.write_now(lambda conn: conn.all(Query("show", f"SELECT current_setting('{name}') AS value")))
    return row["value"]


def test_time_outs_depend_on_the_kind_of_work(postgres_url: str) -> None:
    """A node's writers are bounded. Commands (migrations, copies, exports) may take their time."""
    engine = new_postgres_engine(postgres_url, writers=1, readers=1)
    with closing(Database(engine, limits_transactions=True)) as serving, closing(Database(engine)) as command:
        for database, idle, statement, lock in ((serving, "3s", "1min", "2s"), (command, "10min", "0", "10s")):
            assert show(database, "idle_in_transaction_session_timeout") == idle
            assert show(database, "statement_timeout") == statement
            assert show(database, "lock_timeout") == lock


def test_bound_holds_after_a_reconnection(postgres_url: str) -> None:
    engine = new_postgres_engine(postgres_url, writers=1, readers=1)
    with closing(Database(engine, limits_transactions=True)) as database:
        with psycopg.connect(postgres_url, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        assert show(database, "idle_in_transaction_session_timeout") == "3s"
