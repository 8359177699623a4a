"""Servers started while PostgreSQL is unreachable, as real processes: they wait, unless waiting cannot help."""

import http.client
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from restante.database.errors import ConnectionRejected, DatabaseError, DatabaseUnavailable
from restante.database.migrate import migrate
from restante.server import lifecycle
from restante.server.config.setting_types import Address
from restante.server.config.settings import Settings
from restante.server.config.url_setting_types import DatabaseAddress
from restante.server.database_wait import DatabaseWait
from tests.defaults import new_postgres_engine
from tests.faults.nodes.cluster import seconds_until
from tests.faults.server_process import PROGRAM, TIMEOUT_SECONDS, ServerProcess, environment, running_server
from tests.services.postgres import PASSWORD, PostgresServer, postgres_server

WAITING = "waiting for the database"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A PostgreSQL server that tests stop and start."""
    with postgres_server() as server:
        yield server


@pytest.fixture
def url(server: PostgresServer) -> str:
    return server.create()


@pytest.fixture
def stopped_url(server: PostgresServer, url: str) -> Iterator[str]:
    """The URL of a database whose server is stopped."""
    server.stop()
    try:
        yield url
    finally:
        server.stop()
        server.start()


@pytest.fixture
def node(tmp_path: Path, stopped_url: str, request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    """A server that waits for the database."""
    node = ServerProcess(tmp_path / "data", "--database", stopped_url, *getattr(request, "param", ()))
    node.start()
    try:
        wait_for_status(node, "/readyz", 503)
        yield node
    finally:
        node.end()


def get(node: ServerProcess, path: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=TIMEOUT_SECONDS)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def wait_for_status(node: ServerProcess, path: str, status: int) -> None:
    deadline = time.monotonic() + 2 * TIMEOUT_SECONDS
    while True:
        try:
            if get(node, path)[0] == status:
                return
        except OSError:
            pass
        assert node.process.poll() is None, node.log_text()
        assert time.monotonic() < deadline, node.log_text()
        time.sleep(0.02)


@pytest.mark.parametrize("node", [(), ("--workers", "2")], indirect=True, ids=["alone", "workers"])
def test_server_waits_and_serves_when_database_is_reachable(node: ServerProcess, server: PostgresServer) -> None:
    assert get(node, "/healthz")[0] == 200
    status, body = get(node, "/apiv1/devices/self/updates")
    assert (status, body["error"]["what"]) == (503, "the database cannot be reached yet")
    server.start()
    node.wait_until_ready()
    log = node.log_text()
    assert log.count(WAITING) == 1
    assert log.count("database reachable") == 1
    assert PASSWORD not in log
    node.send_signal(signal.SIGTERM)
    assert node.wait_for_exit() == 0


def are_up(node: ServerProcess) -> bool:
    return [node.metric(f'restante_worker_up{{worker="{number}"}}') for number in (1, 2)] == [1, 1]


def test_worker_started_without_database_waits_too(tmp_path: Path, server: PostgresServer, url: str) -> None:
    with running_server(tmp_path / "data", "--database", url, "--workers", "2") as node:
        seconds_until(lambda: are_up(node))
        server.stop()
        try:
            os.kill(node.workers()[0], signal.SIGKILL)
            seconds_until(lambda: WAITING in node.log_text())
        finally:
            server.start()
        seconds_until(lambda: "database reachable" in node.log_text())
        seconds_until(lambda: are_up(node))
        assert node.log_text().count("worker ended") == 1


def test_signal_while_waiting_stops_server_cleanly(node: ServerProcess) -> None:
    node.send_signal(signal.SIGTERM)
    assert node.wait_for_exit() == 0
    assert "Traceback" not in node.log_text()


@pytest.mark.parametrize("node", [("--database-wait-seconds", "1")], indirect=True)
def test_wait_ends_after_configured_time(node: ServerProcess) -> None:
    assert node.wait_for_exit() == 1
    assert "cannot be reached" in node.log_text().splitlines()[-1]


def run(data: Path, *args: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [PROGRAM, *args, "--data", str(data)],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=TIMEOUT_SECONDS,
    )


def test_commands_beside_servers_do_not_wait(tmp_path: Path, stopped_url: str) -> None:
    result = run(tmp_path, "migrate", "status", "--database", stopped_url)
    assert result.returncode == 1
    assert "cannot be reached" in result.stderr


def serve(data: Path, url: str) -> str:
    """The stderr of a server that ends by itself."""
    result = run(data, "serve", "--listen", "127.0.0.1:0", "--database", url)
    assert result.returncode == 1
    assert WAITING not in result.stderr
    return result.stderr


def test_wrong_password_or_missing_database_ends_start_at_once(tmp_path: Path, url: str) -> None:
    assert "password authentication failed" in serve(tmp_path, url.replace("s3cret", "other"))
    assert "does not exist" in serve(tmp_path, url.replace("/test_", "/missing_"))


def test_newer_schema_ends_start_at_once(tmp_path: Path, server: PostgresServer) -> None:
    url = server.create()
    migrate(new_postgres_engine(url))
    with psycopg.connect(url) as conn:
        conn.execute("INSERT INTO schema_migrations VALUES (9999, 'future', 0)")
    assert "use a newer version" in serve(tmp_path, url)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        (Settings(), DatabaseUnavailable("locked")),
        (Settings(database=DatabaseAddress("postgresql://x@/y")), ConnectionRejected("wrong password")),
        (Settings(database=DatabaseAddress("postgresql://x@/y")), DatabaseError("of a newer version")),
        (
            Settings(database=DatabaseAddress("postgresql://x@/y"), database_wait_seconds=0.0),
            DatabaseUnavailable("starting up"),
        ),
    ],
    ids=["embedded", "refused", "newer", "no wait"],
)
def test_errors_that_waiting_cannot_fix_are_raised(settings: Settings, error: DatabaseError) -> None:
    def work() -> None:
        raise error

    with lifecycle.listening(Address("127.0.0.1", 0)) as sock, pytest.raises(type(error), match=str(error)):
        DatabaseWait(settings, sock).run_when_reachable(work)
