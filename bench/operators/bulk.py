"""One bulk change of the install config of 100,000 devices, compared with bare publishing of as many outbox rows.

Bare publishing claims, publishes and marks rows of the outbox that are there already. The bulk change runs the real job
engine beside the real dispatcher on the same database until every signal is published: it also writes a version, a row
of the history, an outbox row, a result and an audit row of each device. Both are durable. The memory is that of this
process, in which both run, after a fifth of the job and at its end; it includes the page cache of SQLite, which grows
up to 64 MiB. `bulk_parked` does the same change on a server with parked polls.
"""

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.data import device_data
from bench.operators import bulk_parked
from restante.core.backoff import Backoff
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.sqlite import SqliteEngine
from restante.delivery.log.signals import Signal
from restante.delivery.outbox import outbox
from restante.delivery.outbox.dispatcher import Dispatcher, DispatcherOptions
from restante.identity import api_keys
from restante.identity.callers import Role
from restante.identity.grants import ALL_IDS
from restante.identity.master_key import MasterKey
from restante.jobs import jobs
from restante.jobs.actions import JobActions, JobCaller
from restante.jobs.jobs import JobRequest
from restante.jobs.runner import JobRunner
from restante.server.monitoring import logs
from restante.updates.bulk.config_actions import PutConfigParams
from restante.updates.bulk.routes import device_job_actions
from restante.updates.fleet.device_filter import DeviceFilter
from restante.updates.pki.issuing import NO_RULES
from tests.defaults import append_all_signals

DEVICES = 100_000
ROWS_A_WRITE = 1000
ITEM: dict[str, Any] = {"id": "site", "type": "copy", "from": ["fullchain.pem"], "to": ["/etc/ssl/site.pem"]}
OPTIONS = DispatcherOptions(batch=100, lease_seconds=30.0, backoff=Backoff(1.0, 300.0, 10))


def bulk_config() -> dict[str, float]:
    """The same number of signals through the dispatcher alone, and through a job and the dispatcher."""
    logs.configure("json", "error")
    with tempfile.TemporaryDirectory() as name:
        bare = asyncio.run(_bare(Path(name) / "bare"))
        alone, whole, grown = asyncio.run(_job(Path(name) / "job"))
    return {
        "signals/s, bare publishing of outbox rows": DEVICES / bare,
        "devices/s, bulk config until the job is done": DEVICES / alone,
        "devices/s, bulk config until all is published": DEVICES / whole,
        "ratio to bare publishing": bare / whole,
        "MiB grown in the last 80,000 (page cache: up to 64)": grown,
        **bulk_parked.parked_during_bulk(),
    }


def _opened(path: Path) -> Database:
    return Database(SqliteEngine(device_data.prepare(path, DEVICES).database_path))


async def _bare(path: Path) -> float:
    database = _opened(path)
    for start in range(0, DEVICES, ROWS_A_WRITE):
        await database.write(_enqueue, start)
    dispatcher = Dispatcher(database, OPTIONS, append_all_signals)
    started = time.perf_counter()
    while (await dispatcher.run_once()).delivered:
        pass
    seconds = time.perf_counter() - started
    assert dispatcher.counters.delivered == DEVICES
    database.close()
    return seconds


def _enqueue(conn: Connection, start: int) -> None:
    signals = {
        device_id: Signal("bench.publish", conn.now_ms, {"n": device_id})
        for device_id in range(start + 1, start + ROWS_A_WRITE + 1)
    }
    outbox.enqueue_all(conn, signals)


async def _job(path: Path) -> tuple[float, float, float]:
    """Seconds until the job is done, seconds until all is published, and the growth of the process in MiB."""
    database = _opened(path)
    enqueue, master_key = outbox.enqueue, MasterKey(bytes(32))
    actions = JobActions(device_job_actions(enqueue, outbox.enqueue_all, master_key, NO_RULES))
    key_id, _ = await database.write(api_keys.create, "bench", Role.operator)
    action = actions.find("devices", "put_config")
    assert action is not None
    request = JobRequest(
        action=action,
        filters=DeviceFilter(status="active"),
        params=PutConfigParams(installs=[ITEM]),
        caller=JobCaller("key:bench", (), ALL_IDS, key_id=key_id),
        role=Role.operator,
    )
    runner, dispatcher = JobRunner(database, actions), Dispatcher(database, OPTIONS, append_all_signals)
    at_a_fifth: float | None = None
    started = time.perf_counter()
    total = await database.read(jobs.count, request)
    assert total == DEVICES
    job_id = (await database.write(jobs.create, request, total)).job_id
    publishing = asyncio.create_task(_publish(dispatcher))
    while await runner.run_once():
        if at_a_fifth is None and runner.items["done"] >= DEVICES // 5:
            at_a_fifth = _resident_mib()
    alone = time.perf_counter() - started
    assert at_a_fifth is not None
    grown = _resident_mib() - at_a_fifth
    await publishing
    whole = time.perf_counter() - started
    row = await database.read(jobs.find, job_id)
    assert (row["state"], row["done"]) == ("done", DEVICES)
    database.close()
    return alone, whole, grown


async def _publish(dispatcher: Dispatcher) -> None:
    """Run passes until every device has got its signal."""
    while dispatcher.counters.delivered < DEVICES:
        if not (await dispatcher.run_once()).delivered:
            await asyncio.sleep(0.001)


def _resident_mib() -> float:
    text = Path("/proc/self/status").read_text()
    return int(text.partition("RssAnon:")[2].split()[0]) / 1024
