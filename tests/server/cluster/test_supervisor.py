"""Real processes: a supervisor runs as a separate program, and its workers record their events in a file."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

TIMEOUT_SECONDS = 30.0
PROGRAM = """
import os, signal, sys, time
from pathlib import Path
from restante.server.cluster import supervisor
from restante.server.cluster.supervisor import Supervisor

folder, behaviour = Path(sys.argv[1]), sys.argv[2]
supervisor.END_SECONDS = 0.2

def record(event):
    with (folder / "events").open("a") as events:
        events.write(f"{event} {os.getpid()}\\n")

def work(number):
    if behaviour == "crash" and number == 2:
        record("crash-2")
        raise SystemExit(3)
    if behaviour == "starting":
        record(f"start-{number}")
        time.sleep(60)
    received = []
    signal.signal(signal.SIGTERM, lambda *_: received.append("term"))
    signal.signal(signal.SIGINT, lambda *_: received.append("int"))
    signal.signal(signal.SIGHUP, lambda *_: record(f"hup-{number}"))
    record(f"start-{number}")
    while not received or behaviour == "stubborn":
        time.sleep(0.01)
    record(f"{received[0]}-{number}")
    if behaviour == "unclean":
        raise ValueError("on purpose")

sys.exit(Supervisor(2, work, 0.1).run())
"""


class SupervisorProcess:
    def __init__(self, folder: Path, behaviour: str, *, is_background: bool = False) -> None:
        self.events_path = folder / "events"
        self.events_path.touch()
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(folder), behaviour],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # A shell starts background jobs with SIGINT ignored. The program must not depend on how it is started.
            preexec_fn=(lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) if is_background else None,
        )

    def pids(self, event: str) -> list[int]:
        """The processes that recorded the event."""
        lines = [line.split() for line in self.events_path.read_text().splitlines()]
        return [int(line[1]) for line in lines if len(line) == 2 and line[0] == event]

    def wait_until(self, condition: Callable[[], object]) -> None:
        end = time.monotonic() + TIMEOUT_SECONDS
        while not condition():
            assert time.monotonic() < end, self.events_path.read_text()
            time.sleep(0.01)

    def wait_until_started(self) -> None:
        self.wait_until(lambda: self.pids("start-1") and self.pids("start-2"))

    def stop(self, number: signal.Signals) -> int:
        """Send the signal, and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(TIMEOUT_SECONDS)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], SupervisorProcess]]:
    started: list[SupervisorProcess] = []

    def start(behaviour: str = "normal") -> SupervisorProcess:
        started.append(SupervisorProcess(tmp_path, behaviour))
        return started[-1]

    yield start
    for supervisor in started:
        if supervisor.process.poll() is None:
            # Its workers end with it.
            supervisor.process.kill()
            supervisor.process.wait(TIMEOUT_SECONDS)


Start = Callable[[str], SupervisorProcess]


@pytest.mark.parametrize(("number", "event"), [(signal.SIGTERM, "term"), (signal.SIGINT, "int")])
def test_stop_signal_is_passed_to_all_workers_and_exit_code_is_zero(
    start: Start, number: signal.Signals, event: str
) -> None:
    supervisor = start("normal")
    supervisor.wait_until_started()
    assert supervisor.stop(number) == 0
    assert supervisor.pids(f"{event}-1") == supervisor.pids("start-1")
    assert supervisor.pids(f"{event}-2") == supervisor.pids("start-2")


def test_hangup_signal_is_passed_to_all_workers_and_ends_none(start: Start) -> None:
    supervisor = start("normal")
    supervisor.wait_until_started()
    supervisor.process.send_signal(signal.SIGHUP)
    supervisor.wait_until(lambda: supervisor.pids("hup-1") and supervisor.pids("hup-2"))
    assert supervisor.stop(signal.SIGTERM) == 0
    assert len(supervisor.pids("start-1")) == 1


def test_killed_worker_is_replaced(start: Start) -> None:
    supervisor = start("normal")
    supervisor.wait_until_started()
    os.kill(supervisor.pids("start-1")[0], signal.SIGKILL)
    supervisor.wait_until(lambda: len(supervisor.pids("start-1")) == 2)
    assert supervisor.stop(signal.SIGTERM) == 0
    assert len(supervisor.pids("start-2")) == 1


def test_worker_that_keeps_crashing_is_restarted_and_the_other_keeps_running(start: Start) -> None:
    supervisor = start("crash")
    supervisor.wait_until(lambda: len(supervisor.pids("crash-2")) >= 3)
    assert len(supervisor.pids("start-1")) == 1
    assert supervisor.stop(signal.SIGTERM) in (0, 1)


def test_exit_code_is_one_if_a_worker_fails_while_it_stops(start: Start) -> None:
    supervisor = start("unclean")
    supervisor.wait_until_started()
    assert supervisor.stop(signal.SIGTERM) == 1


def test_worker_that_ignores_the_stop_signal_is_killed(start: Start) -> None:
    supervisor = start("stubborn")
    supervisor.wait_until_started()
    workers = [*supervisor.pids("start-1"), *supervisor.pids("start-2")]
    assert supervisor.stop(signal.SIGTERM) == 1
    supervisor.wait_until(lambda: not any(is_alive(pid) for pid in workers))


def test_workers_stop_after_the_supervisor_was_killed(start: Start) -> None:
    supervisor = start("normal")
    supervisor.wait_until_started()
    supervisor.stop(signal.SIGKILL)
    supervisor.wait_until(lambda: supervisor.pids("term-1") and supervisor.pids("term-2"))


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("is_background", [False, True])
def test_stop_signal_ends_workers_that_are_still_starting_cleanly(
    tmp_path: Path, number: signal.Signals, is_background: bool
) -> None:
    supervisor = SupervisorProcess(tmp_path, "starting", is_background=is_background)
    try:
        supervisor.wait_until_started()
        assert supervisor.stop(number) == 0
    finally:
        supervisor.process.kill()
