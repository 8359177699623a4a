"""Processes a benchmark starts: pinned to a core, on loopback, ended by their own id."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

SERVER_CORE = "0"
CLIENT_CORE = "1"


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@contextmanager
def pinned(
    core: str, command: Sequence[str], port: int, environment: Mapping[str, str] | None = None, log: Path | None = None
) -> Iterator[int]:
    """Run a command on one core until the block ends; its process id, once it listens."""
    with open(log or os.devnull, "wb") as output:
        process = subprocess.Popen(
            ["taskset", "-c", core, *command], stdout=output, stderr=output, env={**os.environ, **(environment or {})}
        )
    try:
        wait_for_port(port, process)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)


def wait_for_port(port: int, process: "subprocess.Popen[bytes]", seconds: float = 600) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if process.poll() is not None:
            sys.exit(f"a process that was to be measured ended with {process.returncode}: {process.args!r}")
        with socket.socket() as sock:
            if sock.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    sys.exit("a process that was to be measured did not listen in time")


def resident_bytes(pid: int) -> int:
    """The process's own memory: what it shares with nobody is what it costs."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) * 1024
    raise ValueError("no Rss in smaps_rollup")
