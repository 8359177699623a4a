"""Idle polls, and long polls that a publish wakes, against each server with the same client."""

import asyncio
import os
import re
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import uvloop

from bench.peers.servers import PollServer
from bench.tools.load import load
from bench.tools.processes import CLIENT_CORE, cpu_seconds

ROUNDS, SECONDS = 3, 3
LATENCIES = 100
WOKEN = 1000
PUBLISHERS = 16
PARK_SECONDS = 0.02
BODY = b'{"type":"bench.wake","ref":{"config_id":1234,"version":6}}'
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


def idle(servers: Sequence[PollServer], folder: Path) -> list[dict[str, Any]]:
    """Rounds in turn. CPU time is that of the server and of what it uses, for a poll."""
    targets = {}
    for server in servers:
        targets[server.name] = folder / f"targets-{server.port}"
        targets[server.name].write_text(server.idle_targets())
        _load(server, targets[server.name], 2)
    found: dict[str, list[tuple[float, float]]] = {server.name: [] for server in servers}
    for _ in range(ROUNDS):
        for server in servers:
            before = cpu_seconds(server.pids)
            sent = _load(server, targets[server.name], SECONDS)
            cpu = (cpu_seconds(server.pids) - before) / sent.requests * 1e6
            found[server.name].append((sent.per_second, cpu))
    return [{"name": server.name, "durability": server.durability, **_spread(found[server.name])} for server in servers]


def _load(server: PollServer, targets: Path, seconds: int) -> Any:
    script = str(Path(__file__).with_name("poll.lua"))
    return load(server.port, targets, seconds, script=script, environment={"TARGETS": str(targets)})


def _spread(rounds: list[tuple[float, float]]) -> dict[str, float]:
    rates = [rate for rate, _cpu in rounds]
    return {
        "per_second": statistics.median(rates),
        "lowest": min(rates),
        "highest": max(rates),
        "cpu_microseconds": statistics.median(cpu for _rate, cpu in rounds),
    }


def wake(server: PollServer) -> dict[str, Any]:
    """How long a parked poll waits after a publish, and how many are woken per second by a publish each.

    Every device is used once, as a poll without a cursor gets what was published before.
    """
    os.sched_setaffinity(0, {int(CLIENT_CORE)})
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            latencies = sorted(runner.run(_latencies(server)))
            rate = runner.run(_wakes_per_second(server))
    finally:
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    return {
        "name": server.name,
        "durability": server.durability,
        "milliseconds": statistics.median(latencies),
        "milliseconds_p95": latencies[int(len(latencies) * 0.95)],
        "wakes_per_second": rate,
    }


class _Exchange(asyncio.Protocol):
    """A connection that sends one request after the other, and waits for the response to each."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self._received = b""

    def send(self, request: bytes) -> "asyncio.Future[float]":
        """The time at which the response is complete."""
        self._done: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return self._done

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, gap, body = self._received.partition(b"\r\n\r\n")
        length = _LENGTH.search(head)
        if not gap or (length is not None and len(body) < int(length[1])):
            return
        self._received = b""
        if head[9:10] == b"2" and head[9:12] != b"204":
            self._done.set_result(time.perf_counter())
        else:
            self._done.set_exception(RuntimeError(repr(head + gap + body)))


async def _connect(server: PollServer) -> _Exchange:
    return (await asyncio.get_running_loop().create_connection(_Exchange, "127.0.0.1", server.port))[1]


def _poll_request(server: PollServer, device: int) -> bytes:
    assert server.wait_path is not None
    head = f"GET {server.wait_path.format(device)} HTTP/1.1\r\nHost: localhost\r\n"
    # nchan takes a cursor only together with a time, and waits for the first message without one.
    cursor = "" if server.name == "nchan" else "If-None-Match: 0-0\r\n"
    return (head + f"Authorization: Bearer {server.tokens[device - 1]}\r\n{cursor}\r\n").encode()


def _publish_request(server: PollServer, device: int) -> bytes:
    assert server.publish_path is not None
    head = (
        f"POST {server.publish_path.format(device)} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    )
    head += f"Authorization: Bearer {server.publish_token}\r\nContent-Length: {len(BODY)}\r\n\r\n"
    return head.encode() + BODY


async def _latencies(server: PollServer) -> list[float]:
    found = []
    device, publisher = await _connect(server), await _connect(server)
    for number in range(1, LATENCIES + 1):
        response = device.send(_poll_request(server, number))
        await asyncio.sleep(PARK_SECONDS)
        started = time.perf_counter()
        confirmed = publisher.send(_publish_request(server, number))
        found.append((await asyncio.wait_for(response, 10) - started) * 1000)
        await confirmed
    return found


async def _wakes_per_second(server: PollServer) -> float:
    numbers = range(LATENCIES + 1, LATENCIES + WOKEN + 1)
    devices = [await _connect(server) for _ in numbers]
    publishers = [await _connect(server) for _ in range(PUBLISHERS)]
    responses = [device.send(_poll_request(server, n)) for device, n in zip(devices, numbers, strict=True)]
    await asyncio.sleep(1)
    left = iter(numbers)

    async def publish(connection: _Exchange) -> None:
        for number in left:
            await connection.send(_publish_request(server, number))

    started = time.perf_counter()
    await asyncio.gather(*(publish(connection) for connection in publishers))
    last = max(await asyncio.wait_for(asyncio.gather(*responses), 60))
    for connection in (*devices, *publishers):
        connection.transport.abort()
    return WOKEN / (last - started)
