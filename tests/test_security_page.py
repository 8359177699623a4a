"""Check SECURITY.md: every test that it names exists, and its promises are numbered without gaps."""

import re
from pathlib import Path

from tests.documented import REPOSITORY

PAGE = REPOSITORY / "SECURITY.md"
PROMISES = 18

_NAMED = re.compile(r"`(tests/[\w/]+\.\w+)(?:::(\w+))?`")
_CODE = re.compile(r"`([^`\n]*)`")


def missing_tests(text: str, root: Path = REPOSITORY) -> list[str]:
    """Return the names of tests in the text that do not exist below the root."""
    missing = []
    for file, test in _NAMED.findall(text):
        path = root / file
        if not path.is_file() or (test and not re.search(rf"^(async )?def {test}\(", path.read_text(), re.MULTILINE)):
            missing.append(f"{file}::{test}" if test else file)
    return missing


def test_every_named_test_exists() -> None:
    text = PAGE.read_text()
    assert len(_NAMED.findall(text)) > 50
    assert missing_tests(text) == []


def test_tests_are_named_with_their_file() -> None:
    """A name without its file would not be checked."""
    codes = _CODE.findall(PAGE.read_text())
    assert [code for code in codes if re.search(r"\btests?[_/]", code) and not _NAMED.fullmatch(f"`{code}`")] == []


def test_missing_tests_are_reported(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_one.py").write_text("async def test_kept():\n    pass\n")
    named = "`tests/test_one.py`, `tests/test_one.py::test_kept`"
    assert missing_tests(named, tmp_path) == []
    assert missing_tests(f"{named} `tests/test_one.py::test_lost` `tests/test_two.py`", tmp_path) == [
        "tests/test_one.py::test_lost",
        "tests/test_two.py",
    ]


def test_promises_are_numbered_without_gaps() -> None:
    promises = PAGE.read_text().split("\n## Promises\n")[1].split("\n## ")[0]
    numbers = [int(number) for number in re.findall(r"^### (\d+)\. ", promises, re.MULTILINE)]
    assert numbers == list(range(1, PROMISES + 1))
