"""Polls with Redis in front of the log: reading twenty signals compared with XRANGE of redis-benchmark; and the idle
poll with Redis, and with PostgreSQL and Redis, compared with the embedded database alone."""

import asyncio
import re
import sqlite3
import statistics
import subprocess
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.commands.queues import DURABLE
from bench.data import device_data
from bench.tools.load import CONNECTIONS, requests_per_second
from bench.tools.postgres_deployment import NO_RATE_LIMIT, PostgresDeployment
from bench.tools.processes import CLIENT_CORE, SERVER_CORE, free_port, pinned, serve_command
from restante.server.cluster.roles import ROLES
from tests.services.postgres import PostgresServer, postgres_server

ROUNDS = 5
SECONDS = 4
DEVICES = 64
SIGNALS = 20
BOTH_CORES = f"{SERVER_CORE},{CLIENT_CORE}"


@contextmanager
def redis(folder: Path) -> Iterator[int]:
    port = free_port()
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
    with pinned(BOTH_CORES, command, port):
        yield port


@contextmanager
def server(folder: Path, signals: int, redis_port: int | None) -> Iterator[tuple[int, Path, str]]:
    """Run a server whose devices have so many signals; yields port, token file, and the cursor before the last 20."""
    data = device_data.prepare(folder / "data", DEVICES)
    tokens = folder / "tokens"
    tokens.write_text("\n".join(asyncio.run(device_data.mint(data, range(1, DEVICES + 1)))) + "\n")
    if signals:
        device_data.fill_log(data.database_path, range(1, DEVICES + 1), signals)
    port = free_port()
    command = serve_command(data.path, port, *NO_RATE_LIMIT)
    environment = {} if redis_port is None else {"REDIS_URL": f"redis://127.0.0.1:{redis_port}"}
    with pinned(SERVER_CORE, command, port, environment, folder / "log"):
        yield port, tokens, _cursor(data.database_path)


def reading_twenty() -> dict[str, float]:
    ours, theirs = [], []
    with (
        tempfile.TemporaryDirectory() as name,
        redis(Path(name)) as redis_port,
        server(Path(name), SIGNALS + 1, redis_port) as (port, tokens, cursor),
    ):
        path = f"/apiv1/devices/self/updates?cursor={cursor}&limit={SIGNALS}"
        requests_per_second(port, tokens, 2, path, "read_signals.lua")
        before = _hits(port)
        for _ in range(ROUNDS):
            theirs.append(_xranges_per_second(redis_port, cursor))
            ours.append(requests_per_second(port, tokens, SECONDS, path, "read_signals.lua"))
        share = (_hits(port) - before) / (sum(ours) * SECONDS)
    return {
        "redis-benchmark XRANGE of 20, per second (median)": statistics.median(theirs),
        "polls for 20 signals over HTTP, per second (median)": statistics.median(ours),
        "ratio (median of rounds)": statistics.median(our / their for our, their in zip(ours, theirs, strict=True)),
        "share of polls read from Redis": share,
    }


def idle_poll() -> dict[str, float]:
    """Idle polls of three servers, in turn: the embedded database alone, with Redis, and PostgreSQL with Redis. The
    commands of Redis and transactions of PostgreSQL are counted for the last; timers cause them, not polls."""
    rates: dict[str, list[float]] = {"embedded": [], "embedded, Redis": [], "PostgreSQL, Redis": []}
    with (
        tempfile.TemporaryDirectory() as one,
        tempfile.TemporaryDirectory() as other,
        redis(Path(one)) as redis_port,
        postgres_server(*DURABLE) as postgres,
        server(Path(other), 0, None) as (plain_port, plain_tokens, _),
        server(Path(one), 0, redis_port) as (port, tokens, _),
        _on_postgres(postgres, Path(one), redis_port) as (deployment, postgres_port, postgres_tokens),
    ):
        servers = list(
            zip(rates, ((plain_port, plain_tokens), (port, tokens), (postgres_port, postgres_tokens)), strict=True)
        )
        for _, (each_port, each_tokens) in servers:
            requests_per_second(each_port, each_tokens, 1)
        commands, transactions = [], []
        for _ in range(ROUNDS):
            for name, (each_port, each_tokens) in servers:
                before = _commands(redis_port), deployment.transactions()
                rates[name].append(requests_per_second(each_port, each_tokens, SECONDS))
                if each_port == postgres_port:
                    polls = rates[name][-1] * SECONDS
                    commands.append((_commands(redis_port) - before[0]) / polls)
                    transactions.append((deployment.transactions() - before[1]) / polls)
    plain = rates["embedded"]
    return {
        **{f"idle polls/s, {name} (median)": statistics.median(each) for name, each in rates.items()},
        **{
            f"{name}: ratio to embedded (median of rounds)": statistics.median(
                ours / theirs for ours, theirs in zip(each, plain, strict=True)
            )
            for name, each in list(rates.items())[1:]
        },
        "commands of Redis for each poll": max(commands),
        "transactions of PostgreSQL for each poll": max(transactions),
    }


@contextmanager
def _on_postgres(
    postgres: PostgresServer, folder: Path, redis_port: int
) -> Iterator[tuple[PostgresDeployment, int, Path]]:
    deployment = PostgresDeployment(postgres, folder / "postgres", DEVICES)
    tokens = folder / "postgres-tokens"
    tokens.write_text("\n".join(asyncio.run(deployment.mint())) + "\n")
    with deployment.serving(",".join(ROLES), SERVER_CORE, redis_port) as (port, _):
        yield deployment, port, tokens


def _commands(port: int) -> int:
    """The number of commands that Redis has processed so far."""
    output = subprocess.run(
        ["redis-cli", "-p", str(port), "INFO", "stats"], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"total_commands_processed:(\d+)", output)
    return int(found[1]) if found else 0


def _xranges_per_second(port: int, cursor: str) -> float:
    command = ["redis-benchmark", "-p", str(port), "-c", str(CONNECTIONS), "-n", "100000", "--csv"]
    query = ["XRANGE", "device:updates:1", f"({cursor}", "+", "COUNT", str(SIGNALS)]
    output = subprocess.run(
        ["taskset", "-c", CLIENT_CORE, *command, *query], capture_output=True, text=True, check=True
    ).stdout
    return float(output.splitlines()[-1].split('","')[1].strip('"'))


def _cursor(database: Path) -> str:
    with sqlite3.connect(database) as conn:
        row = conn.execute("SELECT ms, n FROM device_update_log WHERE device_id = 1 ORDER BY n LIMIT 1").fetchone()
    conn.close()
    return f"{row[0]}-{row[1]}" if row else "0-0"


def _hits(port: int) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as response:
        text = response.read().decode()
    found = re.search(r'restante_redis_reads_total\{outcome="hit"\} ([\d.e+]+)', text)
    return float(found[1]) if found else 0.0
