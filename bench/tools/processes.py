"""Start the processes of a benchmark: pinned to a core, on loopback, ended by their process id."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

SERVER_CORE = "0"
CLIENT_CORE = "1"


def serve_command(folder: Path, port: int, *flags: str) -> list[str]:
    """The command that serves a data folder on a port of loopback."""
    program = str(Path(sys.executable).with_name("restante"))
    return [program, "serve", "--data", str(folder), "--listen", f"127.0.0.1:{port}", *flags]


def cpu_seconds(pids: Iterable[int], *, with_ended_children: bool = False) -> float:
    """The CPU time that the processes have used, optionally with that of their ended children."""
    end = 15 if with_ended_children else 13
    return sum(sum(map(int, process_stat(pid)[11:end])) for pid in pids) / os.sysconf("SC_CLK_TCK")


def scheduled_seconds(pid: int) -> float:
    """The CPU time that the threads of the process have used, more precise than `cpu_seconds`. Threads that have ended
    do not count."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9


def thread_seconds(pid: int) -> float:
    """The CPU time that the main thread of the process has used."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9


def process_stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name of the program."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


@contextmanager
def pinned(
    core: str, command: Sequence[str], port: int, environment: Mapping[str, str] | None = None, log: Path | None = None
) -> Iterator[int]:
    """Run a command on one core until the block ends; yields its process id when it listens."""
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
            sys.exit(f"the measured process ended with {process.returncode}: {process.args!r}")
        with socket.socket() as sock:
            if sock.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    sys.exit("the measured process did not listen in time")


def resident_bytes(pid: int) -> int:
    """The resident memory of the process."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) * 1024
    raise ValueError("no Rss in smaps_rollup")
