"""Servers started while PostgreSQL is away, as real processes: they wait for it, unless waiting is of no use."""

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

from restante.database.errors import DatabaseError, DatabaseRefused, DatabaseUnavailable
from restante.database.migrate import migrate
from restante.database.postgres import PostgresEngine
from restante.server import lifecycle
from restante.server.database_wait import DatabaseWait
from restante.server.setting_kinds import Address, DatabaseAddress
from restante.server.settings import Settings
from tests.faults.nodes_cluster import seconds_until
from tests.faults.server_process import PATIENCE_SECONDS, PROGRAM, ServerProcess, environment, running
from tests.services.postgres import PASSWORD, PostgresServer, postgres_server

WAITING = "the database cannot be reached, it is waited for"


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """One to stop and start again."""
    with postgres_server() as server:
        yield server


@pytest.fixture
def url(server: PostgresServer) -> str:
    return server.create()


@pytest.fixture
def away(server: PostgresServer, url: str) -> Iterator[str]:
    """The address of a database whose server was stopped."""
    server.stop()
    try:
        yield url
    finally:
        server.stop()
        server.start()


@pytest.fixture
def node(tmp_path: Path, away: str, request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    """A server that waits."""
    node = ServerProcess(tmp_path / "data", "--database", away, *getattr(request, "param", ()))
    node.start()
    try:
        wait_for_answer(node, "/readyz", 503)
        yield node
    finally:
        node.end()


def asked(node: ServerProcess, path: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", node.port, timeout=PATIENCE_SECONDS)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def wait_for_answer(node: ServerProcess, path: str, status: int) -> None:
    deadline = time.monotonic() + 2 * PATIENCE_SECONDS
    while True:
        try:
            if asked(node, path)[0] == status:
                return
        except OSError:
            pass
        assert node.process.poll() is None, node.log_text()
        assert time.monotonic() < deadline, node.log_text()
        time.sleep(0.02)


@pytest.mark.parametrize("node", [(), ("--workers", "2")], indirect=True, ids=["alone", "workers"])
def test_it_waits_and_serves_when_the_database_is_there(node: ServerProcess, server: PostgresServer) -> None:
    assert asked(node, "/healthz")[0] == 200
    status, said = asked(node, "/apiv1/devices/self/updates")
    assert (status, said["error"]["what"]) == (503, "the database cannot be reached yet")
    server.start()
    node.wait_until_ready()
    log = node.log_text()
    assert log.count(WAITING) == 1
    assert log.count("the database is there") == 1
    assert PASSWORD not in log
    node.tell(signal.SIGTERM)
    assert node.wait_for_exit() == 0


def are_up(node: ServerProcess) -> bool:
    return [node.metric(f'restante_worker_up{{worker="{number}"}}') for number in (1, 2)] == [1, 1]


def test_a_worker_that_is_born_while_the_database_is_away_waits_too(
    tmp_path: Path, server: PostgresServer, url: str
) -> None:
    with running(tmp_path / "data", "--database", url, "--workers", "2") as node:
        seconds_until(lambda: are_up(node))
        server.stop()
        try:
            os.kill(node.workers()[0], signal.SIGKILL)
            seconds_until(lambda: WAITING in node.log_text())
        finally:
            server.start()
        seconds_until(lambda: "the database is there" in node.log_text())
        seconds_until(lambda: are_up(node))
        assert node.log_text().count("worker ended") == 1


def test_told_to_stop_while_it_waits_it_ends_as_it_should(node: ServerProcess) -> None:
    node.tell(signal.SIGTERM)
    assert node.wait_for_exit() == 0
    assert "Traceback" not in node.log_text()


@pytest.mark.parametrize("node", [("--database-wait-seconds", "1")], indirect=True)
def test_it_waits_no_longer_than_it_may(node: ServerProcess) -> None:
    assert node.wait_for_exit() == 1
    assert "cannot be reached" in node.log_text().splitlines()[-1]


def run(data: Path, *args: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [PROGRAM, *args, "--data", str(data)],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=PATIENCE_SECONDS,
    )


def test_commands_beside_servers_do_not_wait(tmp_path: Path, away: str) -> None:
    done = run(tmp_path, "user", "list", "--database", away)
    assert done.returncode == 1
    assert "cannot be reached" in done.stderr


def serve(data: Path, url: str) -> str:
    """What a server says that ends by itself."""
    done = run(data, "serve", "--listen", "127.0.0.1:0", "--database", url)
    assert done.returncode == 1
    assert WAITING not in done.stderr
    return done.stderr


def test_what_time_does_not_mend_ends_it_at_once(tmp_path: Path, url: str) -> None:
    assert "password authentication failed" in serve(tmp_path, url.replace("s3cret", "other"))
    assert "does not exist" in serve(tmp_path, url.replace("/made_", "/not_made_"))


def test_a_database_of_a_newer_version_ends_it_at_once(tmp_path: Path, server: PostgresServer) -> None:
    url = server.create()
    migrate(PostgresEngine(url))
    with psycopg.connect(url) as conn:
        conn.execute("INSERT INTO schema_migrations VALUES (9999, 'future', 0)")
    assert "use a newer version" in serve(tmp_path, url)


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        (Settings(), DatabaseUnavailable("locked")),
        (Settings(database=DatabaseAddress("postgresql://x@/y")), DatabaseRefused("wrong password")),
        (Settings(database=DatabaseAddress("postgresql://x@/y")), DatabaseError("of a newer version")),
        (
            Settings(database=DatabaseAddress("postgresql://x@/y"), database_wait_seconds=0.0),
            DatabaseUnavailable("starting up"),
        ),
    ],
    ids=["embedded", "refused", "unfit", "not to wait"],
)
def test_whom_nobody_waits_for(settings: Settings, error: DatabaseError) -> None:
    def work() -> None:
        raise error

    with lifecycle.listening(Address("127.0.0.1", 0)) as sock, pytest.raises(type(error), match=str(error)):
        DatabaseWait(settings, sock).until_done(work)
