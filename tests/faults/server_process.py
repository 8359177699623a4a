"""Real server processes for the fault tests: started on loopback, waited for, and ended by their own id."""

import http.client
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from restante.cli.opening import opened_in
from restante.database.connection import Connection
from restante.identity import api_keys, users
from restante.identity.callers import Role
from restante.server.data_folder import DataFolder

PROGRAM = str(Path(sys.executable).with_name("restante"))
REPOSITORY = Path(__file__).parents[2]
PATIENCE_SECONDS = 30.0
# Under the range the kernel takes clients' ports from: a client that knocks again and again at a closed port
# of that range ends up connected to itself.
PORTS = range(20_000, 32_000)

# What is tested here is not the pacing of devices.
UNPACED = ("--poll-rate-per-second", "100000", "--poll-burst", "1000000")


def environment() -> dict[str, str]:
    """Without settings, and as servers are run: what was compiled once is not compiled at every start."""
    left_out = "PYTHONDONTWRITEBYTECODE"
    return {name: value for name, value in os.environ.items() if not name.startswith(("RESTANTE_", left_out))}


def free_port() -> int:
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


class ServerProcess:
    """A server on one data folder and one port, through as many lives as a test wants."""

    def __init__(self, data: Path, *flags: str, command: tuple[str, ...] = (PROGRAM,)) -> None:
        self.data = data
        self.port = free_port()
        self.command = command
        self.log_path = data.parent / f"{data.name}.log"
        self._flags = flags
        self._process: subprocess.Popen[bytes] | None = None
        # From when to when it was being killed, each time.
        self.deaths: list[tuple[float, float]] = []

    def start(self) -> None:
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.command, "serve", "--data", str(self.data), "--listen", f"127.0.0.1:{self.port}", *self._flags],
                stdout=log,
                stderr=log,
                cwd=REPOSITORY,
                env=environment(),
            )

    @property
    def process(self) -> "subprocess.Popen[bytes]":
        assert self._process is not None, "the server was never started"
        return self._process

    @property
    def pid(self) -> int:
        return self.process.pid

    def workers(self) -> list[int]:
        """The processes it has started."""
        return [int(pid) for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]

    def wait_until_ready(self, within_seconds: float = PATIENCE_SECONDS) -> None:
        deadline = time.monotonic() + within_seconds
        while time.monotonic() < deadline and self.process.poll() is None:
            if self._is_ready():
                return
            time.sleep(0.01)
        raise AssertionError(f"the server is not ready, exit code {self.process.poll()}: {self.log_text()[-2000:]}")

    def kill(self) -> None:
        """SIGKILL: nothing is flushed, nothing is said."""
        before = time.monotonic()
        self.process.kill()
        self.process.wait(PATIENCE_SECONDS)
        self.deaths.append((before, time.monotonic()))

    def tell(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait_for_exit(self, within_seconds: float = PATIENCE_SECONDS) -> int:
        return self.process.wait(within_seconds)

    def end(self) -> None:
        """Whatever it is doing, it is over after this, as are those it has started: `faketime` outlives nobody."""
        if self._process is not None and self._process.poll() is None:
            started = self.workers()
            self.kill()
            for pid in started:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def log_text(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def metric(self, name: str) -> float:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        try:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        finally:
            connection.close()
        return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(f"{name} "))

    def wait_for_metric(self, name: str, least: float) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.metric(name) < least:
            assert time.monotonic() < deadline, f"{name} does not reach {least}"
            time.sleep(0.02)

    def _is_ready(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()


@contextmanager
def running(data: Path, *flags: str, command: tuple[str, ...] = (PROGRAM,)) -> Iterator[ServerProcess]:
    """A server that is ready, and surely gone after the block."""
    server = ServerProcess(data, *flags, command=command)
    try:
        server.start()
        server.wait_until_ready()
        yield server
    finally:
        server.end()


class Finished(NamedTuple):
    code: int
    output: str
    complaint: str


def run_command(data: Path, *args: str, stdin: str = "", within_seconds: float = PATIENCE_SECONDS) -> Finished:
    """A command of the installed program, as a process of its own."""
    done = subprocess.run(
        [PROGRAM, *args, "--data", str(data)],
        input=stdin,
        capture_output=True,
        text=True,
        env=environment(),
        timeout=within_seconds,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


class Prepared(NamedTuple):
    """A data folder with a user and a program that may do everything."""

    data: Path
    user_id: int
    key: str


def prepare(data: Path) -> Prepared:
    with opened_in(DataFolder(data)) as database:
        user_id, key = database.write_now(_add_user_and_key)
    return Prepared(data, user_id, key)


def _add_user_and_key(conn: Connection) -> tuple[int, str]:
    user_id = users.add(conn, "owner@example.com", "no hash", Role.admin)
    _key_id, key = api_keys.create(conn, "faults", Role.admin)
    return user_id, key
