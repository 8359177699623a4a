"""`make bench-instructions REV=…` or `python -m bench.instructions REV [NAME …]`: instructions of a request.

Counts the instructions in user space that the server executes for a request of each hot path, in this tree and in
another commit. The counts hardly depend on what else runs, so a change of 1 % shows. They do not include the kernel,
nor waiting for it: `make bench-compare` measures CPU time.

    ratio below 1: this tree needs fewer instructions

`python -m bench.instructions functions NAME` prints the C functions with most instructions of their own, in this tree.
Functions of Python do not show: they run in `_PyEval_EvalFrameDefault`. `python -m bench profile` shows them.
"""

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from bench.instructions.callgrind import Count
from bench.instructions.paths import HOT_PATHS
from bench.trees import HERE, NotInTree, Tree, parse_arguments, two_trees

SHOWN = 25


def compare(name: str, old: Tree, new: Tree) -> None:
    counts = [_count(name, tree) for tree in (old, new)]
    ratio = f"   ratio {counts[1].lowest / counts[0].lowest:.4f}" if counts[0] and counts[1] else ""
    sides = (f"{tree.name} {_shown(each)}" for tree, each in zip((old, new), counts, strict=True))
    print(f"{name:<28} {'   '.join(sides)}{ratio}", flush=True)


def _count(name: str, tree: Tree) -> Count | None:
    try:
        with ExitStack() as opened:
            return HOT_PATHS[name](tree, opened).measure()
    except NotInTree as error:
        print(error, file=sys.stderr)
        return None


def _shown(count: Count | None) -> str:
    return "not available" if count is None else f"{count.lowest:>11,.0f} +{count.spread:.2%}"


def print_functions(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        subject = HOT_PATHS[name](Tree("this", HERE, Path(folder)), opened)
        print(f"{name}: {_shown(subject.measure())} instructions")
        for function in subject.process.largest_functions()[:SHOWN]:
            print(f"  {function.share:>6.1%}  {function.name}  {function.library}")


def main() -> None:
    if sys.argv[1:2] == ["functions"] and sys.argv[2:] and sys.argv[2] in HOT_PATHS:
        print_functions(sys.argv[2])
        return
    revision, names = parse_arguments("bench.instructions", HOT_PATHS)
    with two_trees(revision) as (old, new):
        for name in names:
            compare(name, old, new)


if __name__ == "__main__":
    main()
