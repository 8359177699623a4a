"""Ten thousand parked long polls: what each costs in memory, and how long it takes to wake them all.

The waking is compared with as many idle polls over the same connections: both from the first thing that happens (the
commit is heard; the first request is sent) to the last answer in the client's hands.
"""

import asyncio
import os
import signal
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import uvloop

from bench.idle_poll import warm_server
from bench.processes import CLIENT_CORE, resident_bytes

POLLS = 10_000
RUNS = 5
HEADERS = "HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nIf-None-Match: 0-0\r\n\r\n"


class _Client(asyncio.Protocol):
    """One device's connection: counts what it is answered."""

    def __init__(self, token: str, done: "_Answers") -> None:
        self.idle = ("GET /apiv1/devices/self/updates " + HEADERS % token).encode()
        self.waiting = ("GET /apiv1/devices/self/updates?wait=30 " + HEADERS % token).encode()
        self._done = done

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._done.count(data)


class _Answers:
    def __init__(self) -> None:
        self.statuses: dict[bytes, int] = {}
        self._wanted = 0
        self._all: asyncio.Future[float] | None = None

    def expect(self, wanted: int) -> "asyncio.Future[float]":
        self.statuses.clear()
        self._wanted, self._all = wanted, asyncio.get_running_loop().create_future()
        return self._all

    def count(self, data: bytes) -> None:
        status = data[9:12]
        self.statuses[status] = self.statuses.get(status, 0) + 1
        self._wanted -= 1
        if self._wanted == 0 and self._all is not None:
            self._all.set_result(time.monotonic())


async def _measure(pid: int, port: int, tokens: list[str], heard: Path) -> dict[str, float]:
    loop = asyncio.get_running_loop()
    answers = _Answers()
    before = resident_bytes(pid)
    clients = []
    for token in tokens:
        _, client = await loop.create_connection(partial(_Client, token, answers), "127.0.0.1", port)
        clients.append(client)
    idle_times = []
    for _ in range(3):
        finished = answers.expect(POLLS)
        started = time.monotonic()
        for client in clients:
            client.transport.write(client.idle)
        idle_times.append(await finished - started)
        assert answers.statuses == {b"204": POLLS}, answers.statuses
    connected = resident_bytes(pid)
    finished = answers.expect(POLLS)
    for client in clients:
        client.transport.write(client.waiting)
    await asyncio.sleep(3)
    parked = resident_bytes(pid)
    os.kill(pid, signal.SIGUSR1)
    last = await asyncio.wait_for(finished, 60)
    assert answers.statuses == {b"200": POLLS}, answers.statuses
    woken = last - float(heard.read_text())
    return {
        "resident KiB per connection that polled": (connected - before) / POLLS / 1024,
        "resident KiB per parked poll": (parked - before) / POLLS / 1024,
        "seconds for 10,000 idle polls (best of 3)": min(idle_times),
        "seconds to wake 10,000": woken,
        "ratio of the two": woken / min(idle_times),
    }


def parked_polls() -> dict[str, float]:
    """The median of several runs: one run is a fraction of a second long."""
    runs = [_one_run() for _ in range(RUNS)]
    return {label: statistics.median(run[label] for run in runs) for label in runs[0]}


def _one_run() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name, warm_server(Path(name), POLLS, POLLS) as (pid, port, token_file):
        os.sched_setaffinity(0, {int(CLIENT_CORE)})
        heard = Path(name) / "data" / "heard"
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_measure(pid, port, token_file.read_text().split(), heard))
