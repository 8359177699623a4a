"""Lease one job, acknowledge it, repeat: pairs per second, by number of workers.

Over HTTP, the client and the requests are the same for Restante and for the service written by hand. The queues on
PostgreSQL are used through their own libraries, in the client's process; PostgreSQL flushes every commit.
"""

import asyncio
import os
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import redis
import uvloop

from bench.commands.commands import collect, server_command
from bench.commands.other_queues import (
    Measure,
    beanstalkd_pairs_per_second,
    on_both_loops,
    pgqueuer_pairs_per_second,
    plain_pairs_per_second,
    procrastinate_pairs_per_second,
    repeat,
)
from bench.commands.queues import DURABLE, RestanteQueue
from bench.data import edge_data
from bench.peers.servers import fastapi_redis
from bench.tools.processes import CLIENT_CORE, SERVER_CORE, free_port, pinned
from restante.server.lifecycle import collect_garbage_rarely
from tests.services.postgres import PostgresServer, postgres_server

WIDTHS = (1, 16, 64)
PAIRS = 6000
FLUSHED = "every lease and ACK is flushed to disk"
# Of a width, at most this many pairs, so that one worker does not take minutes.
PAIRS_A_WORKER = 1500


def over_http() -> list[dict[str, Any]]:
    return [
        {"name": "Restante, embedded", "durability": f"{FLUSHED}; signed, with an audit trail", "rates": _restante()},
        {"name": "FastAPI + Redis", "durability": "appendfsync always; lease without an end", "rates": _fastapi()},
    ]


def on_postgres() -> list[dict[str, Any]]:
    # As Restante's server does, for all queues.
    collect_garbage_rarely()
    found: dict[str, dict[int, float]] = {}
    with postgres_server(*DURABLE) as server:
        for width in WIDTHS:
            rates = {
                "Restante on PostgreSQL": _restante_on(server, width),
                "procrastinate": _best_of_loops(procrastinate_pairs_per_second, server, width),
                "pgqueuer": _best_of_loops(pgqueuer_pairs_per_second, server, width),
                "SKIP LOCKED in psycopg": _best_of_loops(plain_pairs_per_second, server, width),
            }
            for name, rate in rates.items():
                found.setdefault(name, {})[width] = rate
    durability = {"Restante on PostgreSQL": f"{FLUSHED}; with an audit trail and rate limits"}
    return [
        {"name": name, "durability": durability.get(name, FLUSHED), "rates": rates} for name, rates in found.items()
    ]


def _best_of_loops(measure: Measure, server: PostgresServer, width: int) -> float:
    return max(on_both_loops("", measure, server, width).values())


def with_beanstalkd() -> list[dict[str, Any]]:
    rates = {width: beanstalkd_pairs_per_second(width) for width in WIDTHS}
    return [{"name": "beanstalkd", "durability": f"-f 0: {FLUSHED}; no history", "rates": rates}]


def _restante_on(server: PostgresServer, width: int) -> float:
    with closing(RestanteQueue(server.create(), width, width)) as queue:
        return uvloop.run(repeat(queue.workers()))


def _restante() -> dict[int, float]:
    with tempfile.TemporaryDirectory() as name:
        edge = edge_data.prepare(Path(name) / "data", max(WIDTHS), len(WIDTHS) * PAIRS_A_WORKER + 200)
        port = free_port()
        signed = {"ENABLE_COMMAND_SIGNATURE": "true"}
        with pinned(SERVER_CORE, server_command(edge.folder, port), port, signed, Path(name) / "log"):
            return _rates(port, edge.tokens)


def _fastapi() -> dict[int, float]:
    sites = [str(number) for number in range(max(WIDTHS))]
    tokens = [f"collector-{site}".ljust(64, "x") for site in sites]
    with tempfile.TemporaryDirectory() as name, fastapi_redis(Path(name), tokens, sites) as server:
        _fill(server.redis_port, sites)
        return _rates(server.port, tokens)


def _fill(redis_port: int, sites: list[str]) -> None:
    client = redis.Redis(port=redis_port)
    command = '{"command_type":"SET_FAN","params":{"speed":80},"attempt":1}'
    for site in sites:
        client.xgroup_create(f"queue:{site}", "collectors", id="0", mkstream=True)
        pipeline = client.pipeline(transaction=False)
        for _ in range(len(WIDTHS) * PAIRS_A_WORKER + 200):
            pipeline.xadd(f"queue:{site}", {"command": command})
        pipeline.execute()


def _rates(port: int, tokens: list[str]) -> dict[int, float]:
    os.sched_setaffinity(0, {int(CLIENT_CORE)})
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return {
                width: runner.run(collect(port, tokens[:width], min(PAIRS, width * PAIRS_A_WORKER))) for width in WIDTHS
            }
    finally:
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
