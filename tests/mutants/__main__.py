"""Plants each bug in a copy of the tree and runs the tests that are named for it: `make mutants`.

    python -m tests.mutants [--jobs N] [NAME …]

First the named tests run on an unchanged copy, where all must pass. Then each bug must make each of its tests fail.
The working tree is never changed. The exit status is 1 if a bug survives, does not apply, or cannot be judged.
"""

import argparse
import compileall
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from py_compile import PycInvalidationMode

from tests.mutants.planted_bugs import REPOSITORY, DoesNotApply, PlantedBug, load

COPIED = ("src", "tests", "docs", "deploy", "bench", "pyproject.toml", "README.md", "CHANGELOG.md", "SECURITY.md")
# The plugin of schemathesis takes a second to import, in each of many processes.
QUIET = ("-q", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-p", "no:schemathesis")
# A bug may block its tests for ever. That does not count as caught: the tests of `make test` have no time limit.
TIME_LIMIT_SECONDS = 300
# The exit status of pytest if tests ran and some failed. Others mean that nothing was tested.
SOME_TESTS_FAILED = 1

_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+::\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Outcome:
    bug: PlantedBug
    is_caught: bool
    text: str
    seconds: float = 0.0


class Tree:
    """A copy of the repository that its tests run in."""

    def __init__(self, folder: Path) -> None:
        self._root = folder
        for name in COPIED:
            source = REPOSITORY / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, folder / name)
        # Compiled files that are checked by content: a bug that is planted and removed within a second has an effect.
        compileall.compile_dir(folder / "src", quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)

    def run(self, *arguments: str, seconds_max: float | None = None) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PYTHONPATH": str(self._root / "src")}
        command = [sys.executable, "-m", "pytest", *QUIET, *arguments]
        return subprocess.run(
            command, cwd=self._root, env=environment, capture_output=True, text=True, timeout=seconds_max
        )

    def judge(self, bug: PlantedBug) -> Outcome:
        """Plant the bug, run its tests, remove it."""
        path = self._root / bug.file
        original = path.read_text("utf-8")
        started = time.monotonic()
        try:
            path.write_text(bug.mutated(self._root), "utf-8")
            done = self.run(*bug.tests, seconds_max=TIME_LIMIT_SECONDS)
            is_caught, text = verdict(bug, done.returncode, done.stdout)
        except DoesNotApply as error:
            is_caught, text = False, str(error)
        except subprocess.TimeoutExpired:
            is_caught, text = False, f"its tests took longer than {TIME_LIMIT_SECONDS} s"
        finally:
            path.write_text(original, "utf-8")
        return Outcome(bug, is_caught, text, time.monotonic() - started)


def verdict(bug: PlantedBug, status: int, output: str) -> tuple[bool, str]:
    """Return whether every named test failed, and the reason if not."""
    failed = _FAILED.findall(output)
    passed = [name for name in bug.tests if not any(_is_case_of(case, name) for case in failed)]
    if status not in (0, SOME_TESTS_FAILED):
        return False, f"pytest ended with status {status}:\n{output}"
    if passed:
        return False, f"survived {', '.join(passed)}"
    return True, "caught"


def _is_case_of(case: str, name: str) -> bool:
    return case == name or case.startswith(f"{name}[")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants", description="Plant bugs and count the caught ones."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="plant only these bugs")
    parser.add_argument("--jobs", type=int, default=2, help="how many bugs at the same time")
    options = parser.parse_args()
    known = load()
    unknown = set(options.names) - {bug.name for bug in known}
    if unknown:
        parser.error(f"there is no bug named {', '.join(sorted(unknown))}")
    bugs = [bug for bug in known if not options.names or bug.name in options.names]
    with tempfile.TemporaryDirectory(prefix="restante-mutants-") as folder:
        trees: queue.SimpleQueue[Tree] = queue.SimpleQueue()
        for number in range(options.jobs):
            root = Path(folder) / str(number)
            root.mkdir()
            trees.put(Tree(root))
        if not _passes_unchanged(trees, bugs, options.jobs):
            return 1
        return _report(_judge_all(trees, bugs, options.jobs))


def _passes_unchanged(trees: "queue.SimpleQueue[Tree]", bugs: list[PlantedBug], jobs: int) -> bool:
    tree = trees.get()
    names = sorted({name for bug in bugs for name in bug.tests})
    done = tree.run("-n", str(jobs), *names)
    trees.put(tree)
    _print(f"{len(names)} tests on the unchanged source: {done.stdout.strip().splitlines()[-1]}")
    if done.returncode != 0:
        _print(done.stdout + done.stderr)
    return done.returncode == 0


def _judge_all(trees: "queue.SimpleQueue[Tree]", bugs: list[PlantedBug], jobs: int) -> list[Outcome]:
    def judge(bug: PlantedBug) -> Outcome:
        tree = trees.get()
        try:
            outcome = tree.judge(bug)
        finally:
            trees.put(tree)
        _print(f"{outcome.seconds:6.1f} s  {bug.kind}/{bug.name}: {outcome.text}")
        return outcome

    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(judge, bugs))


def _report(outcomes: list[Outcome]) -> int:
    missed = [outcome for outcome in outcomes if not outcome.is_caught]
    for outcome in missed:
        _print(f"NOT CAUGHT {outcome.bug.kind}/{outcome.bug.name}: {outcome.bug.why}")
    _print(f"caught {len(outcomes) - len(missed)} of {len(outcomes)} planted bugs")
    return 1 if missed else 0


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
