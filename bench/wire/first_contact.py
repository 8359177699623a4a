"""The first polls of devices after a restart: nothing is known, neither their tokens nor the ends of their logs."""

import asyncio
import os
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvloop

from bench.data import device_data
from bench.tools.fleet import Fleet
from bench.tools.processes import CLIENT_CORE, SERVER_CORE, cpu_seconds, free_port, pinned, serve_command, wait_for_port

DEVICES = int(os.environ.get("BENCH_DEVICES", "100000"))
ROUNDS = 3
CONNECTIONS = 64
# Devices that call at the same time after the restart, and the most connections of the server then.
CALLERS = 2000
CONNECTIONS_MAX = 1000
RESTART_SECONDS_MAX = 60


@contextmanager
def fleet_data(folder: Path, devices: int) -> Iterator[tuple[Path, list[bytes]]]:
    """A data folder with so many devices, and their tokens."""
    data = device_data.prepare(folder / "data", devices)
    yield data.path, [token.encode() for token in asyncio.run(device_data.mint(data, range(1, devices + 1)))]


def _run(fleet: Fleet, seconds_max: float | None = None) -> float:
    os.sched_setaffinity(0, {int(CLIENT_CORE)})
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(fleet.run(seconds_max))
    finally:
        os.sched_setaffinity(0, {0, 1})


def first_polls(devices: int = DEVICES) -> dict[str, float]:
    """The rate of first polls, on connections that stay open and on new ones, beside that of the second polls."""
    figures: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as name, fleet_data(Path(name), devices) as (data, tokens):
        for _ in range(ROUNDS):
            for new_connections in (False, True):
                port = free_port()
                command = serve_command(data, port, "--log-level", "error")
                with pinned(SERVER_CORE, command, port, log=Path(name) / "log") as pid:
                    for poll in ("first", "second"):
                        before = cpu_seconds([pid])
                        fleet = Fleet(port, tokens, CONNECTIONS, new_connections=new_connections)
                        seconds = _run(fleet)
                        label = f"{poll} polls, {'new' if new_connections else 'open'} connections"
                        figures.setdefault(f"{label}: polls/s", []).append(devices / seconds)
                        used = (cpu_seconds([pid]) - before) / devices * 1e6
                        figures.setdefault(f"{label}: µs of CPU a poll", []).append(used)
    return {label: statistics.median(values) for label, values in figures.items()}


def restart(devices: int = DEVICES) -> dict[str, float]:
    """A server is killed and started again under a fleet: when was each device answered?"""
    with tempfile.TemporaryDirectory() as name, fleet_data(Path(name), devices) as (data, tokens):
        port = free_port()
        command = serve_command(data, port, "--log-level", "error", "--connections-max", str(CONNECTIONS_MAX))
        command = ["taskset", "-c", SERVER_CORE, *command]
        log = (Path(name) / "log").open("wb")
        server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_for_port(port, server)
            _run(Fleet(port, tokens, CONNECTIONS, new_connections=False))
            server.send_signal(signal.SIGKILL)
            server.wait()
            killed = time.perf_counter()
            server = subprocess.Popen(command, stdout=log, stderr=log)
            fleet = Fleet(port, tokens, CALLERS, new_connections=True)
            seconds = _run(fleet, RESTART_SECONDS_MAX)
            started = time.perf_counter() - killed - seconds
        finally:
            server.terminate()
            server.wait(timeout=60)
            log.close()
    waits = sorted(fleet.waits)
    told = sum(fleet.retry_after.values())
    return {
        "devices": devices,
        f"devices without an answer within {RESTART_SECONDS_MAX} s": devices - len(waits),
        "seconds from the kill until all were answered": started + seconds,
        "seconds until the first was answered": started + waits[0],
        "devices/s between the first answer and the last": len(waits) / (waits[-1] - waits[0]),
        "wait of a device, median (s)": statistics.median(waits),
        "wait of a device, 99th percentile (s)": waits[int(len(waits) * 0.99)],
        "told to retry (503)": told,
        "different Retry-After (s)": len(fleet.retry_after),
        "largest share of one Retry-After": max(fleet.retry_after.values(), default=0) / max(told, 1),
        "different X-Poll-Interval (s)": len(fleet.intervals),
        "largest share of one X-Poll-Interval": max(fleet.intervals.values(), default=0) / max(len(waits), 1),
    }
