"""The idle poll of Restante by number of devices, of connections, and of workers.

Devices and connections: one process on the server's core. Workers need PostgreSQL; they may use every core but the
client's, and all cores on a machine with two.
"""

import asyncio
import os
import statistics
import tempfile
from pathlib import Path

from bench.commands.queues import DURABLE
from bench.polls.idle_poll import warm_server
from bench.tools.load import load
from bench.tools.postgres_deployment import PostgresDeployment
from bench.tools.processes import CLIENT_CORE
from tests.services.postgres import postgres_server

DEVICES = (1_000, 10_000, 100_000, 1_000_000)
TOKENS_MAX = 100_000
CONNECTIONS = (1, 4, 16, 64, 256, 1024)
WORKERS = (1, 2, 4)
WORKER_DEVICES = 2000
ROUNDS, SECONDS = 3, 2


def by_devices() -> dict[int, float]:
    return {devices: _rate_with(devices) for devices in DEVICES}


def _rate_with(devices: int) -> float:
    tokens = min(devices, TOKENS_MAX)
    with tempfile.TemporaryDirectory() as name, warm_server(Path(name), tokens, devices) as (_pid, port, token_file):
        load(port, token_file, 1)
        return statistics.median(load(port, token_file, SECONDS).per_second for _ in range(ROUNDS))


def by_connections() -> dict[int, float]:
    found: dict[int, list[float]] = {count: [] for count in CONNECTIONS}
    with tempfile.TemporaryDirectory() as name, warm_server(Path(name), 10_000, 10_000) as (_pid, port, token_file):
        load(port, token_file, 1)
        for _ in range(ROUNDS):
            for count in CONNECTIONS:
                found[count].append(load(port, token_file, SECONDS, connections=count).per_second)
    return {count: statistics.median(rates) for count, rates in found.items()}


def by_workers() -> dict[int, float]:
    cores = os.cpu_count() or 1
    server_cores = f"0-{cores - 1}" if cores <= 2 else ",".join(str(n) for n in range(cores) if n != int(CLIENT_CORE))
    found: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as name, postgres_server(*DURABLE) as server:
        deployment = PostgresDeployment(server, Path(name) / "data", WORKER_DEVICES)
        token_file = Path(name) / "tokens"
        token_file.write_text("\n".join(asyncio.run(deployment.mint())) + "\n")
        for workers in (count for count in WORKERS if count <= max(2, cores)):
            with deployment.serving("api,dispatcher", server_cores, None, "--workers", str(workers)) as (port, _pid):
                # Every worker verifies every token once.
                load(port, token_file, 2)
                found[workers] = statistics.median(load(port, token_file, SECONDS).per_second for _ in range(ROUNDS))
    return found
