"""The latency from a committed change to the signal at a device, and the rate of publishing signals.

The reference for both is the disk: the time of a bare commit of one row on the same file system in the same run.
"""

import asyncio
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path

import httpx

from bench.data import device_data
from bench.tools.processes import SERVER_CORE, free_port, pinned, serve_command
from restante.cli.database import open_embedded_database
from restante.core.backoff import Backoff
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.sqlite import SqliteEngine
from restante.delivery.log.signals import Signal
from restante.delivery.outbox import outbox
from restante.delivery.outbox.dispatcher import Dispatcher, DispatcherOptions
from restante.identity import api_keys
from restante.identity.callers import Role
from restante.server.monitoring import logs
from tests.defaults import append_all_signals

CHANGES = 300
PUBLISHED = 30_000
DEVICES = 1000


def commit_milliseconds(folder: Path, commits: int = 200) -> float:
    """The time of a bare durable commit of one row."""
    conn = sqlite3.connect(folder / "reference.db", isolation_level=None)
    conn.execute("PRAGMA journal_mode = WAL")
    conn.execute("PRAGMA synchronous = FULL")
    conn.execute("CREATE TABLE t (x INTEGER)")
    times = []
    for number in range(commits):
        started = time.perf_counter()
        conn.execute("INSERT INTO t VALUES (?)", (number,))
        times.append((time.perf_counter() - started) * 1000)
    conn.close()
    return statistics.median(times)


async def _latencies(port: int, key: str, token: str) -> list[float]:
    """Milliseconds from the response to a change until the parked poll returns the signal."""
    base = f"http://127.0.0.1:{port}"
    times = []
    async with httpx.AsyncClient(base_url=base) as operator, httpx.AsyncClient(base_url=base, timeout=40) as device:
        cursor = "0-0"
        for number in range(CHANGES):
            poll = asyncio.create_task(
                device.get(
                    "/apiv1/devices/self/updates?wait=30",
                    headers={"Authorization": f"Bearer {token}", "If-None-Match": cursor},
                )
            )
            await asyncio.sleep(0.005)
            sent = await operator.post(
                "/apiv1/users/1/devices/1/signals",
                headers={"Authorization": f"Bearer {key}"},
                json={"type": "bench.change", "ref": {"n": number}},
            )
            committed = time.perf_counter()
            response = await poll
            times.append((time.perf_counter() - committed) * 1000)
            assert (sent.status_code, response.status_code) == (202, 200), (sent.text, response.text)
            cursor = response.headers["etag"]
    return times


def latency() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        folder = device_data.prepare(Path(name) / "data", 1)
        token = asyncio.run(device_data.mint(folder, [1]))[0]
        with open_embedded_database(folder) as database:
            _, key = database.write_now(api_keys.create, "bench", Role.admin)
        port = free_port()
        command = serve_command(folder.path, port, "--poll-rate-per-second", "10000", "--poll-burst", "10000")
        with pinned(SERVER_CORE, command, port, log=Path(name) / "server.log"):
            times = sorted(asyncio.run(_latencies(port, key, token)))
        reference = commit_milliseconds(Path(name))
    return {
        "ms from response to a change to delivered signal (median)": statistics.median(times),
        "ms (95th percentile)": times[int(len(times) * 0.95)],
        "ms a bare durable commit (median)": reference,
    }


def publishing() -> dict[str, float]:
    """Outbox to log: every signal is claimed, published and marked, with durable batches."""
    logs.configure("json", "error")
    with tempfile.TemporaryDirectory() as name:
        folder = device_data.prepare(Path(name) / "data", DEVICES)
        database = Database(SqliteEngine(folder.database_path))
        for start in range(0, PUBLISHED, 1000):
            database.write_now(_enqueue, start)
        seconds = asyncio.run(_drain(database))
        database.close()
        reference = commit_milliseconds(Path(name))
    return {
        "signals/s published, durable": PUBLISHED / seconds,
        "ms a bare durable commit (median)": reference,
        "signals per time of a bare commit": PUBLISHED / seconds * reference / 1000,
    }


def _enqueue(conn: Connection, start: int) -> None:
    for number in range(start, start + 1000):
        outbox.enqueue(conn, number % DEVICES + 1, Signal("bench.publish", conn.now_ms, {"n": number}))


async def _drain(database: Database) -> float:
    dispatcher = Dispatcher(
        database, DispatcherOptions(batch=100, lease_seconds=30.0, backoff=Backoff(1.0, 300.0, 10)), append_all_signals
    )
    started = time.perf_counter()
    while (await dispatcher.run_once()).delivered:
        pass
    assert dispatcher.counters.delivered == PUBLISHED
    return time.perf_counter() - started
