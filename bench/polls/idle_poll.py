"""The idle poll compared with nginx: one worker on one core each, the same client, interleaved rounds."""

import asyncio
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.data import device_data
from bench.tools.load import nginx, requests_per_second
from bench.tools.processes import SERVER_CORE, free_port, pinned

ROUNDS = 5
SECONDS = 5
# The system calls of a poll: read a request from a socket, write the response, wait for the next.
SOCKET_CALLS = {"epoll_wait", "epoll_pwait", "epoll_ctl", "read", "recvfrom", "write", "sendto", "sendmsg"}


@contextmanager
def warm_server(folder: Path, tokens: int, known: int, *tls: Path) -> Iterator[tuple[int, int, Path]]:
    """Run a server with so many devices in memory; yields process id, port, and the file with the tokens of the first
    devices. `tls`: certificate and key."""
    data = device_data.prepare(folder / "data", known)
    token_file = folder / "tokens"
    token_file.write_text("\n".join(asyncio.run(device_data.mint(data, range(1, tokens + 1)))) + "\n")
    port = free_port()
    command = [sys.executable, "-m", "bench.tools.warm_server", str(data.path), str(port), str(token_file), str(known)]
    command += map(str, tls)
    with pinned(SERVER_CORE, command, port, log=folder / "server.log") as pid:
        yield pid, port, token_file


def against_nginx(tokens: int = 100_000) -> dict[str, float]:
    ratios, ours, theirs = [], [], []
    with (
        tempfile.TemporaryDirectory() as name,
        nginx(Path(name)) as reference,
        warm_server(Path(name), tokens, tokens) as (_, port, token_file),
    ):
        requests_per_second(port, token_file, 2)
        for _ in range(ROUNDS):
            theirs.append(requests_per_second(reference, token_file, SECONDS))
            ours.append(requests_per_second(port, token_file, SECONDS))
            ratios.append(ours[-1] / theirs[-1])
    return {
        "nginx requests/s (median)": statistics.median(theirs),
        "restante requests/s (median)": statistics.median(ours),
        "ratio (median of rounds)": statistics.median(ratios),
        "ratio (lowest round)": min(ratios),
        "ratio (highest round)": max(ratios),
    }


def by_fleet_size(small: int = 1_000, large: int = 1_000_000, tokens: int = 100_000) -> dict[str, float]:
    """The rate with a million devices in memory compared with a thousand, in interleaved rounds."""
    with (
        tempfile.TemporaryDirectory() as few,
        tempfile.TemporaryDirectory() as many,
        warm_server(Path(few), small, small) as (_, few_port, few_tokens),
        warm_server(Path(many), tokens, large) as (_, many_port, many_tokens),
    ):
        pairs = [
            (
                requests_per_second(few_port, few_tokens, SECONDS),
                requests_per_second(many_port, many_tokens, SECONDS),
            )
            for _ in range(ROUNDS)
        ]
    return {
        f"requests/s, {small:,} devices (median)": statistics.median(pair[0] for pair in pairs),
        f"requests/s, {large:,} devices (median)": statistics.median(pair[1] for pair in pairs),
        "ratio (median of rounds)": statistics.median(many / few for few, many in pairs),
    }


def system_calls(tokens: int = 1_000) -> dict[str, float]:
    """The system calls of an idle poll, counted by strace: only calls on its socket."""
    with tempfile.TemporaryDirectory() as name, warm_server(Path(name), tokens, tokens) as (pid, port, token_file):
        requests_per_second(port, token_file, 1)
        # Trace only the main thread, which runs the event loop: writer and reader threads do not serve polls.
        counts = Path(name) / "strace"
        tracer = subprocess.Popen(["strace", "-c", "-o", str(counts), "-p", str(pid)], stderr=subprocess.DEVNULL)
        time.sleep(1)
        rate = requests_per_second(port, token_file, 3)
        tracer.send_signal(2)
        tracer.wait(timeout=30)
        table = re.findall(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)(?:\s+\d+)?\s+(\w+)$", counts.read_text(), re.MULTILINE)
    calls = {name: int(count) for count, name in table if name != "total"}
    polls = rate * 3
    other = {name: count for name, count in calls.items() if name not in SOCKET_CALLS}
    return {
        "polls traced (about)": polls,
        **{f"{name} per poll": count / polls for name, count in sorted(calls.items()) if name in SOCKET_CALLS},
        "other calls in all": sum(other.values()),
        **{f"  of these {name}": count for name, count in sorted(other.items())},
    }
