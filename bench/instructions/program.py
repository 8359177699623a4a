"""A program that does the work of the server in its own process, so many recipients for each line of its input.

    publishing  rows of the outbox: claimed, published and marked by the dispatcher
    fan-out     a bulk job that sends a signal to each device, and the dispatcher

It runs with the code of another commit, so it imports nothing of this package, and each path imports what it needs.
Arguments: name of the path, data folder.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from restante.core.backoff import Backoff
from restante.database.database import Database
from restante.database.sqlite import SqliteEngine
from restante.delivery.outbox.dispatcher import Dispatcher, DispatcherOptions
from restante.server.data_folder import DataFolder
from restante.server.monitoring import logs
from tests.defaults import append_all_signals

# Leases outlast the slowness of the counted process.
LEASE_SECONDS = 3600.0
OPTIONS = DispatcherOptions(batch=100, lease_seconds=LEASE_SECONDS, backoff=Backoff(1.0, 300.0, 10))

# Does so many recipients.
Work = Callable[[int], Awaitable[None]]


async def publishing(database: Database) -> Work:
    dispatcher = Dispatcher(database, OPTIONS, append_all_signals)

    async def publish(rows: int) -> None:
        until = dispatcher.counters.delivered + rows
        while dispatcher.counters.delivered < until:
            assert (await dispatcher.run_once()).delivered

    return publish


async def fan_out(database: Database) -> Work:
    from bench.fan_out.publishing import REF
    from restante.delivery.outbox import outbox
    from restante.identity import api_keys
    from restante.identity.callers import Role
    from restante.identity.grants import ALL_IDS
    from restante.identity.master_key import MasterKey
    from restante.jobs import jobs
    from restante.jobs.actions import JobActions, JobCaller
    from restante.jobs.jobs import JobRequest
    from restante.jobs.runner import JobRunner
    from restante.updates.bulk.device_actions import SignalParams
    from restante.updates.bulk.routes import device_job_actions
    from restante.updates.fleet.device_filter import DeviceFilter
    from restante.updates.pki.issuing import NO_RULES

    actions = JobActions(device_job_actions(outbox.enqueue, outbox.enqueue_all, MasterKey(bytes(32)), NO_RULES))
    action = actions.find("devices", "send_signal")
    assert action is not None
    key_id, _ = await database.write(api_keys.create, "bench", Role.operator)
    request = JobRequest(
        action=action,
        filters=DeviceFilter(status="active"),
        params=SignalParams("bench.publish", REF),
        caller=JobCaller("key:bench", (), ALL_IDS, key_id=key_id),
        role=Role.operator,
    )
    await database.write(jobs.create, request, await database.read(jobs.count, request))
    runner = JobRunner(database, actions, LEASE_SECONDS)
    dispatcher = Dispatcher(database, OPTIONS, append_all_signals)

    async def send(devices: int) -> None:
        until = dispatcher.counters.delivered + devices
        while dispatcher.counters.delivered < until:
            assert await runner.run_once()
            while (await dispatcher.run_once()).delivered:
                pass

    return send


PATHS = {"publishing": publishing, "fan-out": fan_out}


async def main() -> None:
    name, folder = sys.argv[1:]
    logs.configure("json", "error")
    database = Database(SqliteEngine(DataFolder(Path(folder)).database_path))
    work = await PATHS[name](database)
    print("ready", flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        await work(int(line))
        print("done", flush=True)
    database.close()


if __name__ == "__main__":
    asyncio.run(main())
