"""Collectors that run as separate processes, so that SIGSTOP can pause them past their leases.

When such a collector continues, it sends ACKs under expired leases.
"""

import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

from tests.faults.commands.collector import PAST_LEASE_SECONDS, read_line
from tests.faults.commands.records import AckSent, Dispatched
from tests.faults.commands.site import CollectorHandle
from tests.faults.server_process import REPOSITORY, TIMEOUT_SECONDS, environment


class CollectorProcess:
    def __init__(self, folder: Path, ports: list[int], handle: CollectorHandle, seed: int) -> None:
        self._output = folder / f"collector-{handle.id}.jsonl"
        command = [sys.executable, "-m", "tests.faults.commands.collector"]
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [*command, ",".join(map(str, ports)), str(handle.id), handle.token, str(seed)],
                stdin=subprocess.PIPE,
                stdout=output,
                cwd=REPOSITORY,
                env=environment(),
                text=True,
            )

    def send_signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def calm_down(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def finish(self) -> list[Dispatched | AckSent | str]:
        """Wait until it exits; returns its records."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(TIMEOUT_SECONDS) == 0
        return [read_line(line) for line in self._output.read_text().splitlines()]

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(TIMEOUT_SECONDS)
        if self._process.stdin is not None:
            self._process.stdin.close()


class CollectorPauser(threading.Thread):
    """Pauses one collector after the other, each for longer than a lease, until the stop event is set."""

    def __init__(self, collectors: list[CollectorProcess], stop: threading.Event, seed: int) -> None:
        super().__init__(name="collector pauser", daemon=True)
        self._collectors = collectors
        self._stopping = stop
        self._random = random.Random(seed)
        self.pauses = 0

    def run(self) -> None:
        while not self._stopping.wait(self._random.uniform(0.1, 0.5)):
            collector = self._random.choice(self._collectors)
            collector.send_signal(signal.SIGSTOP)
            self.pauses += 1
            self._stopping.wait(PAST_LEASE_SECONDS)
            collector.send_signal(signal.SIGCONT)
