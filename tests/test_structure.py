"""The structure of the source: sizes of modules and functions, and that every named query exists and is used."""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import grimp
import pytest
from grimp import ImportGraph

from restante.database.queries import Queries
from restante.server.monitoring.metrics import METRICS

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "restante"
TESTS = ROOT / "tests"

FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
SMALL_LINES = 40

MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.name != "__init__.py")
SQL_FILES = sorted(path for path in SOURCE.rglob("*.sql") if path.parent.name not in ("migrations", "schemas"))

MODULES_MAX = 15
# Folders that hold migrations, templates, assets and schemas, and no modules.
PACKAGES = sorted({module.parent for module in MODULES})


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


@pytest.mark.parametrize("package", PACKAGES, ids=name_of)
def test_every_package_has_a_folder_of_tests(package: Path) -> None:
    if package != SOURCE:
        assert list((TESTS / name_of(package)).glob("test_*.py"))


@pytest.mark.parametrize("package", PACKAGES, ids=name_of)
def test_no_package_is_crowded(package: Path) -> None:
    assert len([module for module in MODULES if module.parent == package]) <= MODULES_MAX


@pytest.mark.parametrize("root", ["bench", "client/src", "client/tests"])
def test_no_folder_beside_the_source_is_crowded(root: str) -> None:
    modules = Counter(path.parent for path in (ROOT / root).rglob("*.py") if path.name != "__init__.py")
    assert {folder: count for folder, count in modules.items() if count > MODULES_MAX} == {}


@pytest.mark.parametrize("package", PACKAGES, ids=name_of)
def test_every_package_says_what_it_is_for(package: Path) -> None:
    assert ast.get_docstring(ast.parse((package / "__init__.py").read_text("utf-8")))


def test_imports_go_one_way() -> None:
    checked = subprocess.run(
        [Path(sys.executable).parent / "lint-imports", "--no-cache"], cwd=ROOT, capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout


# The modules of a protocol that may use the HTTP layer. All other modules are domain code.
HTTP_SIDE = re.compile(r"(routes|fast_)\w*|component|metrics|response_format|pages|portal")
DOMAIN_MODULES = [
    module
    for module in MODULES
    if module.relative_to(SOURCE).parts[0] in ("updates", "commands", "events") and not HTTP_SIDE.fullmatch(module.stem)
]
CLI_MODULES = [module for module in MODULES if module.relative_to(SOURCE).parts[0] == "cli"]


@pytest.fixture(scope="module")
def import_graph() -> ImportGraph:
    return grimp.build_graph("restante", cache_dir=None)


@pytest.mark.parametrize("module", DOMAIN_MODULES, ids=name_of)
def test_domain_code_does_not_reach_the_http_layer(module: Path, import_graph: ImportGraph) -> None:
    reached = import_graph.find_upstream_modules(dotted_name_of(module))
    assert [
        import_graph.find_shortest_chain(dotted_name_of(module), name) for name in reached if is_http_layer(name)
    ] == []


@pytest.mark.parametrize("module", CLI_MODULES, ids=name_of)
def test_cli_does_not_import_the_http_layer(module: Path, import_graph: ImportGraph) -> None:
    imported = import_graph.find_modules_directly_imported_by(dotted_name_of(module))
    assert [name for name in imported if is_http_layer(name)] == []


def test_small_module_with_one_importer_is_merged_into_it(import_graph: ImportGraph) -> None:
    """Except modules with SQL of their own, and handlers of the fast lane, which stand apart from other code."""
    small = [
        module
        for module in MODULES
        if len(module.read_text("utf-8").splitlines()) < SMALL_LINES
        and not module.with_suffix(".sql").exists()
        and not module.stem.startswith("fast_")
    ]
    importers = {module: import_graph.find_modules_that_directly_import(dotted_name_of(module)) for module in small}
    assert {name_of(module): found for module, found in importers.items() if len(found) == 1} == {}


def is_http_layer(name: str) -> bool:
    return f"{name}.".startswith("restante.web.")


def dotted_name_of(module: Path) -> str:
    return ".".join(module.relative_to(SOURCE.parent).with_suffix("").parts)


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_no_file_or_function_is_too_long(module: Path) -> None:
    source = module.read_text("utf-8")
    assert len(source.splitlines()) <= FILE_LINES_MAX
    assert [name for name, lines in function_lengths(source) if lines > FUNCTION_LINES_MAX] == []


def test_no_file_of_tests_is_too_long() -> None:
    too_long = [path for path in TESTS.rglob("*.py") if len(path.read_text("utf-8").splitlines()) > FILE_LINES_MAX]
    assert too_long == []


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
    text = "".join(page.read_text("utf-8") for page in (ROOT / "docs").glob("*operations.md"))
    assert [name for name in METRICS if name not in text] == []
