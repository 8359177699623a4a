"""Other job queues, used as their own workers do: lease one job, complete it, repeat.

The plain queue is the one that a user would write: a table and two statements, with `FOR UPDATE SKIP LOCKED`. It has
leases, but no back-off, rate limits, audit trail or signatures.

The PostgreSQL queues use the same server with the same durability; beanstalkd flushes every change to its file. Each
`pairs_per_second` function returns how many jobs so many workers leased and completed per second.
"""

import asyncio
import subprocess
import tempfile
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any

import greenstalk
import procrastinate
import psycopg
import uvloop
from pgqueuer.db import PsycopgDriver
from pgqueuer.models import QueueEntrypoint, QueueManagerId
from pgqueuer.ports.repository import EntrypointExecutionParameter
from pgqueuer.queries import Queries
from procrastinate import jobs

from bench.tools.processes import free_port
from tests.services.postgres import PostgresServer

SECONDS = 4.0
# More than any queue completes in that time.
JOBS = 40_000
CHUNK = 1000
BEANSTALKD_JOBS = 2000

Pair = Callable[[], Awaitable[bool]]
# The pairs per second of so many workers, on the database with this URL.
Measure = Callable[[str, int], Coroutine[Any, Any, float]]


async def repeat(workers: list[Pair], seconds: float = SECONDS) -> float:
    """The pairs per second of all workers together."""
    end = time.perf_counter() + seconds

    async def work(pair: Pair) -> int:
        done = 0
        while time.perf_counter() < end:
            if not await pair():
                raise RuntimeError("the queue ran dry")
            done += 1
        return done

    started = time.perf_counter()
    done = await asyncio.gather(*(work(pair) for pair in workers))
    return sum(done) / (time.perf_counter() - started)


def on_both_loops(name: str, measure: Measure, server: PostgresServer, width: int) -> dict[str, float]:
    """The rates with the event loop of Python, and with uvloop, which Restante's server uses."""
    loops = {"asyncio": asyncio.run, "uvloop": uvloop.run}
    return {f"{name}, {loop}": run(measure(server.create(), width)) for loop, run in loops.items()}


async def _vacuum(url: str) -> None:
    """Give the planner statistics, as autovacuum would do soon."""
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as conn:
        await conn.execute("VACUUM ANALYZE")


async def procrastinate_pairs_per_second(url: str, width: int) -> float:
    connector = procrastinate.PsycopgConnector(conninfo=url, min_size=width, max_size=width)
    app = procrastinate.App(connector=connector)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        manager = app.job_manager
        for _ in range(0, JOBS, CHUNK):
            await manager.batch_defer_jobs_async(
                [jobs.Job(queue="q", lock=None, queueing_lock=None, task_name="t") for _ in range(CHUNK)]
            )
        await _vacuum(url)
        worker_ids = [await manager.register_worker() for _ in range(width)]

        def worker(worker_id: int) -> Pair:
            async def pair() -> bool:
                job = await manager.fetch_job(["q"], worker_id)
                if job is not None:
                    await manager.finish_job(job, jobs.Status.SUCCEEDED, delete_job=False)
                return job is not None

            return pair

        return await repeat([worker(worker_id) for worker_id in worker_ids])


async def pgqueuer_pairs_per_second(url: str, width: int) -> float:
    async with AsyncExitStack() as stack:
        queues = []
        for _ in range(width):
            conn = await stack.enter_async_context(await psycopg.AsyncConnection.connect(url, autocommit=True))
            queues.append(Queries(PsycopgDriver(conn)))
        await queues[0].install()
        for _ in range(0, JOBS, CHUNK):
            await queues[0].enqueue(["t"] * CHUNK, [None] * CHUNK, [0] * CHUNK)
        await _vacuum(url)
        entrypoints = {QueueEntrypoint("t"): EntrypointExecutionParameter(0)}

        def worker(queue: Queries) -> Pair:
            manager_id = QueueManagerId(uuid.uuid4())

            async def pair() -> bool:
                leased = await queue.dequeue(1, entrypoints, manager_id, None, timedelta(seconds=60))
                if leased:
                    await queue.log_jobs([(leased[0], "successful", None)])
                return bool(leased)

            return pair

        return await repeat([worker(queue) for queue in queues])


_PLAIN_SCHEMA = """
CREATE TABLE jobs (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, payload JSONB NOT NULL, status TEXT NOT NULL DEFAULT 'ready',
    attempt BIGINT NOT NULL DEFAULT 0, lease_until TIMESTAMPTZ, finished_at TIMESTAMPTZ
);
CREATE INDEX ix_jobs_ready ON jobs (id) WHERE status = 'ready';
"""
_PLAIN_FILL = "INSERT INTO jobs (payload) SELECT '{\"speed\": 80}' FROM generate_series(1, %s)"
_PLAIN_LEASE = """
UPDATE jobs SET status = 'leased', attempt = attempt + 1, lease_until = now() + INTERVAL '60 seconds'
WHERE id = (SELECT id FROM jobs WHERE status = 'ready' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
RETURNING id, attempt, payload
"""
_PLAIN_COMPLETE = """
UPDATE jobs SET status = 'done', finished_at = now()
WHERE id = %s AND status = 'leased' AND attempt = %s AND lease_until > now()
"""


async def plain_pairs_per_second(url: str, width: int) -> float:
    async with AsyncExitStack() as stack:
        conns = [
            await stack.enter_async_context(await psycopg.AsyncConnection.connect(url, autocommit=True))
            for _ in range(width)
        ]
        await conns[0].execute(_PLAIN_SCHEMA)
        await conns[0].execute(_PLAIN_FILL, (JOBS,))
        await _vacuum(url)

        def worker(conn: psycopg.AsyncConnection[Any]) -> Pair:
            async def pair() -> bool:
                leased = await (await conn.execute(_PLAIN_LEASE)).fetchone()
                if leased is None:
                    return False
                job_id, attempt, _payload = leased
                return (await conn.execute(_PLAIN_COMPLETE, (job_id, attempt))).rowcount == 1

            return pair

        return await repeat([worker(conn) for conn in conns])


def beanstalkd_pairs_per_second(width: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        # -f 0: every change is flushed before its response.
        process = subprocess.Popen(["beanstalkd", "-l", "127.0.0.1", "-p", str(port), "-b", folder, "-f", "0"])
        try:
            return _drain(port, width)
        finally:
            process.terminate()
            process.wait(10)


def _drain(port: int, width: int) -> float:
    filler = _connected(port)
    # Jobs are added one at a time with a flush each, so use only as many as the measurement needs.
    for _ in range(BEANSTALKD_JOBS):
        filler.put("job")

    def work(client: "greenstalk.Client[str]") -> None:
        try:
            while True:
                client.delete(client.reserve(timeout=0))
        except greenstalk.TimedOutError:
            client.close()

    threads = [threading.Thread(target=work, args=(_connected(port),)) for _ in range(width)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - started
    filler.close()
    return BEANSTALKD_JOBS / seconds


def _connected(port: int) -> "greenstalk.Client[str]":
    for _ in range(100):
        try:
            return greenstalk.Client(("127.0.0.1", port))
        except ConnectionRefusedError:
            time.sleep(0.05)
    raise RuntimeError("beanstalkd did not start")
