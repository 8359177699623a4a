"""Publish events over HTTP, by one publisher and by several at once: PostgreSQL compared with the embedded database.

Each publisher sends its next request after the response to the previous one, which comes after a durable commit. The
servers have only the role `api`, so that signing is not measured. On few cores, the CPU time of a request limits the
rates, so it is measured too: in the server and in PostgreSQL.
"""

import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import uvloop

from bench.commands.queues import DURABLE
from bench.data import event_data
from bench.tools.postgres_deployment import PostgresDeployment
from bench.tools.processes import CLIENT_CORE, SERVER_CORE, cpu_seconds, free_port, pinned, serve_command
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.engine import Engine
from restante.database.sqlite import SqliteEngine
from restante.identity import api_keys
from restante.identity.callers import Role
from tests.defaults import new_postgres_engine
from tests.services.postgres import postgres_server

PUBLISHERS = (1, 8, 32)
CLIENTS = 100
ROUNDS = 3
WARM_SECONDS, SECONDS = 1.0, 3.0


@dataclass(frozen=True, slots=True)
class _Target:
    """A server, the key to publish with, and the PostgreSQL deployment, if any."""

    port: int
    pid: int
    key: str
    deployment: PostgresDeployment | None


@dataclass(frozen=True, slots=True)
class _Rate:
    per_second: float
    server_microseconds: float
    database_microseconds: float


class _Publisher(asyncio.Protocol):
    """Publishes one event after another, to the clients in turn."""

    def __init__(self, key: str, numbers: "count[int]") -> None:
        self._head = (
            f"POST /admin/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
            "Content-Type: application/json\r\n"
        ).encode()
        self._numbers = numbers
        self._received = b""
        self.responses = 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._publish()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._received.endswith(b"}"):
            return
        assert self._received.startswith(b"HTTP/1.1 201"), self._received
        self._received = b""
        self.responses += 1
        self._publish()

    def _publish(self) -> None:
        number = next(self._numbers)
        event = {
            "client_id": f"tpp-{number % CLIENTS}",
            "sub": f"https://bank.example/accounts/{number}",
            "events": {"urn:example:account-closed": {"reason": "moved"}},
        }
        body = json.dumps(event).encode()
        self.transport.write(self._head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))


def publishing() -> dict[str, float]:
    figures: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name, postgres_server(*DURABLE) as server:
        deployment = PostgresDeployment(server, Path(name) / "postgres", 0)
        with _embedded(Path(name)) as embedded, _on_postgres(deployment) as postgres:
            os.sched_setaffinity(0, {int(CLIENT_CORE)})
            for target in (embedded, postgres):
                _measure(target, max(PUBLISHERS), WARM_SECONDS)
            for publishers in PUBLISHERS:
                figures |= _compare(embedded, postgres, publishers)
            os.sched_setaffinity(0, {0, 1})
    return figures


def _compare(embedded: _Target, postgres: _Target, publishers: int) -> dict[str, float]:
    """Measure both in turn, so that the load of the machine affects both."""
    rounds = [[_measure(target, publishers, SECONDS) for target in (embedded, postgres)] for _ in range(ROUNDS)]
    figures = {}
    for index, name in enumerate(("embedded", "PostgreSQL")):
        rates = [each[index] for each in rounds]
        figures[f"{publishers}: events/s, {name} (median)"] = statistics.median(rate.per_second for rate in rates)
        figures[f"{publishers}: µs of CPU per event, server, {name}"] = statistics.median(
            rate.server_microseconds for rate in rates
        )
    figures[f"{publishers}: µs of CPU per event, PostgreSQL itself"] = statistics.median(
        postgres_rate.database_microseconds for _, postgres_rate in rounds
    )
    ratio = statistics.median(theirs.per_second / ours.per_second for ours, theirs in rounds)
    return {**figures, f"{publishers}: ratio of the rates (median of rounds)": ratio}


def _measure(target: _Target, publishers: int, seconds: float) -> _Rate:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_publish(target, publishers, seconds))


async def _publish(target: _Target, publishers: int, seconds: float) -> _Rate:
    loop, numbers = asyncio.get_running_loop(), count()
    publisher = partial(_Publisher, target.key, numbers)
    before, database_before = cpu_seconds([target.pid], with_ended_children=True), _database_seconds(target)
    started = time.perf_counter()
    clients = [(await loop.create_connection(publisher, "127.0.0.1", target.port))[1] for _ in range(publishers)]
    await asyncio.sleep(seconds)
    responses, took = sum(client.responses for client in clients), time.perf_counter() - started
    used, database_used = (
        cpu_seconds([target.pid], with_ended_children=True) - before,
        _database_seconds(target) - database_before,
    )
    for client in clients:
        client.transport.abort()
    return _Rate(responses / took, used / responses * 1e6, database_used / responses * 1e6)


def _database_seconds(target: _Target) -> float:
    return 0.0 if target.deployment is None else target.deployment.cpu_seconds()


@contextmanager
def _embedded(path: Path) -> Iterator[_Target]:
    data = event_data.prepare(path / "embedded", CLIENTS, 0)
    key = _add_key(SqliteEngine(data.folder.database_path))
    port = free_port()
    command = serve_command(data.folder.path, port, "--roles", "api", "--log-level", "error")
    with pinned(SERVER_CORE, command, port, log=path / "embedded.log") as pid:
        yield _Target(port, pid, key, None)


@contextmanager
def _on_postgres(deployment: PostgresDeployment) -> Iterator[_Target]:
    key = _add_key(new_postgres_engine(deployment.url), with_clients=True)
    with deployment.serving("api", SERVER_CORE, None) as (port, pid):
        yield _Target(port, pid, key, deployment)


def _add_key(engine: Engine, *, with_clients: bool = False) -> str:
    """Add an API key to publish with, and optionally clients."""

    def add(conn: Connection) -> str:
        if with_clients:
            event_data.add_clients(conn, CLIENTS)
        return api_keys.create(conn, "bench", Role.admin)[1]

    database = Database(engine)
    try:
        return database.write_now(add)
    finally:
        database.close()
