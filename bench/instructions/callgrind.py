"""Counts the instructions that a process executes in user space, with callgrind.

The process runs without instrumentation until it is warm. Each dump of callgrind holds the instructions since the dump
before, of all threads: a window. Timers of the server, checkpoints of the database and full garbage collections add to
some windows, the more the busier the machine is. So the count is that of the lowest window.
"""

import re
import shutil
import statistics
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

# Strings have the same hashes in every run, so sets and dictionaries have the same order and the same collisions.
ENVIRONMENT = {"PYTHONHASHSEED": "0"}
_TOTALS = re.compile(r"^totals: (\d+)$", re.MULTILINE)
# A row of callgrind_annotate: instructions, share, file, function, library. A recursive call has a number after '.
_PROGRAM_TOTAL = re.compile(r"^ *([\d,]+) .*PROGRAM TOTALS$", re.MULTILINE)
_FUNCTION = re.compile(r"^ *([\d,]+) \([^)]*\)  [^\s:]+:(.+?)(?:'\d+)?(?: \[([^]]*)\])?$", re.MULTILINE)


class Count(NamedTuple):
    """Instructions of a request, in the lowest window and in the lower quartile of the windows."""

    lowest: float
    quartile: float

    @property
    def spread(self) -> float:
        """How far a quarter of the windows is spread, relative to the lowest."""
        return self.quartile / self.lowest - 1


class Function(NamedTuple):
    """A C function, with its own share of the instructions."""

    name: str
    share: float
    library: str


def command(folder: Path) -> list[str]:
    """The command that runs another one under callgrind and dumps to the folder."""
    for program in ("valgrind", "vgdb", "callgrind_annotate"):
        if shutil.which(program) is None:
            sys.exit(f"{program} is missing: install it with scripts/install-services valgrind")
    return [
        "valgrind",
        "--quiet",
        "--tool=callgrind",
        "--instr-atstart=no",
        # The threads take turns, so that none waits while the others spin.
        "--fair-sched=yes",
        f"--callgrind-out-file={folder / 'dump'}",
        f"--vgdb-prefix={folder / 'vgdb'}",
    ]


class CountedProcess:
    """A process that `command` runs."""

    def __init__(self, pid: int, folder: Path) -> None:
        self.pid = pid
        self._folder = folder
        self._dumps = 0

    def count(self, work: Callable[[], object], requests: int, windows: int) -> Count:
        """The instructions of a request; `work` has the process do so many requests."""
        self._control("instrumentation", "on")
        # The first window holds what happens once.
        totals = [self._window(work) for _ in range(windows + 1)][1:]
        return count_of(totals, requests)

    def largest_functions(self) -> list[Function]:
        """The C functions with most instructions of their own in the last window."""
        done = subprocess.run(
            ["callgrind_annotate", "--threshold=95", str(self._last_dump)], check=True, capture_output=True, text=True
        )
        return parse_functions(done.stdout)

    def _window(self, work: Callable[[], object]) -> int:
        work()
        self._control("dump")
        self._dumps += 1
        return parse_total(self._last_dump.read_text())

    @property
    def _last_dump(self) -> Path:
        return self._folder / f"dump.{self._dumps}"

    def _control(self, *words: str) -> None:
        control = ["vgdb", f"--pid={self.pid}", f"--vgdb-prefix={self._folder / 'vgdb'}", *words]
        subprocess.run(control, check=True, capture_output=True)


def parse_total(dump: str) -> int:
    """The instructions of a dump."""
    found = _TOTALS.search(dump)
    if found is None:
        raise ValueError("the dump of callgrind has no line `totals: NUMBER`: it is not complete")
    return int(found[1])


def parse_functions(annotated: str) -> list[Function]:
    """The functions in the output of callgrind_annotate, the largest first. It has a row for each source file that a
    function's code comes from, and for recursive calls."""
    found = _PROGRAM_TOTAL.search(annotated)
    if found is None:
        raise ValueError("the output of callgrind_annotate has no line `PROGRAM TOTALS`")
    own: Counter[str] = Counter()
    libraries: dict[str, str] = {}
    for instructions, name, library in _FUNCTION.findall(annotated):
        own[name] += _number(instructions)
        if library:
            libraries[name] = Path(library).name
    total = _number(found[1])
    return [Function(name, number / total, libraries.get(name, "")) for name, number in own.most_common()]


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def count_of(totals: Sequence[int], requests: int) -> Count:
    """The count of a request, from the instructions of windows with so many requests each."""
    quartile = statistics.quantiles(totals, n=4, method="inclusive")[0]
    return Count(min(totals) / requests, quartile / requests)
