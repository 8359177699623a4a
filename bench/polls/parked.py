"""Ten thousand parked long polls: the memory of each, and how long it takes to wake them all.

Waking is compared with as many idle polls over the same connections: from the first event (the poll handles the commit;
the first request is sent) to the last response at the client. On a busy machine the CPU time of the event loop's thread
says more; waking includes what the event loop does while the signals are published.
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

from bench.polls.idle_poll import warm_server
from bench.tools.processes import CLIENT_CORE, resident_bytes, thread_seconds

POLLS = 10_000
RUNS = 5
HEADERS = "HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\nIf-None-Match: 0-0\r\n\r\n"


class Client(asyncio.Protocol):
    """The connection of one device; it counts its responses."""

    def __init__(self, token: str, responses: "ResponseCounter") -> None:
        self.idle = ("GET /apiv1/devices/self/updates " + HEADERS % token).encode()
        self.waiting = ("GET /apiv1/devices/self/updates?wait=30 " + HEADERS % token).encode()
        self._responses = responses

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._responses.count(data)


class ResponseCounter:
    def __init__(self) -> None:
        self.statuses: dict[bytes, int] = {}
        self._expected = 0
        self._all: asyncio.Future[float] | None = None

    def expect(self, count: int) -> "asyncio.Future[float]":
        self.statuses.clear()
        self._expected, self._all = count, asyncio.get_running_loop().create_future()
        return self._all

    def count(self, data: bytes) -> None:
        status = data[9:12]
        self.statuses[status] = self.statuses.get(status, 0) + 1
        self._expected -= 1
        if self._expected == 0 and self._all is not None:
            self._all.set_result(time.monotonic())


async def _measure(pid: int, port: int, tokens: list[str], commit_time_file: Path) -> dict[str, float]:
    loop = asyncio.get_running_loop()
    responses = ResponseCounter()
    before = resident_bytes(pid)
    clients = []
    for token in tokens:
        _, client = await loop.create_connection(partial(Client, token, responses), "127.0.0.1", port)
        clients.append(client)
    idle_times, idle_cpu = [], []
    for _ in range(3):
        finished = responses.expect(POLLS)
        started, cpu = time.monotonic(), thread_seconds(pid)
        for client in clients:
            client.transport.write(client.idle)
        idle_times.append(await finished - started)
        idle_cpu.append(thread_seconds(pid) - cpu)
        assert responses.statuses == {b"204": POLLS}, responses.statuses
    connected = resident_bytes(pid)
    finished = responses.expect(POLLS)
    for client in clients:
        client.transport.write(client.waiting)
    await asyncio.sleep(3)
    parked, cpu = resident_bytes(pid), thread_seconds(pid)
    os.kill(pid, signal.SIGUSR1)
    last = await asyncio.wait_for(finished, 60)
    assert responses.statuses == {b"200": POLLS}, responses.statuses
    woken_cpu = thread_seconds(pid) - cpu
    woken = last - float(commit_time_file.read_text())
    return {
        "resident KiB per connection that polled": (connected - before) / POLLS / 1024,
        "resident KiB per parked poll": (parked - before) / POLLS / 1024,
        "seconds for 10,000 idle polls (best of 3)": min(idle_times),
        "seconds to wake 10,000": woken,
        "ratio of the two": woken / min(idle_times),
        "µs of CPU of the event loop for an idle poll": min(idle_cpu) / POLLS * 1e6,
        "µs of CPU of the event loop to wake one": woken_cpu / POLLS * 1e6,
        "ratio of the CPU times": woken_cpu / min(idle_cpu),
    }


def parked_polls() -> dict[str, float]:
    """The median of several runs, because one run takes only a fraction of a second."""
    runs = [_one_run() for _ in range(RUNS)]
    return {label: statistics.median(run[label] for run in runs) for label in runs[0]}


def _one_run() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name, warm_server(Path(name), POLLS, POLLS) as (pid, port, token_file):
        os.sched_setaffinity(0, {int(CLIENT_CORE)})
        commit_time_file = Path(name) / "data" / "commit-time"
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_measure(pid, port, token_file.read_text().split(), commit_time_file))
