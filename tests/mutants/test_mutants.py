"""The planted bugs of this folder still fit the source, and a bug counts as caught only if its tests really failed.

Whether the tests catch them is the result of `make mutants`, which takes minutes.
"""

import ast
import re
from pathlib import Path

import pytest

from tests.mutants.__main__ import Tree, verdict
from tests.mutants.planted_bugs import FOLDER, REPOSITORY, DoesNotApply, PlantedBug, load

BUGS_MIN = 60
BUGS = load()


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_planted_bug_applies_and_its_tests_exist(bug: PlantedBug) -> None:
    mutated = bug.mutated(REPOSITORY)
    assert mutated != (REPOSITORY / bug.file).read_text("utf-8")
    assert bug.file.startswith("src/")
    if bug.file.endswith(".py"):
        ast.parse(mutated)
    assert bug.tests
    for name in bug.tests:
        file, _, function = name.partition("[")[0].partition("::")
        assert re.search(rf"^(async )?def {function}\(", (REPOSITORY / file).read_text("utf-8"), re.MULTILINE), name


def test_there_are_enough_planted_bugs_with_names_of_their_own() -> None:
    assert len({bug.name for bug in BUGS}) == len(BUGS) >= BUGS_MIN


BUG = PlantedBug(
    "kind", "name", "why", "src/x.py", "a < b", "a <= b", ("tests/test_x.py::test_a", "tests/test_x.py::test_b")
)


def test_bug_whose_text_is_missing_or_repeated_does_not_apply(tmp_path: Path) -> None:
    source = tmp_path / "src" / "x.py"
    source.parent.mkdir()
    with pytest.raises(DoesNotApply):
        BUG.mutated(tmp_path)
    for text in ("a > b", "a < b < a < b"):
        source.write_text(text)
        with pytest.raises(DoesNotApply):
            BUG.mutated(tmp_path)
    source.write_text("return a < b\n")
    assert BUG.mutated(tmp_path) == "return a <= b\n"


FAILED_A = "FAILED tests/test_x.py::test_a[sqlite] - assert 1 == 2\n"
FAILED_B = "ERROR tests/test_x.py::test_b\n"


@pytest.mark.parametrize(
    ("status", "output", "is_caught"),
    [
        (1, FAILED_A + FAILED_B, True),
        (1, FAILED_A, False),
        (1, FAILED_A + "FAILED tests/test_x.py::test_bb\n", False),
        (0, "2 passed\n", False),
        # The tests could not be collected, or there are none.
        (2, FAILED_A + FAILED_B, False),
        (4, "", False),
        (5, "no tests ran\n", False),
    ],
)
def test_bug_is_caught_if_each_of_its_tests_failed(status: int, output: str, is_caught: bool) -> None:
    assert verdict(BUG, status, output)[0] is is_caught


def test_bug_is_removed_from_the_tree_after_its_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "src" / "x.py"
    source.parent.mkdir()
    source.write_text("a < b")
    seen: list[str] = []

    def run(_tree: Tree, *_names: str, seconds_max: float | None = None) -> None:
        seen.append(source.read_text())
        raise KeyboardInterrupt

    monkeypatch.setattr(Tree, "run", run)
    monkeypatch.setattr("tests.mutants.__main__.COPIED", ())
    with pytest.raises(KeyboardInterrupt):
        Tree(tmp_path).judge(BUG)
    assert (seen, source.read_text()) == (["a <= b"], "a < b")


def test_every_kind_of_bug_says_what_it_is() -> None:
    assert [file.name for file in FOLDER.glob("*.toml") if not file.read_text("utf-8").startswith("# ")] == []
