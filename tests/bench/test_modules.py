"""Every module of the benchmarks can be imported, and every name that the command line takes is one of a function."""

import importlib
from pathlib import Path

import pytest

from bench.__main__ import BENCHMARKS
from bench.compare import PROBES
from bench.instructions.paths import HOT_PATHS
from bench.profiles.profiles import PROFILES
from bench.trees import Tree

ROOT = Path(__file__).parent.parent.parent
# These run in a virtual environment of their own, with other packages.
OF_PEERS = {"bench.peers.fastapi_redis", "bench.peers.goosebit_setup"}
MODULES = {".".join(path.relative_to(ROOT).with_suffix("").parts) for path in (ROOT / "bench").rglob("*.py")}


@pytest.mark.parametrize("module", sorted(MODULES - OF_PEERS))
def test_module_can_be_imported(module: str) -> None:
    importlib.import_module(module)


@pytest.mark.parametrize(
    "names", [BENCHMARKS, PROBES, PROFILES, HOT_PATHS], ids=["benchmarks", "probes", "profiles", "paths"]
)
def test_every_name_is_one_of_a_function(names: dict[str, object]) -> None:
    assert names
    assert [name for name, function in names.items() if not callable(function)] == []


@pytest.mark.parametrize(
    ("folder", "package"), [("bench", "bench"), ("bench/data", "bench.data")], ids=["older commit", "this commit"]
)
def test_comparison_finds_the_code_that_prepares_data(folder: str, package: str, tmp_path: Path) -> None:
    modules = tmp_path / folder
    modules.mkdir(parents=True)
    for name in ("device_data", "edge_data", "event_data"):
        (modules / f"{name}.py").write_text("")
    (modules / "event_data.py").write_text("def names():\n    return __name__\n")
    data = tmp_path / "prepared"
    data.mkdir()
    _, tokens = Tree("tree", tmp_path, data).prepare("print(event_data.names())")
    assert tokens.read_text() == f"{package}.event_data\n"
