"""Collectors as processes of their own, which are stopped with SIGSTOP past their leases and wake up with old ACKs."""

import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

from tests.faults.commands_collector import OVERSLEPT_SECONDS, read_line
from tests.faults.commands_records import Acked, Handed
from tests.faults.commands_site import CollectorHandle
from tests.faults.server_process import PATIENCE_SECONDS, REPOSITORY, environment


class CollectorProcess:
    def __init__(self, folder: Path, ports: list[int], handle: CollectorHandle, seed: int) -> None:
        self._output = folder / f"collector-{handle.id}.jsonl"
        command = [sys.executable, "-m", "tests.faults.commands_collector"]
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [*command, ",".join(map(str, ports)), str(handle.id), handle.token, str(seed)],
                stdin=subprocess.PIPE,
                stdout=output,
                cwd=REPOSITORY,
                env=environment(),
                text=True,
            )

    def tell(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def calm_down(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def finish(self) -> list[Handed | Acked | str]:
        """Let it come to its end; what it saw."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        assert self._process.wait(PATIENCE_SECONDS) == 0
        return [read_line(line) for line in self._output.read_text().splitlines()]

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait(PATIENCE_SECONDS)
        if self._process.stdin is not None:
            self._process.stdin.close()


class Stopper(threading.Thread):
    """Stops one collector after the other, each for longer than a lease, until told to end."""

    def __init__(self, collectors: list[CollectorProcess], stop: threading.Event, seed: int) -> None:
        super().__init__(name="stopper", daemon=True)
        self._collectors = collectors
        self._stopping = stop
        self._random = random.Random(seed)
        self.stops = 0

    def run(self) -> None:
        while not self._stopping.wait(self._random.uniform(0.1, 0.5)):
            collector = self._random.choice(self._collectors)
            collector.tell(signal.SIGSTOP)
            self.stops += 1
            self._stopping.wait(OVERSLEPT_SECONDS)
            collector.tell(signal.SIGCONT)
