"""Outbox → dispatcher → log and Redis → parked poll, on PostgreSQL, in one process per role as in a deployment.

Two rates: how fast one or two dispatchers empty a full outbox into log and Redis, by the times in the database; and how
fast devices get all signals over HTTP, in parked polls. The CPU time of a signal in the dispatchers and in PostgreSQL
is measured too, because on few cores it limits the rates.
"""

import asyncio
import re
import tempfile
import time
import urllib.request
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import uvloop

from bench.commands.queues import DURABLE
from bench.polls.redis_reads import BOTH_CORES, redis
from bench.tools.postgres_deployment import PostgresDeployment
from bench.tools.processes import CLIENT_CORE, SERVER_CORE, cpu_seconds
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from restante.delivery.outbox.outbox import Enqueued
from restante.server.cluster.cluster_messages import publish_commits
from tests.defaults import new_postgres_engine
from tests.services.postgres import postgres_server

DEVICES = 1000
SIGNALS = 30_000
POLL = "GET /apiv1/devices/self/updates?wait=30 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
TIMEOUT_SECONDS = 120.0

_FILL = Query(
    "fill",
    """
    INSERT INTO device_update_outbox (device_id, event_kind, payload, created_at)
    SELECT n % :devices + 1, 'bench.change', '{"type":"bench.change","ts_ms":' || n || ',"ref":{"n":' || n || '}}', 1
    FROM generate_series(1, :signals) AS n
    """,
)
_STATE = "SELECT count(*) FILTER (WHERE status <> 'DELIVERED') FROM device_update_outbox"
_SPAN = """
SELECT count(*), (max(delivered_at) - min(delivered_at)) / 1000.0 FROM device_update_outbox
WHERE delivered_at > (SELECT min(delivered_at) FROM device_update_outbox)
"""


def outbox_to_poll() -> dict[str, float]:
    figures: dict[str, float] = {}
    with (
        tempfile.TemporaryDirectory() as name,
        postgres_server(*DURABLE) as server,
        redis(Path(name)) as redis_port,
    ):
        for dispatchers in (1, 2):
            deployment = PostgresDeployment(server, Path(name) / f"drained-{dispatchers}", DEVICES)
            figures.update(_drain(deployment, dispatchers, redis_port))
        for dispatchers in (1, 2):
            deployment = PostgresDeployment(server, Path(name) / f"polled-{dispatchers}", DEVICES)
            tokens = asyncio.run(deployment.mint())
            with (
                deployment.serving("api", SERVER_CORE, redis_port) as (port, pid),
                deployment.several("dispatcher", dispatchers, CLIENT_CORE, redis_port),
                asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
            ):
                result = runner.run(_deliver_all(deployment, port, pid, tokens))
            figures[f"{_dispatchers_text(dispatchers)}: signals/s delivered over HTTP"] = SIGNALS / result.seconds
            figures[f"{_dispatchers_text(dispatchers)}: signals per response"] = SIGNALS / result.responses
            figures[f"{_dispatchers_text(dispatchers)}: microseconds of CPU per signal, api"] = (
                result.cpu_seconds / SIGNALS * 1e6
            )
    return figures


def _dispatchers_text(dispatchers: int) -> str:
    return "one dispatcher" if dispatchers == 1 else f"{dispatchers} dispatchers"


def _fill(deployment: PostgresDeployment) -> float:
    """Commit all signals at once and notify the servers, as CLI commands do; returns the time before the commit."""
    filled_at = 0.0

    def work(conn: Connection) -> None:
        nonlocal filled_at
        conn.run(_FILL, devices=DEVICES, signals=SIGNALS)
        conn.add_commit_event(Enqueued())
        filled_at = time.monotonic()

    engine = new_postgres_engine(deployment.url, writers=1)
    with closing(Database(engine)) as database:
        publish_commits(database, engine)
        database.write_now(work)
    return filled_at


def _drain(deployment: PostgresDeployment, dispatchers: int, redis_port: int) -> dict[str, float]:
    with (
        deployment.several("dispatcher", dispatchers, BOTH_CORES, redis_port) as pids,
        psycopg.connect(deployment.url) as conn,
    ):
        conn.autocommit = True
        before, database_before = cpu_seconds(pids, with_ended_children=True), deployment.cpu_seconds()
        _fill(deployment)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while conn.execute(_STATE).fetchone() != (0,):
            assert time.monotonic() < deadline, "the outbox does not drain"
            time.sleep(0.2)
        used, database_used = (
            cpu_seconds(pids, with_ended_children=True) - before,
            deployment.cpu_seconds() - database_before,
        )
        delivered, seconds = conn.execute(_SPAN).fetchone() or (0, 1.0)
    dispatchers_text = _dispatchers_text(dispatchers)
    return {
        f"{dispatchers_text}: signals/s from the outbox": delivered / float(seconds),
        f"{dispatchers_text}: microseconds of CPU per signal, dispatchers": used / SIGNALS * 1e6,
        f"{dispatchers_text}: microseconds of CPU per signal, PostgreSQL": database_used / SIGNALS * 1e6,
    }


class _Device(asyncio.Protocol):
    """A device that polls again from its new cursor after each response."""

    def __init__(self, token: str, counter: "_SignalCounter") -> None:
        self._poll = (POLL % token).encode()
        self._counter = counter
        self._buffer = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._send_poll(b"0-0")

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, _, body = self._buffer.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        if length is None or len(body) < int(length[1]):
            return
        self._buffer = b""
        found = re.search(rb"etag: ([\d-]+)", head)
        assert head[9:12] == b"200", head
        assert found is not None, head
        self._counter.add(body.count(b'"bench.change"'))
        self._send_poll(found[1])

    def _send_poll(self, cursor: bytes) -> None:
        self._transport.write(self._poll + b"If-None-Match: " + cursor + b"\r\n\r\n")


class _SignalCounter:
    def __init__(self) -> None:
        self.signals = self.responses = 0
        self.is_complete = asyncio.Event()

    def add(self, signals: int) -> None:
        self.signals += signals
        self.responses += 1
        if self.signals >= SIGNALS:
            self.is_complete.set()


@dataclass(frozen=True, slots=True)
class _PollResult:
    """Seconds from the commit of all signals to the last response, number of responses, CPU time of the api."""

    seconds: float
    responses: int
    cpu_seconds: float


async def _deliver_all(deployment: PostgresDeployment, port: int, pid: int, tokens: list[str]) -> _PollResult:
    loop, counter = asyncio.get_running_loop(), _SignalCounter()
    for token in tokens:
        await loop.create_connection(partial(_Device, token, counter), "127.0.0.1", port)
    while await asyncio.to_thread(_parked, port) < len(tokens):
        await asyncio.sleep(0.1)
    used_before = cpu_seconds([pid], with_ended_children=True)
    started = await asyncio.to_thread(_fill, deployment)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        await counter.is_complete.wait()
    assert counter.signals == SIGNALS, counter.signals
    return _PollResult(
        time.monotonic() - started, counter.responses, cpu_seconds([pid], with_ended_children=True) - used_before
    )


def _parked(port: int) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
        found = re.search(r"restante_parked_polls ([\d.e+]+)", response.read().decode())
    return float(found[1]) if found else 0.0
