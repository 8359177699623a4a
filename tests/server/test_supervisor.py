"""Real processes: a supervisor started as a program of its own, whose workers say what happens to them."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PATIENCE_SECONDS = 30.0
PROGRAM = """
import os, signal, sys, time
from pathlib import Path
from restante.server import supervisor
from restante.server.supervisor import Supervisor

folder = Path(sys.argv[1])
supervisor.END_SECONDS = 0.2

def note(what):
    with (folder / "notes").open("a") as notes:
        notes.write(f"{what} {os.getpid()}\\n")

def work(number):
    if sys.argv[2] == "crash" and number == 2:
        note("crash-2")
        raise SystemExit(3)
    if sys.argv[2] == "starting":
        note(f"start-{number}")
        time.sleep(60)
    told = []
    signal.signal(signal.SIGTERM, lambda *_: told.append("term"))
    signal.signal(signal.SIGINT, lambda *_: told.append("int"))
    signal.signal(signal.SIGHUP, lambda *_: note(f"hup-{number}"))
    note(f"start-{number}")
    while not told or sys.argv[2] == "stubborn":
        time.sleep(0.01)
    note(f"{told[0]}-{number}")
    if sys.argv[2] == "unclean":
        raise ValueError("on purpose")

sys.exit(Supervisor(2, work, 0.1).run())
"""


class Supervised:
    def __init__(self, folder: Path, how: str) -> None:
        self.notes_path = folder / "notes"
        self.notes_path.touch()
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(folder), how], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def notes(self, what: str) -> list[int]:
        """The processes that noted this."""
        lines = [line.split() for line in self.notes_path.read_text().splitlines()]
        return [int(line[1]) for line in lines if len(line) == 2 and line[0] == what]

    def until(self, is_so: Callable[[], object]) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not is_so():
            assert time.monotonic() < end, self.notes_path.read_text()
            time.sleep(0.01)

    def until_started(self) -> None:
        self.until(lambda: self.notes("start-1") and self.notes("start-2"))

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_SECONDS)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], Supervised]]:
    started: list[Supervised] = []

    def start(how: str = "well") -> Supervised:
        started.append(Supervised(tmp_path, how))
        return started[-1]

    yield start
    for supervised in started:
        # The workers end with it.
        if supervised.process.poll() is None:
            supervised.process.kill()
            supervised.process.wait(PATIENCE_SECONDS)


Start = Callable[[str], Supervised]


@pytest.mark.parametrize(("number", "noted"), [(signal.SIGTERM, "term"), (signal.SIGINT, "int")])
def test_all_are_told_to_stop_and_then_it_ends_well(start: Start, number: signal.Signals, noted: str) -> None:
    supervised = start("well")
    supervised.until_started()
    assert supervised.end(number) == 0
    assert supervised.notes(f"{noted}-1") == supervised.notes("start-1")
    assert supervised.notes(f"{noted}-2") == supervised.notes("start-2")


def test_a_hangup_is_passed_on_and_nobody_ends(start: Start) -> None:
    supervised = start("well")
    supervised.until_started()
    supervised.process.send_signal(signal.SIGHUP)
    supervised.until(lambda: supervised.notes("hup-1") and supervised.notes("hup-2"))
    assert supervised.end(signal.SIGTERM) == 0
    assert len(supervised.notes("start-1")) == 1


def test_one_that_was_killed_is_replaced(start: Start) -> None:
    supervised = start("well")
    supervised.until_started()
    os.kill(supervised.notes("start-1")[0], signal.SIGKILL)
    supervised.until(lambda: len(supervised.notes("start-1")) == 2)
    assert supervised.end(signal.SIGTERM) == 0
    assert len(supervised.notes("start-2")) == 1


def test_one_that_keeps_ending_is_started_again_later_and_later(start: Start) -> None:
    supervised = start("crash")
    supervised.until(lambda: len(supervised.notes("crash-2")) >= 3)
    # The other is none the worse for it.
    assert len(supervised.notes("start-1")) == 1
    assert supervised.end(signal.SIGTERM) in (0, 1)


def test_one_that_ends_badly_when_told_to_stop_shows_in_the_exit_code(start: Start) -> None:
    supervised = start("unclean")
    supervised.until_started()
    assert supervised.end(signal.SIGTERM) == 1


def test_one_that_does_not_stop_is_killed(start: Start) -> None:
    supervised = start("stubborn")
    supervised.until_started()
    workers = [*supervised.notes("start-1"), *supervised.notes("start-2")]
    assert supervised.end(signal.SIGTERM) == 1
    supervised.until(lambda: not any(is_alive(pid) for pid in workers))


def test_workers_stop_when_the_supervisor_was_killed(start: Start) -> None:
    supervised = start("well")
    supervised.until_started()
    supervised.end(signal.SIGKILL)
    supervised.until(lambda: supervised.notes("term-1") and supervised.notes("term-2"))


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_workers_that_are_told_while_they_start_have_ended_as_they_should(
    start: Callable[[str], Supervised], number: signal.Signals
) -> None:
    supervised = start("starting")
    supervised.until_started()
    assert supervised.end(number) == 0
