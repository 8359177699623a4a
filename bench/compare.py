"""`make bench-compare REV=…` or `python -m bench.compare REV [NAME …]`: this tree compared with another commit.

Both run in turn on the hot paths, each with its own server, data folder and code, in this environment. For each figure
the ratio of every round is taken, and the median, the lowest and the highest are printed. A figure is the server's CPU
time of a request, which hardly depends on what else runs, or the rate.

    ratio of CPU time below 1: this tree needs less        ratio of rates above 1: this tree is faster
"""

import asyncio
import os
import statistics
import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple

import uvloop

from bench.commands import commands
from bench.tools.fleet import Fleet
from bench.tools.load import load
from bench.tools.processes import CLIENT_CORE, scheduled_seconds
from bench.trees import (
    DEVICE_CODE,
    DEVICES,
    EDGE_CODE,
    IDLE_POLLS,
    SITES,
    NotInTree,
    PollPath,
    Tree,
    parse_arguments,
    two_trees,
)

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
SECONDS = 3
PAIRS_A_ROUND = 4_000


class Figure(NamedTuple):
    microseconds: float
    per_second: float


# Makes the measurement of one round, after preparing the tree for all of them.
Probe = Callable[[Tree, ExitStack], Callable[[], Figure]]


def _polls(poll: PollPath) -> Probe:
    def prepare(tree: Tree, opened: ExitStack) -> Callable[[], Figure]:
        data, tokens = tree.prepare(poll.code)
        pid, port = opened.enter_context(tree.serving(data))
        # Every token becomes known.
        load(port, tokens, 3, poll.path, poll.script)

        def measure() -> Figure:
            before = scheduled_seconds(pid)
            sent = load(port, tokens, SECONDS, poll.path, poll.script, new_connections=poll.new_connections)
            return Figure((scheduled_seconds(pid) - before) / sent.requests * 1e6, sent.per_second)

        return measure

    return prepare


def _first_polls(tree: Tree, _opened: ExitStack) -> Callable[[], Figure]:
    data, tokens = tree.prepare(DEVICE_CODE)

    def measure() -> Figure:
        with tree.serving(data) as (pid, port):
            before = scheduled_seconds(pid)
            fleet = Fleet(port, tokens.read_bytes().split(), 64, new_connections=False)
            seconds = _on_client_core(fleet.run)
            return Figure((scheduled_seconds(pid) - before) / DEVICES * 1e6, DEVICES / seconds)

    return measure


def _command_pairs(tree: Tree, opened: ExitStack) -> Callable[[], Figure]:
    data, tokens = tree.prepare(EDGE_CODE.format(sites=SITES, commands=(ROUNDS + 1) * PAIRS_A_ROUND // SITES + 100))
    pid, port = opened.enter_context(tree.serving(data))
    collectors = tokens.read_text().split()

    def measure() -> Figure:
        before = scheduled_seconds(pid)
        rate = _on_client_core(lambda: commands.collect(port, collectors, PAIRS_A_ROUND))
        return Figure((scheduled_seconds(pid) - before) / PAIRS_A_ROUND * 1e6, rate)

    return measure


def _on_client_core(work: Callable[[], object]) -> float:
    os.sched_setaffinity(0, {int(CLIENT_CORE)})
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return float(runner.run(work()))  # type: ignore[arg-type]
    finally:
        os.sched_setaffinity(0, {0, 1})


PROBES: dict[str, Probe] = {
    **{name: _polls(poll) for name, poll in IDLE_POLLS.items()},
    "first-polls": _first_polls,
    "command-pairs": _command_pairs,
}


def compare(probe: Probe, old: Tree, new: Tree) -> None:
    with ExitStack() as opened:
        measures = [probe(tree, opened) for tree in (old, new)]
        rounds: list[tuple[Figure, Figure]] = []
        for number in range(ROUNDS):
            # Each one is first in every second round.
            order = (0, 1) if number % 2 else (1, 0)
            found = {which: measures[which]() for which in order}
            rounds.append((found[0], found[1]))
    for label, field in (("µs of CPU", 0), ("a second", 1)):
        ratios = [after[field] / before[field] for before, after in rounds]
        print(
            f"  {label:<10} {old.name} {statistics.median(before[field] for before, _ in rounds):>11,.1f}"
            f"   this {statistics.median(after[field] for _, after in rounds):>11,.1f}"
            f"   ratio {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})",
            flush=True,
        )


def main() -> None:
    revision, names = parse_arguments("bench.compare", PROBES)
    with two_trees(revision) as (old, new):
        for name in names:
            print(name, flush=True)
            try:
                compare(PROBES[name], old, new)
            except NotInTree as error:
                sys.exit(str(error))


if __name__ == "__main__":
    main()
