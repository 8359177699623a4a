"""Reads the planted bugs of this folder and applies one to a tree. Runs nothing: see `__main__.py`.

Each `*.toml` file is one kind of bug. A table in it is one bug:

    [name-of-the-bug]
    why = "what goes wrong with it"
    file = "src/restante/….py"
    find = '''text that occurs once in the file'''
    replace = '''text that replaces it'''
    tests = ["tests/….py::test_that_must_fail"]
"""

import tomllib
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
REPOSITORY = FOLDER.parents[1]


class DoesNotApply(Exception):
    """The text of a planted bug is not in the source exactly once."""


@dataclass(frozen=True, slots=True)
class PlantedBug:
    kind: str
    name: str
    why: str
    file: str
    find: str
    replace: str
    tests: tuple[str, ...]  # each must fail, in at least one of its cases

    def mutated(self, root: Path) -> str:
        """Return the text of the file below that root, with the bug."""
        path = root / self.file
        text = path.read_text("utf-8") if path.is_file() else ""
        if text.count(self.find) != 1:
            raise DoesNotApply(f"{self.name}: {self.file} has its text {text.count(self.find)} times, not once")
        return text.replace(self.find, self.replace)


def load(folder: Path = FOLDER) -> list[PlantedBug]:
    """Return the bugs of all files, in the order of the files' names."""
    return [bug for file in sorted(folder.glob("*.toml")) for bug in _load_file(file)]


def _load_file(file: Path) -> list[PlantedBug]:
    tables = tomllib.loads(file.read_text("utf-8"))
    return [
        PlantedBug(kind=file.stem, name=name, **{**table, "tests": tuple(table["tests"])})
        for name, table in tables.items()
    ]
