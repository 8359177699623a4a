"""From a committed change to the signal in a device's hands, and how many signals a second can be published.

The reference for both is the disk: how long a bare commit of one row takes on the same file system in the same run.
"""

import asyncio
import sqlite3
import statistics
import sys
import tempfile
import time
from pathlib import Path

import httpx

from bench import prepared
from bench.processes import SERVER_CORE, free_port, pinned
from restante.cli.opening import opened_in
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.sqlite import SqliteEngine
from restante.delivery import outbox
from restante.delivery.dispatcher import Dispatcher, DispatcherOptions
from restante.delivery.signals import Signal
from restante.identity import api_keys
from restante.identity.callers import Role
from restante.server import logs

CHANGES = 300
PUBLISHED = 30_000
DEVICES = 1000


def commit_milliseconds(folder: Path, commits: int = 200) -> float:
    """A bare durable commit of one row: what the disk allows."""
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
    """Milliseconds from the answer to a change until the parked poll has the signal."""
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
            answer = await poll
            times.append((time.perf_counter() - committed) * 1000)
            assert (sent.status_code, answer.status_code) == (202, 200), (sent.text, answer.text)
            cursor = answer.headers["etag"]
    return times


def latency() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        folder = prepared.prepare(Path(name) / "data", 1)
        token = asyncio.run(prepared.mint(folder, [1]))[0]
        with opened_in(folder) as database:
            _, key = database.write_now(api_keys.create, "bench", Role.admin)
        port = free_port()
        command = [
            str(Path(sys.executable).with_name("restante")),
            "serve",
            "--data",
            str(folder.path),
            "--listen",
            f"127.0.0.1:{port}",
            "--poll-rate-per-second",
            "10000",
            "--poll-burst",
            "10000",
        ]
        with pinned(SERVER_CORE, command, port, log=Path(name) / "server.log"):
            times = sorted(asyncio.run(_latencies(port, key, token)))
        reference = commit_milliseconds(Path(name))
    return {
        "ms change answered → signal in hand (median)": statistics.median(times),
        "ms (95th percentile)": times[int(len(times) * 0.95)],
        "ms a bare durable commit (median)": reference,
    }


def publishing() -> dict[str, float]:
    """Outbox to log: every signal claimed, published and marked, each batch durable."""
    logs.configure("json", "error")
    with tempfile.TemporaryDirectory() as name:
        folder = prepared.prepare(Path(name) / "data", DEVICES)
        database = Database(SqliteEngine(folder.database_path))
        for start in range(0, PUBLISHED, 1000):
            database.write_now(_enqueue, start)
        seconds = asyncio.run(_drain(database))
        database.close()
        reference = commit_milliseconds(Path(name))
    return {
        "signals/s published, durable": PUBLISHED / seconds,
        "ms a bare durable commit (median)": reference,
        "signals for each bare commit's time": PUBLISHED / seconds * reference / 1000,
    }


def _enqueue(conn: Connection, start: int) -> None:
    for number in range(start, start + 1000):
        outbox.enqueue(conn, number % DEVICES + 1, Signal("bench.publish", conn.now_ms, {"n": number}))


async def _drain(database: Database) -> float:
    dispatcher = Dispatcher(database, DispatcherOptions())
    started = time.perf_counter()
    while (await dispatcher.run_once()).delivered:
        pass
    assert dispatcher.totals.delivered == PUBLISHED
    return time.perf_counter() - started
