"""One publish to 100,000 recipients, compared with bare publishing of as many outbox rows in the same run.

    bare      rows that are in the outbox already: claimed, published and marked by the dispatcher
    signal    one bulk job that sends a signal to a group of devices, until the dispatcher has published all signals
    event     one event for all subscribers, until every client has it in its inbox, to be signed

All are durable on the embedded database, in this process. The job also writes a result and an audit row of each device.
Signing is not part of it: `python -m bench signing` measures that, and it is bounded by the private-key operations.
The memory is that of this process from the start of a run to its end; the page cache of SQLite is part of it.
"""

import asyncio
import os
import tempfile
from pathlib import Path

from bench.data import device_data, event_data
from bench.fan_out.rounds import Run, Stopwatch, interleave, rates
from restante.core.backoff import Backoff
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.sqlite import SqliteEngine
from restante.delivery.log.signals import Signal
from restante.delivery.outbox import outbox
from restante.delivery.outbox.dispatcher import Dispatcher, DispatcherOptions
from restante.events.publishing.publish_requests import PUBLISHING, PublishBody, PublishRequest
from restante.events.publishing.publishing import Publisher
from restante.identity import api_keys
from restante.identity.callers import Role
from restante.identity.grants import ALL_IDS
from restante.identity.master_key import MasterKey
from restante.jobs import jobs
from restante.jobs.actions import JobActions, JobCaller
from restante.jobs.jobs import JobRequest
from restante.jobs.runner import JobRunner
from restante.server.monitoring import logs
from restante.updates.bulk.device_actions import SignalParams
from restante.updates.bulk.routes import device_job_actions
from restante.updates.fleet.device_filter import DeviceFilter
from restante.updates.pki.issuing import NO_RULES
from tests.defaults import append_all_signals

RECIPIENTS = int(os.environ.get("BENCH_RECIPIENTS", "100000"))
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
ROWS_A_WRITE = 1000
OPTIONS = DispatcherOptions(batch=100, lease_seconds=30.0, backoff=Backoff(1.0, 300.0, 10))
REF = {"config_id": 1234, "version": 6}
BARE = "bare outbox rows"


def fan_out() -> dict[str, float]:
    logs.configure("json", "error")
    found = interleave({BARE: _bare, "signal to a group": send_signal, "event to all subscribers": _event}, ROUNDS)
    return rates(found, RECIPIENTS, BARE)


def _bare() -> Run:
    with tempfile.TemporaryDirectory() as name:
        return asyncio.run(_publish_rows(_database(Path(name))))


def send_signal() -> Run:
    with tempfile.TemporaryDirectory() as name:
        return asyncio.run(_send_signal(_database(Path(name))))


def _event() -> Run:
    with tempfile.TemporaryDirectory() as name:
        folder = event_data.prepare(Path(name) / "data", RECIPIENTS, 0).folder
        return asyncio.run(_publish_event(Database(SqliteEngine(folder.database_path))))


def _database(path: Path) -> Database:
    return Database(SqliteEngine(device_data.prepare(path / "data", RECIPIENTS).database_path))


async def _publish_rows(database: Database) -> Run:
    for start in range(0, RECIPIENTS, ROWS_A_WRITE):
        await database.write(_enqueue, start)
    dispatcher = Dispatcher(database, OPTIONS, append_all_signals)
    watch = Stopwatch()
    while (await dispatcher.run_once()).delivered:
        pass
    run = watch.stop()
    assert dispatcher.counters.delivered == RECIPIENTS
    database.close()
    return run


def _enqueue(conn: Connection, start: int) -> None:
    signal = Signal("bench.publish", conn.now_ms, REF)
    outbox.enqueue_all(conn, dict.fromkeys(range(start + 1, start + ROWS_A_WRITE + 1), signal))


async def _send_signal(database: Database) -> Run:
    actions = JobActions(device_job_actions(outbox.enqueue, outbox.enqueue_all, MasterKey(bytes(32)), NO_RULES))
    key_id, _ = await database.write(api_keys.create, "bench", Role.operator)
    action = actions.find("devices", "send_signal")
    assert action is not None
    request = JobRequest(
        action=action,
        filters=DeviceFilter(status="active"),
        params=SignalParams("bench.publish", REF),
        caller=JobCaller("key:bench", (), ALL_IDS, key_id=key_id),
        role=Role.operator,
    )
    runner, dispatcher = JobRunner(database, actions), Dispatcher(database, OPTIONS, append_all_signals)
    watch = Stopwatch()
    total = await database.read(jobs.count, request)
    assert total == RECIPIENTS
    job_id = (await database.write(jobs.create, request, total)).job_id
    publishing = asyncio.create_task(_dispatch(dispatcher))
    while await runner.run_once():
        pass
    await publishing
    run = watch.stop()
    row = await database.read(jobs.find, job_id)
    assert (row["state"], row["done"]) == ("done", RECIPIENTS)
    database.close()
    return run


async def _dispatch(dispatcher: Dispatcher) -> None:
    """Run passes until every device has its signal."""
    while dispatcher.counters.delivered < RECIPIENTS:
        if not (await dispatcher.run_once()).delivered:
            await asyncio.sleep(0.001)


async def _publish_event(database: Database) -> Run:
    body = PublishBody(
        events={"urn:example:account-closed": {"reason": "moved"}},
        all_subscribers=True,
        sub="https://bank.example/accounts/1",
    )
    watch = Stopwatch()
    result = await database.run_batched(PUBLISHING, PublishRequest(body, Publisher("key:bench")))
    run = watch.stop()
    assert result.json.count(b",") == RECIPIENTS - 1
    database.close()
    return run
