"""Interleaved rounds: each way of publishing in turn, its rate and the CPU time of this process."""

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Run(NamedTuple):
    """One run: elapsed seconds, CPU seconds of this process, and by how many MiB the process grew meanwhile."""

    seconds: float
    cpu_seconds: float
    grown_mib: float = 0.0


class Stopwatch:
    def __init__(self) -> None:
        self._started, self._cpu, self._resident = time.perf_counter(), time.process_time(), resident_mib()

    def stop(self) -> Run:
        cpu = time.process_time() - self._cpu
        return Run(time.perf_counter() - self._started, cpu, resident_mib() - self._resident)


def interleave(runs: dict[str, Callable[[], Run]], count: int) -> dict[str, list[Run]]:
    """Each run `count` times, in turn; the order is reversed in every second round."""
    found: dict[str, list[Run]] = {name: [] for name in runs}
    for number in range(count):
        for name in list(runs) if number % 2 == 0 else list(reversed(runs)):
            found[name].append(runs[name]())
    return found


def rates(found: dict[str, list[Run]], recipients: int, reference: str) -> dict[str, float]:
    """The median rate and CPU time of each, and the ratios to the reference, taken round by round."""
    figures: dict[str, float] = {}
    for name, runs in found.items():
        figures[f"{name}: recipients/s"] = recipients / statistics.median(run.seconds for run in runs)
        figures[f"{name}: µs of CPU a recipient"] = (
            statistics.median(run.cpu_seconds for run in runs) / recipients * 1e6
        )
        if name != reference:
            of_rates = [bare.seconds / run.seconds for bare, run in zip(found[reference], runs, strict=True)]
            of_cpu = [bare.cpu_seconds / run.cpu_seconds for bare, run in zip(found[reference], runs, strict=True)]
            figures[f"{name}: ratio of the rates (median)"] = statistics.median(of_rates)
            figures[f"{name}: ratio (lowest round)"] = min(of_rates)
            figures[f"{name}: ratio (highest round)"] = max(of_rates)
            figures[f"{name}: ratio of the CPU times (median)"] = statistics.median(of_cpu)
            figures[f"{name}: MiB grown (highest round)"] = max(run.grown_mib for run in runs)
    return figures


def resident_mib() -> float:
    """The resident memory of this process without mapped files."""
    text = Path("/proc/self/status").read_text()
    return int(text.partition("RssAnon:")[2].split()[0]) / 1024
