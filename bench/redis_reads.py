"""Polls with Redis in front of the log: reading twenty signals through it against redis-benchmark's XRANGE of them, and
the idle poll with Redis, and with PostgreSQL and Redis, against the one of the embedded database alone."""

import asyncio
import re
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench import prepared
from bench.load import CONNECTIONS, requests_per_second
from bench.processes import CLIENT_CORE, SERVER_CORE, free_port, pinned
from bench.queues import DURABLE
from bench.shared import UNPACED, Shared
from restante.server.roles import ROLES
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
    """A server whose devices have so many signals; port, file of tokens, and the cursor before the last twenty."""
    data = prepared.prepare(folder / "data", DEVICES)
    tokens = folder / "tokens"
    tokens.write_text("\n".join(asyncio.run(prepared.mint(data, range(1, DEVICES + 1)))) + "\n")
    if signals:
        prepared.fill_log(data.database_path, range(1, DEVICES + 1), signals)
    port = free_port()
    listen = ["--data", str(data.path), "--listen", f"127.0.0.1:{port}"]
    command = [str(Path(sys.executable).with_name("restante")), "serve", *listen, *UNPACED]
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
        requests_per_second(port, tokens, 2, path, "behind.lua")
        before = _hits(port)
        for _ in range(ROUNDS):
            theirs.append(_xranges_per_second(redis_port, cursor))
            ours.append(requests_per_second(port, tokens, SECONDS, path, "behind.lua"))
        share = (_hits(port) - before) / (sum(ours) * SECONDS)
    return {
        "redis-benchmark XRANGE of 20, per second (median)": statistics.median(theirs),
        "polls for 20 signals over HTTP, per second (median)": statistics.median(ours),
        "ratio (median of rounds)": statistics.median(our / their for our, their in zip(ours, theirs, strict=True)),
        "share of polls read from Redis": share,
    }


def idle_poll() -> dict[str, float]:
    """Idle polls of three servers, in turn: the embedded database alone, with Redis, and PostgreSQL with Redis. What
    the last asks of Redis and PostgreSQL meanwhile is counted there; it is asked once a second, and not by polls."""
    rates: dict[str, list[float]] = {"embedded": [], "embedded, Redis": [], "PostgreSQL, Redis": []}
    with (
        tempfile.TemporaryDirectory() as one,
        tempfile.TemporaryDirectory() as other,
        redis(Path(one)) as redis_port,
        postgres_server(*DURABLE) as postgres,
        server(Path(other), 0, None) as (plain_port, plain_tokens, _),
        server(Path(one), 0, redis_port) as (port, tokens, _),
        _on_postgres(postgres, Path(one), redis_port) as (shared, shared_port, shared_tokens),
    ):
        polled = list(
            zip(rates, ((plain_port, plain_tokens), (port, tokens), (shared_port, shared_tokens)), strict=True)
        )
        for _, (each_port, each_tokens) in polled:
            requests_per_second(each_port, each_tokens, 1)
        commands, transactions = [], []
        for _ in range(ROUNDS):
            for name, (each_port, each_tokens) in polled:
                before = _commands(redis_port), shared.transactions()
                rates[name].append(requests_per_second(each_port, each_tokens, SECONDS))
                if each_port == shared_port:
                    polls = rates[name][-1] * SECONDS
                    commands.append((_commands(redis_port) - before[0]) / polls)
                    transactions.append((shared.transactions() - before[1]) / polls)
    plain = rates["embedded"]
    return {
        **{f"idle polls/s, {name} (median)": statistics.median(found) for name, found in rates.items()},
        **{
            f"{name}: ratio to embedded (median of rounds)": statistics.median(
                ours / theirs for ours, theirs in zip(found, plain, strict=True)
            )
            for name, found in list(rates.items())[1:]
        },
        "commands of Redis for each poll": max(commands),
        "transactions of PostgreSQL for each poll": max(transactions),
    }


@contextmanager
def _on_postgres(postgres: PostgresServer, folder: Path, redis_port: int) -> Iterator[tuple[Shared, int, Path]]:
    shared = Shared(postgres, folder / "shared", DEVICES)
    tokens = folder / "shared-tokens"
    tokens.write_text("\n".join(asyncio.run(shared.mint())) + "\n")
    with shared.serving(",".join(ROLES), SERVER_CORE, redis_port) as (port, _):
        yield shared, port, tokens


def _commands(port: int) -> int:
    """How many commands Redis has been given so far."""
    said = subprocess.run(
        ["redis-cli", "-p", str(port), "INFO", "stats"], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"total_commands_processed:(\d+)", said)
    return int(found[1]) if found else 0


def _xranges_per_second(port: int, cursor: str) -> float:
    command = ["redis-benchmark", "-p", str(port), "-c", str(CONNECTIONS), "-n", "100000", "--csv"]
    asked = ["XRANGE", "device:updates:1", f"({cursor}", "+", "COUNT", str(SIGNALS)]
    done = subprocess.run(
        ["taskset", "-c", CLIENT_CORE, *command, *asked], capture_output=True, text=True, check=True
    ).stdout
    return float(done.splitlines()[-1].split('","')[1].strip('"'))


def _cursor(database: Path) -> str:
    with sqlite3.connect(database) as conn:
        row = conn.execute("SELECT ms, n FROM device_update_log WHERE device_id = 1 ORDER BY n LIMIT 1").fetchone()
    conn.close()
    return f"{row[0]}-{row[1]}" if row else "0-0"


def _hits(port: int) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
        text = answer.read().decode()
    found = re.search(r'restante_redis_reads_total\{outcome="hit"\} ([\d.e+]+)', text)
    return float(found[1]) if found else 0.0
