"""Issue 12, line 14: a node that is stopped (SIGSTOP) in a transaction keeps its locks for a few seconds only."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from restante.database.database import Database
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


def wait_for_one(conn: "psycopg.Connection[tuple[int]]", count: bytes) -> None:
    """Wait until the query counts at least one."""
    end = time.monotonic() + TIMEOUT_SECONDS
    while not (row := conn.execute(count).fetchone()) or not row[0]:
        assert time.monotonic() < end, "never happened"
        time.sleep(0.01)


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
        # With one writer: further transactions of the frozen node that wait for the lock would get it in turn.
        first, second = cluster.add("--database-writers", "1"), cluster.add()
        cluster.wait_until_ready()
        operator = stack.enter_context(closing(Client(second.port, cluster.prepared.key)))
        device = register(operator, cluster.prepared)
        path = f"/apiv1/users/{cluster.prepared.user_id}/devices/{device.id}/signals"
        watching = stack.enter_context(psycopg.connect(cluster.url, autocommit=True))
        with load_on(cluster, first, path):
            with psycopg.connect(cluster.url) as holding:
                # Transactions of the node wait for this one with the statement that locks the device.
                holding.execute("LOCK TABLE device_update_outbox IN SHARE MODE")
                wait_for_one(watching, BLOCKED)
                freezing = stack.enter_context(frozen(first))
            wait_for_one(watching, HELD)
            # Without the bound this would end with 503: the wait for the lock is over after ten seconds.
            response = operator.request("POST", path, SIGNAL)
            assert response.status == 202, response
            freezing.close()
            # The node goes on, with new connections.
            with closing(Client(first.port, cluster.prepared.key)) as client:
                while (response := client.request("POST", path, SIGNAL)).status == 503:
                    pass
            assert response.status == 202


def show(database: Database, name: str) -> object:
    (row,) = database.write_now(lambda conn: conn.all(Query("show", f"SELECT current_setting('{name}') AS value")))
    return row["value"]


def test_time_outs_depend_on_the_kind_of_work(postgres_url: str) -> None:
    """A node's writers are bounded. Commands (migrations, copies, exports) may take their time."""
    engine = new_postgres_engine(postgres_url, writers=1, readers=1)
    with closing(Database(engine, limits_transactions=True)) as serving, closing(Database(engine)) as command:
        for database, idle, statement in ((serving, "3s", "1min"), (command, "10min", "0")):
            assert show(database, "idle_in_transaction_session_timeout") == idle
            assert show(database, "statement_timeout") == statement
            assert show(database, "lock_timeout") == "10s"


def test_bound_holds_after_a_reconnection(postgres_url: str) -> None:
    engine = new_postgres_engine(postgres_url, writers=1, readers=1)
    with closing(Database(engine, limits_transactions=True)) as database:
        with psycopg.connect(postgres_url, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        assert show(database, "idle_in_transaction_session_timeout") == "3s"
