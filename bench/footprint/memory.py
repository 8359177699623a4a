"""Resident memory of what a server keeps for each device and connection, and what a start reads of a large fleet.

The parts of a device are measured in one process that fills the server's own structures; connections and starts are
those of a server under `restante serve`, or of one whose caches are filled (warm_server.py).
"""

import asyncio
import json
import os
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from itertools import pairwise
from pathlib import Path

import uvloop

from bench.data import device_data
from bench.polls.idle_poll import warm_server
from bench.polls.parked import Client, ResponseCounter
from bench.tools.processes import CLIENT_CORE, SERVER_CORE, free_port, pinned, resident_bytes, serve_command
from bench.wire.tls import certificate_files
from restante.identity.callers import DeviceCaller
from restante.server.app import opened
from restante.server.config.settings import Settings

DEVICES = int(os.environ.get("BENCH_DEVICES", "1000000"))
FEW_DEVICES = 1_000
STARTS = 3
PLAIN_CONNECTIONS = 10_000
TLS_CONNECTIONS = 2_000
# The length of an access token with a key id of 43 characters.
TOKEN_BYTES = 341


def memory() -> dict[str, float]:
    return {**_of_devices(DEVICES), **_of_connections(), **_of_starts(DEVICES)}


def _of_devices(devices: int) -> dict[str, float]:
    command = ["taskset", "-c", SERVER_CORE, sys.executable, "-m", "bench.footprint.memory", str(devices)]
    figures: dict[str, float] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    return figures


def fill(devices: int) -> dict[str, float]:
    """Fill the structures of a node that runs no service, one kind after the other, as polls of all devices do."""
    with tempfile.TemporaryDirectory() as folder, opened(Settings(data=Path(folder), poll_burst=1000)) as node:
        poll, tokens = node.updates.poll, node.identity.device_tokens
        until = time.time() + 86_000
        ids = list(range(1_000_000, 1_000_000 + devices))
        steps = [resident_bytes(os.getpid())]
        for device_id in ids:
            # An own time for each, as tokens have.
            tokens.remember(os.urandom(TOKEN_BYTES), DeviceCaller(device_id, device_id + 1, until + device_id), until)
        steps.append(resident_bytes(os.getpid()))
        first_ms = int(time.time() * 1000)
        for number, device_id in enumerate(ids):
            poll.waiters.advance(device_id, b"%d-%d" % (first_ms + number, number))
        steps.append(resident_bytes(os.getpid()))
        for number, device_id in enumerate(ids):
            if poll.admit_idle(device_id, b"%d-%d" % (first_ms + number, number)) is None:
                raise RuntimeError("the poll was not idle")
        steps.append(resident_bytes(os.getpid()))
    integer = sys.getsizeof(ids[0])  # of each device's id, which was there before
    parts = [(after - before) / devices for before, after in pairwise(steps)]
    parts[0] += integer
    return {
        "devices": devices,
        "bytes per cached token": parts[0],
        "bytes per known end of a log": parts[1],
        "bytes per device that polled a moment ago": parts[2],
        "bytes per known device with token": parts[0] + parts[1],
        "KiB per known device with token, just polled": sum(parts) / 1024,
    }


def _of_connections() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name, ExitStack() as opened_files:
        folder = Path(name)
        files = certificate_files(folder)
        figures = {}
        for kind, count, tls in (("plain", PLAIN_CONNECTIONS, ()), ("TLS", TLS_CONNECTIONS, files)):
            server = opened_files.enter_context(_folder_server(folder / kind, count, *tls))
            os.sched_setaffinity(0, {int(CLIENT_CORE)})
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                idle, parked = runner.run(_connected(*server, _client_context() if tls else None))
            os.sched_setaffinity(0, {0, 1})
            figures[f"KiB per idle connection, {kind}"] = idle / 1024
            figures[f"KiB per parked poll, {kind}"] = parked / 1024
    return figures


def _folder_server(folder: Path, devices: int, *tls: Path) -> AbstractContextManager[tuple[int, int, Path]]:
    folder.mkdir()
    return warm_server(folder, devices, devices, *tls)


def _client_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def _connected(pid: int, port: int, token_file: Path, context: ssl.SSLContext | None) -> tuple[float, float]:
    """The resident bytes of a connection between two polls, and of one with a parked poll."""
    loop = asyncio.get_running_loop()
    tokens = token_file.read_text().split()
    responses = ResponseCounter()
    before = resident_bytes(pid)
    clients: list[Client] = []
    for token in tokens:
        _, client = await loop.create_connection(partial(Client, token, responses), "127.0.0.1", port, ssl=context)
        clients.append(client)
    answered = responses.expect(len(clients))
    for client in clients:
        client.transport.write(client.idle)
    await answered
    idle = resident_bytes(pid)
    for client in clients:
        client.transport.write(client.waiting)
    await asyncio.sleep(3)
    parked = resident_bytes(pid)
    for client in clients:
        client.transport.abort()
    return (idle - before) / len(clients), (parked - before) / len(clients)


def _of_starts(devices: int) -> dict[str, float]:
    """What a server reads and needs until it has answered a first poll, with few devices and with many."""
    few, many = [], []
    with tempfile.TemporaryDirectory() as name:
        folders = {}
        for count in (FEW_DEVICES, devices):
            data = device_data.prepare(Path(name) / str(count), count)
            folders[count] = data.path, asyncio.run(device_data.mint(data, [count]))[0].encode()
        _started(*folders[FEW_DEVICES])  # makes the keys, and reads the program into the page cache
        _started(*folders[devices])
        for _ in range(STARTS):
            few.append(_started(*folders[FEW_DEVICES]))
            many.append(_started(*folders[devices]))
    medians = [[statistics.median(column) for column in zip(*rows, strict=True)] for rows in (few, many)]
    (few_seconds, few_read, few_bytes), (many_seconds, many_read, many_bytes) = medians
    return {
        "start with 1,000 devices: seconds to the first answer": few_seconds,
        f"start with {devices:,} devices: seconds to the first answer": many_seconds,
        "start: more KiB read with many devices": (many_read - few_read) / 1024,
        "start: resident MiB with 1,000 devices": few_bytes / 2**20,
        "start: more resident KiB with many devices": (many_bytes - few_bytes) / 1024,
    }


def _started(data: Path, token: bytes) -> tuple[float, int, int]:
    """Seconds to the answer of one poll, bytes read by system calls, resident bytes."""
    port = free_port()
    started = time.perf_counter()
    with pinned(SERVER_CORE, serve_command(data, port, "--log-level", "error"), port) as pid:
        with socket.create_connection(("127.0.0.1", port)) as wire:
            head = b"GET /apiv1/devices/self/updates HTTP/1.1\r\nHost: localhost\r\nIf-None-Match: 0-0\r\n"
            wire.sendall(head + b"Authorization: Bearer " + token + b"\r\n\r\n")
            response = wire.recv(4096)
        seconds = time.perf_counter() - started
        if not response.startswith(b"HTTP/1.1 204"):
            raise RuntimeError(repr(response))
        return seconds, _bytes_read(pid), resident_bytes(pid)


def _bytes_read(pid: int) -> int:
    fields = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
    return int(fields["rchar"])


if __name__ == "__main__":
    print(json.dumps(fill(int(sys.argv[1]))))
