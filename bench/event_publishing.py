"""Publishing events over HTTP, by one publisher and by several at once: PostgreSQL beside the embedded database.

Each publisher sends its next request when the last was answered, each answer after a durable commit. The servers have
the role `api` alone: what is measured is publishing, and not the signing that follows it. On few cores, what a request
costs in CPU time bounds the rates, so it is told beside them: the server's, and PostgreSQL's.
"""

import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from bench import event_bank
from bench.processes import CLIENT_CORE, SERVER_CORE, free_port, pinned
from bench.queues import DURABLE
from bench.shared import Shared, cpu_seconds
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.engine import Engine
from restante.database.postgres import PostgresEngine
from restante.database.sqlite import SqliteEngine
from restante.identity import api_keys
from restante.identity.callers import Role
from tests.services.postgres import postgres_server

PUBLISHERS = (1, 8, 32)
CLIENTS = 100
ROUNDS = 3
WARM_SECONDS, SECONDS = 1.0, 3.0


class _Target(NamedTuple):
    """A server, the key to publish with, and whom PostgreSQL's CPU time is asked of, where there is one."""

    port: int
    pid: int
    key: str
    shared: Shared | None


class _Rate(NamedTuple):
    a_second: float
    server_microseconds: float
    database_microseconds: float


class _Publisher(asyncio.Protocol):
    """Publishes one event after another, to one client after another."""

    def __init__(self, key: str, numbers: "count[int]") -> None:
        self._head = (
            f"POST /admin/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {key}\r\n"
            "Content-Type: application/json\r\n"
        ).encode()
        self._numbers = numbers
        self._received = b""
        self.answers = 0

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._publish()

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._received.endswith(b"}"):
            return
        assert self._received.startswith(b"HTTP/1.1 201"), self._received
        self._received = b""
        self.answers += 1
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
        shared = Shared(server, Path(name) / "postgres", 0)
        with _embedded(Path(name)) as embedded, _on_postgres(shared) as postgres:
            os.sched_setaffinity(0, {int(CLIENT_CORE)})
            for target in (embedded, postgres):
                _measured(target, max(PUBLISHERS), WARM_SECONDS)
            for publishers in PUBLISHERS:
                figures |= _compared(embedded, postgres, publishers)
            os.sched_setaffinity(0, {0, 1})
    return figures


def _compared(embedded: _Target, postgres: _Target, publishers: int) -> dict[str, float]:
    """In turn, so that whatever else the machine does meets both."""
    rounds = [[_measured(target, publishers, SECONDS) for target in (embedded, postgres)] for _ in range(ROUNDS)]
    figures = {}
    for place, who in enumerate(("embedded", "PostgreSQL")):
        rates = [each[place] for each in rounds]
        figures[f"{publishers}: events/s, {who} (median)"] = statistics.median(rate.a_second for rate in rates)
        figures[f"{publishers}: µs of CPU an event, server, {who}"] = statistics.median(
            rate.server_microseconds for rate in rates
        )
    figures[f"{publishers}: µs of CPU an event, PostgreSQL itself"] = statistics.median(
        there.database_microseconds for _, there in rounds
    )
    ratio = statistics.median(there.a_second / here.a_second for here, there in rounds)
    return {**figures, f"{publishers}: ratio of the rates (median of rounds)": ratio}


def _measured(target: _Target, publishers: int, seconds: float) -> _Rate:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_publish(target, publishers, seconds))


async def _publish(target: _Target, publishers: int, seconds: float) -> _Rate:
    loop, numbers = asyncio.get_running_loop(), count()
    made = partial(_Publisher, target.key, numbers)
    before, database_before = cpu_seconds([target.pid]), _database_seconds(target)
    started = time.perf_counter()
    clients = [(await loop.create_connection(made, "127.0.0.1", target.port))[1] for _ in range(publishers)]
    await asyncio.sleep(seconds)
    answers, took = sum(client.answers for client in clients), time.perf_counter() - started
    used, database_used = cpu_seconds([target.pid]) - before, _database_seconds(target) - database_before
    for client in clients:
        client.transport.abort()
    return _Rate(answers / took, used / answers * 1e6, database_used / answers * 1e6)


def _database_seconds(target: _Target) -> float:
    return 0.0 if target.shared is None else target.shared.cpu_seconds()


@contextmanager
def _embedded(path: Path) -> Iterator[_Target]:
    bank = event_bank.prepare(path / "embedded", CLIENTS, 0)
    key = _prepared(SqliteEngine(bank.folder.database_path))
    port = free_port()
    command = [str(Path(sys.executable).with_name("restante")), "serve", "--data", str(bank.folder.path)]
    flags = ["--listen", f"127.0.0.1:{port}", "--roles", "api", "--log-level", "error"]
    with pinned(SERVER_CORE, [*command, *flags], port, log=path / "embedded.log") as pid:
        yield _Target(port, pid, key, None)


@contextmanager
def _on_postgres(shared: Shared) -> Iterator[_Target]:
    key = _prepared(PostgresEngine(shared.url), with_clients=True)
    with shared.serving("api", SERVER_CORE, None) as (port, pid):
        yield _Target(port, pid, key, shared)


def _prepared(engine: Engine, *, with_clients: bool = False) -> str:
    """An API key to publish with; and clients, where there are none."""

    def add(conn: Connection) -> str:
        if with_clients:
            event_bank.add_clients(conn, CLIENTS)
        return api_keys.create(conn, "bench", Role.admin)[1]

    database = Database(engine)
    try:
        return database.write_now(add)
    finally:
        database.close()
