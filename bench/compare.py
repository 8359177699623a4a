"""`make bench-compare REV=…` or `python -m bench.compare REV [NAME …]`: this tree compared with another commit.

Both run in turn on the hot paths, each with its own server, data folder and code, in this environment. For each figure
the ratio of every round is taken, and the median, the lowest and the highest are printed. A figure is the server's CPU
time of a request, which hardly depends on what else runs, or the rate.

    ratio of CPU time below 1: this tree needs less        ratio of rates above 1: this tree is faster
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import uvloop

from bench.commands import commands
from bench.tools.fleet import Fleet
from bench.tools.load import load
from bench.tools.processes import CLIENT_CORE, SERVER_CORE, free_port, pinned, scheduled_seconds, serve_command

HERE = Path(__file__).parent.parent
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
SECONDS = 3
DEVICES = 10_000
SITES = 64
PAIRS_A_ROUND = 4_000
NO_LIMITS = (
    *("--poll-rate-per-second", "100000", "--poll-burst", "1000000"),
    *("--events-poll-rate-per-second", "100000", "--events-poll-burst", "1000000"),
    *("--command-rate-limits", "default=1000000/60", "--log-level", "error"),
)


class Figure(NamedTuple):
    microseconds: float
    per_second: float


class Tree(NamedTuple):
    """The code of a commit, and a folder for its data."""

    name: str
    path: Path
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        return {"PYTHONPATH": f"{self.path / 'src'}:{self.path}", "ENABLE_COMMAND_SIGNATURE": "true"}

    @property
    def data_package(self) -> str:
        """The package that prepares data. Older commits have its modules in `bench` itself."""
        return "bench.data" if (self.path / "bench" / "data").exists() else "bench"

    def prepare(self, code: str) -> tuple[Path, Path]:
        """Prepare a data folder with the code of this tree, which prints tokens; returns folder and token file."""
        data, tokens = (self.folder / f"{len(list(self.folder.iterdir()))}-{kind}" for kind in ("data", "tokens"))
        modules = f"from {self.data_package} import device_data, edge_data, event_data"
        script = f"import asyncio\nfrom pathlib import Path\n{modules}\npath = Path({str(data)!r})\n{code}"
        done = subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, **self.environment}, cwd=self.path, capture_output=True
        )
        if done.returncode:
            sys.exit(f"{self.name} cannot prepare its data:\n{done.stderr.decode()}")
        tokens.write_bytes(done.stdout)
        return data, tokens

    @contextmanager
    def serving(self, data: Path) -> Iterator[tuple[int, int]]:
        """Serve the data folder; yields process id and port."""
        port = free_port()
        command = serve_command(data, port, *NO_LIMITS)
        with pinned(SERVER_CORE, command, port, self.environment, self.folder / "log") as pid:
            yield pid, port


# Makes the measurement of one round, after preparing the tree for all of them.
Probe = Callable[[Tree, ExitStack], Callable[[], Figure]]

_DEVICE_CODE = f"""
data = device_data.prepare(path, {DEVICES})
print("\\n".join(asyncio.run(device_data.mint(data, range(1, {DEVICES} + 1)))))
"""
_EDGE_CODE = """
print("\\n".join(edge_data.prepare(path, {sites}, {commands}).tokens))
"""
_EVENT_CODE = """
print("\\n".join(event_data.prepare(path, 1000, 0).tokens))
"""


def _polls(code: str, path: str, script: str = "idle_poll.lua", *, new_connections: bool = False) -> Probe:
    def prepare(tree: Tree, opened: ExitStack) -> Callable[[], Figure]:
        data, tokens = tree.prepare(code)
        pid, port = opened.enter_context(tree.serving(data))
        # Every token becomes known.
        load(port, tokens, 3, path, script)

        def measure() -> Figure:
            before = scheduled_seconds(pid)
            sent = load(port, tokens, SECONDS, path, script, new_connections=new_connections)
            return Figure((scheduled_seconds(pid) - before) / sent.requests * 1e6, sent.per_second)

        return measure

    return prepare


def _first_polls(tree: Tree, _opened: ExitStack) -> Callable[[], Figure]:
    data, tokens = tree.prepare(_DEVICE_CODE)

    def measure() -> Figure:
        with tree.serving(data) as (pid, port):
            before = scheduled_seconds(pid)
            fleet = Fleet(port, tokens.read_bytes().split(), 64, new_connections=False)
            seconds = _on_client_core(fleet.run)
            return Figure((scheduled_seconds(pid) - before) / DEVICES * 1e6, DEVICES / seconds)

    return measure


def _command_pairs(tree: Tree, opened: ExitStack) -> Callable[[], Figure]:
    data, tokens = tree.prepare(_EDGE_CODE.format(sites=SITES, commands=(ROUNDS + 1) * PAIRS_A_ROUND // SITES + 100))
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


_UPDATES = "/apiv1/devices/self/updates"
PROBES: dict[str, Probe] = {
    "idle-poll": _polls(_DEVICE_CODE, _UPDATES),
    "idle-poll-new-connections": _polls(_DEVICE_CODE, _UPDATES, new_connections=True),
    "command-idle-poll": _polls(_EDGE_CODE.format(sites=1000, commands=0), "/api/edge/v1/commands/poll"),
    "event-idle-poll": _polls(_EVENT_CODE, "/events", "event_poll.lua"),
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


@contextmanager
def worktree(revision: str, folder: Path) -> Iterator[Path]:
    """The files of a commit of this repository."""
    path = folder / "tree"
    git = ["git", "-C", str(HERE)]
    subprocess.run([*git, "worktree", "add", "--detach", "--quiet", str(path), revision], check=True)
    try:
        yield path
    finally:
        subprocess.run([*git, "worktree", "remove", "--force", str(path)], check=True)


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit("usage: python -m bench.compare REV [NAME …]")
    revision, *names = sys.argv[1:]
    unknown = [name for name in names if name not in PROBES]
    if unknown:
        sys.exit(f"unknown probes: {', '.join(unknown)}; available: {', '.join(PROBES)}")
    with tempfile.TemporaryDirectory() as name, worktree(revision, Path(name)) as path:
        old, new = Tree(revision[:12], path, Path(name) / "old"), Tree("this", HERE, Path(name) / "new")
        for tree in (old, new):
            tree.folder.mkdir()
        for probe in names or PROBES:
            print(probe, flush=True)
            compare(PROBES[probe], old, new)


if __name__ == "__main__":
    main()
