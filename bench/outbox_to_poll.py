"""Outbox → dispatcher → log and Redis → parked poll, on PostgreSQL, in processes by role as a deployment has them.

Two rates: how fast one or two dispatchers empty a full outbox into log and Redis, by the database's own times; and how
fast devices have all the signals in their hands, over HTTP, each in a poll that was parked for it. What a signal costs
in CPU time, in the dispatchers and in PostgreSQL, is told beside them: on few cores that is what bounds the rates.
"""

import asyncio
import re
import tempfile
import time
import urllib.request
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
import uvloop

from bench.processes import CLIENT_CORE, SERVER_CORE
from bench.queues import DURABLE
from bench.redis_reads import BOTH_CORES, redis
from bench.shared import Shared, cpu_seconds
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.postgres import PostgresEngine
from restante.database.queries import Query
from restante.delivery.outbox import Enqueued
from restante.server.announcements import tell_others
from tests.services.postgres import postgres_server

DEVICES = 1000
SIGNALS = 30_000
POLL = "GET /apiv1/devices/self/updates?wait=30 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"
PATIENCE_SECONDS = 120.0

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
            shared = Shared(server, Path(name) / f"drained-{dispatchers}", DEVICES)
            figures.update(_drained(shared, dispatchers, redis_port))
        for dispatchers in (1, 2):
            shared = Shared(server, Path(name) / f"polled-{dispatchers}", DEVICES)
            tokens = asyncio.run(shared.mint())
            with (
                shared.serving("api", SERVER_CORE, redis_port) as (port, pid),
                shared.several("dispatcher", dispatchers, CLIENT_CORE, redis_port),
                asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
            ):
                polled = runner.run(_polled(shared, port, pid, tokens))
            figures[f"{_several(dispatchers)}: signals/s in devices' hands"] = SIGNALS / polled.seconds
            figures[f"{_several(dispatchers)}: signals in each answer"] = SIGNALS / polled.answers
            figures[f"{_several(dispatchers)}: microseconds of CPU a signal, api's"] = (
                polled.cpu_seconds / SIGNALS * 1e6
            )
    return figures


def _several(dispatchers: int) -> str:
    return "one dispatcher" if dispatchers == 1 else f"{dispatchers} dispatchers"


def _fill(shared: Shared) -> float:
    """All signals at once, committed and told as the server's own commands do; when they were about to be."""
    filled_at = 0.0

    def work(conn: Connection) -> None:
        nonlocal filled_at
        conn.run(_FILL, devices=DEVICES, signals=SIGNALS)
        conn.announce(Enqueued())
        filled_at = time.monotonic()

    engine = PostgresEngine(shared.url, writers=1)
    with closing(Database(engine)) as database:
        tell_others(database, engine)
        database.write_now(work)
    return filled_at


def _drained(shared: Shared, dispatchers: int, redis_port: int) -> dict[str, float]:
    with shared.several("dispatcher", dispatchers, BOTH_CORES, redis_port) as pids, psycopg.connect(shared.url) as conn:
        conn.autocommit = True
        before, database_before = cpu_seconds(pids), shared.cpu_seconds()
        _fill(shared)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while conn.execute(_STATE).fetchone() != (0,):
            assert time.monotonic() < deadline, "the outbox is not emptied"
            time.sleep(0.2)
        used, database_used = cpu_seconds(pids) - before, shared.cpu_seconds() - database_before
        delivered, seconds = conn.execute(_SPAN).fetchone() or (0, 1.0)
    who = _several(dispatchers)
    return {
        f"{who}: signals/s from the outbox": delivered / float(seconds),
        f"{who}: microseconds of CPU a signal, theirs": used / SIGNALS * 1e6,
        f"{who}: microseconds of CPU a signal, PostgreSQL's": database_used / SIGNALS * 1e6,
    }


class _Device(asyncio.Protocol):
    """A device that polls, is answered, and polls again from there."""

    def __init__(self, token: str, counted: "_Counted") -> None:
        self._poll = (POLL % token).encode()
        self._counted = counted
        self._buffer = b""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._ask(b"0-0")

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
        self._counted.add(body.count(b'"bench.change"'))
        self._ask(found[1])

    def _ask(self, cursor: bytes) -> None:
        self._transport.write(self._poll + b"If-None-Match: " + cursor + b"\r\n\r\n")


class _Counted:
    def __init__(self) -> None:
        self.signals = self.answers = 0
        self.all = asyncio.Event()

    def add(self, signals: int) -> None:
        self.signals += signals
        self.answers += 1
        if self.signals >= SIGNALS:
            self.all.set()


class _Polled(NamedTuple):
    """Seconds from the commit of all signals to the last of them in a device's hands, answers, CPU time of the api."""

    seconds: float
    answers: int
    cpu_seconds: float


async def _polled(shared: Shared, port: int, pid: int, tokens: list[str]) -> _Polled:
    loop, counted = asyncio.get_running_loop(), _Counted()
    for token in tokens:
        await loop.create_connection(partial(_Device, token, counted), "127.0.0.1", port)
    while await asyncio.to_thread(_parked, port) < len(tokens):
        await asyncio.sleep(0.1)
    used_before = cpu_seconds([pid])
    started = await asyncio.to_thread(_fill, shared)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await counted.all.wait()
    assert counted.signals == SIGNALS, counted.signals
    return _Polled(time.monotonic() - started, counted.answers, cpu_seconds([pid]) - used_before)


def _parked(port: int) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        found = re.search(r"restante_parked_polls ([\d.e+]+)", answer.read().decode())
    return float(found[1]) if found else 0.0
