"""Commands that are loaded when they are called, so that none waits for what the others need.

What a group of commands is called, and the line that says what it is for, stand in a table (`main.py`): enough to help
and to complain about a wrong name without loading any of them.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup
from typer.main import get_group

from restante.cli.database_flag import add_to_all


class Loadable(NamedTuple):
    """A command, or a group of them. `place` is its module in this folder, and what it is called there."""

    place: str
    summary: str

    def load(self) -> Any:
        module, _, name = self.place.partition(":")
        return getattr(import_module(f"restante.cli.{module}"), name)


class LoadedCommands(Mapping[str, Any]):
    """Click's commands by name, each loaded when it is looked up."""

    def __init__(self, table: Mapping[str, Loadable]) -> None:
        self._table = table
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = _as_click(name, self._table[name].load())
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


class LoadingGroup(TyperGroup):
    """A group with such commands. Whoever derives from it says which."""

    table: Mapping[str, Loadable]

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands: Any = LoadedCommands(self.table)

    def list_commands(self, _ctx: Any) -> list[str]:
        return list(self.table)

    def format_commands(self, _ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.summary) for name, each in self.table.items()])


def _as_click(name: str, loaded: Any) -> Any:
    holder = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    if isinstance(loaded, typer.Typer):
        holder.add_typer(loaded, name=name)
    else:
        holder.command(name)(loaded)
    add_to_all(holder)
    return get_group(holder).commands[name]
