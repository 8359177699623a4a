"""Real server processes for tests: started on loopback, waited for, and ended by their process id."""

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
from dataclasses import dataclass
from pathlib import Path

from restante.cli.database import open_embedded_database
from restante.database.connection import Connection
from restante.identity import api_keys
from restante.identity.callers import Role
from restante.identity.people import users
from restante.server.data_folder import DataFolder

PROGRAM = str(Path(sys.executable).with_name("restante"))
REPOSITORY = Path(__file__).parents[2]
TIMEOUT_SECONDS = 30.0
# Below the kernel's range of ephemeral ports: a client that repeatedly connects to a closed port within that range
# can end up connected to itself.
PORTS = range(20_000, 32_000)

# The poll rate limit of devices is not what these tests are about.
NO_RATE_LIMIT = ("--poll-rate-per-second", "100000", "--poll-burst", "1000000")


def environment() -> dict[str, str]:
    """This process's environment without settings of the server, and with bytecode caching as in production."""
    excluded = ("RESTANTE_", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(excluded)}
    # Nor with the profiles of the person who runs the tests.
    return {**kept, "XDG_CONFIG_HOME": "/nonexistent"}


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
    """A server on one data folder and one port, which can be started and killed many times."""

    def __init__(self, data: Path, *flags: str, command: tuple[str, ...] = (PROGRAM,)) -> None:
        self.data = data
        self.port = free_port()
        self.command = command
        self.log_path = data.parent / f"{data.name}.log"
        self.flags = flags
        self._process: subprocess.Popen[bytes] | None = None
        # The start and the end of each kill.
        self.kills: list[tuple[float, float]] = []

    def start(self) -> None:
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.command, "serve", "--data", str(self.data), "--listen", f"127.0.0.1:{self.port}", *self.flags],
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
        """The ids of its child processes."""
        return [int(pid) for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]

    def wait_until_ready(self, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        deadline = time.monotonic() + timeout_seconds
        while time.monotonic() < deadline and self.process.poll() is None:
            if self._is_ready():
                return
            time.sleep(0.01)
        raise AssertionError(f"the server is not ready, exit code {self.process.poll()}: {self.log_text()[-2000:]}")

    def kill(self) -> None:
        """Kill it with SIGKILL: it flushes and logs nothing."""
        before = time.monotonic()
        self.process.kill()
        self.process.wait(TIMEOUT_SECONDS)
        self.kills.append((before, time.monotonic()))

    def restart(self, *more_flags: str) -> None:
        """Kill it, start it with these flags added, and wait until it is ready."""
        self.kill()
        self.flags = (*self.flags, *more_flags)
        self.start()
        self.wait_until_ready()

    def send_signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait_for_exit(self, timeout_seconds: float = TIMEOUT_SECONDS) -> int:
        return self.process.wait(timeout_seconds)

    def end(self) -> None:
        """Kill the server and its child processes in any state. A wrapper such as `faketime` has a child."""
        if self._process is not None and self._process.poll() is None:
            children = self.workers()
            self.kill()
            for pid in children:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def log_text(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def metric(self, name: str) -> float:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_SECONDS)
        try:
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
        finally:
            connection.close()
        return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(f"{name} "))

    def wait_for_metric(self, name: str, at_least: float) -> None:
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while self.metric(name) < at_least:
            assert time.monotonic() < deadline, f"{name} does not reach {at_least}"
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
def running_server(data: Path, *flags: str, command: tuple[str, ...] = (PROGRAM,)) -> Iterator[ServerProcess]:
    """A ready server, which is killed at the end of the block."""
    server = ServerProcess(data, *flags, command=command)
    try:
        server.start()
        server.wait_until_ready()
        yield server
    finally:
        server.end()


@dataclass(frozen=True, slots=True)
class CommandResult:
    code: int
    output: str
    error: str


def run_command(data: Path, *args: str, stdin: str = "", timeout_seconds: float = TIMEOUT_SECONDS) -> CommandResult:
    """Run a command of the installed program in its own process."""
    done = subprocess.run(
        [PROGRAM, *args, "--data", str(data)],
        input=stdin,
        capture_output=True,
        text=True,
        env=environment(),
        timeout=timeout_seconds,
    )
    return CommandResult(done.returncode, done.stdout, done.stderr)


@dataclass(frozen=True, slots=True)
class PreparedData:
    """A data folder with an admin user and an admin API key."""

    data: Path
    user_id: int
    key: str


def prepare_data(data: Path) -> PreparedData:
    with open_embedded_database(DataFolder(data)) as database:
        user_id, key = database.write_now(add_user_and_key)
    return PreparedData(data, user_id, key)


def add_user_and_key(conn: Connection) -> tuple[int, str]:
    user_id = users.add(conn, "owner@example.com", "no hash", Role.admin)
    _key_id, key = api_keys.create(conn, "faults", Role.admin)
    return user_id, key
