"""The shape of the source itself: what is written where, how large, and that nothing named is missing or left over."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from restante.database.queries import Queries
from restante.server.metrics import METRICS

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "restante"
TESTS = ROOT / "tests"

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70

MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.name != "__init__.py")
SQL_FILES = sorted(path for path in SOURCE.rglob("*.sql") if path.parent.name not in ("migrations", "schemas"))

# Modules that decide nothing which could be tested apart from those who use them, and why.
WITHOUT_TESTS_OF_THEIR_OWN = {
    "database/channel.py": "declares what a channel is; the tests of PostgreSQL's cover it",
    "delivery/window_copies.py": "declares what copies of windows are; the tests of those in Redis cover it",
    "web/hot.py": "declares what a hot handler is; the fast lane's tests cover it",
}


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_every_module_has_its_tests(module: Path) -> None:
    name = name_of(module)
    mirrored = TESTS / Path(name).parent / f"test_{module.name}"
    if name in WITHOUT_TESTS_OF_THEIR_OWN:
        assert not mirrored.exists(), "it has tests now: take it off the list"
    else:
        assert mirrored.exists()


def test_the_exceptions_exist() -> None:
    assert set(WITHOUT_TESTS_OF_THEIR_OWN) <= {name_of(module) for module in MODULES}


def test_imports_go_one_way() -> None:
    checked = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"], cwd=ROOT, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_no_file_or_function_is_too_long(module: Path) -> None:
    source = module.read_text("utf-8")
    assert len(source.splitlines()) <= FILE_LINES_MAX
    assert [name for name, lines in function_lengths(source) if lines > FUNCTION_LINES_MAX] == []


def function_lengths(source: str) -> Iterator[tuple[str, int]]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.lineno + 1


@pytest.mark.parametrize("sql_file", SQL_FILES, ids=name_of)
def test_every_query_is_used_and_every_used_one_exists(sql_file: Path) -> None:
    module = sql_file.with_suffix(".py")
    assert module.exists(), "no module beside it"
    used = set(re.findall(r"\bSQL\.([a-z_]+)", module.read_text("utf-8"))) - {"names"}
    assert used == set(Queries(sql_file).names())


def test_every_module_that_names_queries_has_them_beside_it() -> None:
    naming = {module for module in MODULES if "queries_beside(__file__)" in module.read_text("utf-8")}
    assert {module.with_suffix(".sql") for module in naming} == set(SQL_FILES)


@pytest.mark.parametrize("sql_file", SQL_FILES, ids=name_of)
def test_every_query_says_what_it_is_for(sql_file: Path) -> None:
    lines = sql_file.read_text("utf-8").splitlines()
    for line, following in pairwise(lines):
        if line.startswith("-- name:"):
            assert re.match(r"-- \S", following), line


def test_every_metric_is_documented() -> None:
    operations = ROOT / "docs" / "operations.md"
    if not operations.exists():
        pytest.skip("docs/operations.md is not written yet")
    text = operations.read_text("utf-8")
    assert [name for name in METRICS if name not in text] == []
