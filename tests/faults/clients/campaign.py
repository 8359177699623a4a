"""Campaigns that kill a client and its server in turn while work flows between them.

    send some work ─▶ wait until part of it is done ─▶ kill one end, chosen by the seed ─▶ start it again ─▶ …
    at the end: wait until all of it is done ─▶ compare what was sent with what the client did

One thread sends, kills and waits, so nothing is sent to a server that is not ready, and every wait is for a condition.
"""

import random
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.campaigns import Violations
from tests.faults.client import Client
from tests.faults.server_process import (
    REPOSITORY,
    TIMEOUT_SECONDS,
    PreparedData,
    ServerProcess,
    environment,
    prepare_data,
)

# Much longer than anything takes: a lease, its back-off, a start of both ends on a busy machine.
WAIT_SECONDS = 180.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    seed: int
    kills: int
    # One of the bugs in `programs`. Then the client kills itself once, and nobody else kills anything.
    bug: str = "none"
    # How many pieces of work are sent before each kill.
    at_once: tuple[int, int] = (1, 4)
    pause_seconds: tuple[float, float] = (0.0, 0.1)


class ClientProcess:
    """A client that can be started and killed many times."""

    def __init__(self, folder: Path, bug: str, arguments: list[str]) -> None:
        self._marker = folder / "crashed"
        module = [sys.executable, "-m", "tests.faults.clients.programs"]
        self._command = [*module, bug, str(self._marker), *arguments]
        self.log_path = folder / "client.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=REPOSITORY, env=environment()
            )

    @property
    def has_crashed(self) -> bool:
        return self._marker.exists()

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(TIMEOUT_SECONDS)


class ClientCampaign(ABC):
    """A subclass says what is sent, what counts as done, and what must hold at the end."""

    flags: tuple[str, ...] = ()

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.plan = plan
        self.folder = folder
        self.prepared: PreparedData = prepare_data(folder / "data")
        self.server = ServerProcess(self.prepared.data, *self.flags, "--log-level", "warning")
        self.operator = Client(self.server.port, self.prepared.key)
        self.client: ClientProcess
        self.sent = 0
        self.kills = {"client": 0, "server": 0}
        self.found = Violations()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.port}"

    def run(self) -> Violations:
        """Run the campaign and return what was violated."""
        self.server.start()
        try:
            self.server.wait_until_ready()
            self.client = ClientProcess(self.folder, self.plan.bug, self.prepare())
            self.client.start()
            try:
                self._kill_repeatedly() if self.plan.bug == "none" else self._wait_for_own_crash()
                self.wait_for("all work to be done", self.is_all_done)
            finally:
                self.client.kill()
            self.check()
            return self.found
        finally:
            self.operator.close()
            self.server.end()
            self.close()

    def _kill_repeatedly(self) -> None:
        rng = random.Random(self.plan.seed)
        ends = [list(self.kills)[number % 2] for number in range(self.plan.kills)]
        rng.shuffle(ends)
        for end in ends:
            before, count = self.done_count(), rng.randint(*self.plan.at_once)
            for _ in range(count):
                self.send_next()
            self._wait_until_done(before + rng.randint(0, count))
            time.sleep(rng.uniform(*self.plan.pause_seconds))
            self._kill(end)

    def _wait_until_done(self, count: int) -> None:
        self.wait_for("some work to be done", lambda: self.done_count() >= count)

    def _kill(self, end: str) -> None:
        self.kills[end] += 1
        if end == "client":
            self.client.kill()
            self.look_at_dead_client()
            self.client.start()
        else:
            self.server.kill()
            self.server.start()
            self.server.wait_until_ready()
            self.operator.close()

    def _wait_for_own_crash(self) -> None:
        """Send work until the client with the bug has killed itself, then start it again."""

        def has_crashed() -> bool:
            if self.done_count() >= self.sent:
                self.send_next()
            return self.client.has_crashed and not self.client.is_running

        self.wait_for("the client to crash", has_crashed)
        self.client.start()
        for _ in range(2):
            self.send_next()

    def send_next(self) -> None:
        self.send(self.sent)
        self.sent += 1

    def wait_for(self, what: str, is_there: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_SECONDS
        while not is_there():
            if time.monotonic() > deadline:
                log = self.client.log_path.read_text(errors="replace")
                raise AssertionError(f"waited in vain for {what}: {self.describe()}; the client says {log[-3000:]}")
            time.sleep(0.02)

    def post(self, path: str, **body: Any) -> Any:
        response = self.operator.request("POST", path, body)
        assert response.status < 300, response
        return response.body

    @abstractmethod
    def prepare(self) -> list[str]:
        """Create what the client needs at the server and on disk. Return its arguments."""

    @abstractmethod
    def send(self, number: int) -> None:
        """Give the server the next piece of work."""

    @abstractmethod
    def done_count(self) -> int:
        """How much of the work is done, as far as this campaign can see."""

    @abstractmethod
    def check(self) -> None:
        """Compare what was sent with what the client did. The client is dead."""

    def is_all_done(self) -> bool:
        return self.done_count() >= self.sent

    def look_at_dead_client(self) -> None:
        """Check what must hold at every moment."""
        return

    def describe(self) -> str:
        return f"{self.done_count()} of {self.sent} done, kills {self.kills}"

    @abstractmethod
    def summary(self) -> str:
        """What happened, for the report."""

    def close(self) -> None:
        """End what the campaign started."""
        return
