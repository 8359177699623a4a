"""Commands whose modules are imported when they are called, so that no command waits for the imports of others.

A table in `main.py` names each command and its summary. That is enough to print the help, or the error for an unknown
command, without importing any of them.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from restante.cli.database_flag import add_database_flag


class LazyCommand(NamedTuple):
    """A command or a group of commands. `target` is its module in this package and its name there: `module:name`."""

    target: str
    summary: str

    def load(self) -> Any:
        module, _, name = self.target.partition(":")
        return getattr(import_module(f"restante.cli.{module}"), name)


class LazyCommands(Mapping[str, Any]):
    """Click's commands by name, each imported when it is looked up."""

    def __init__(self, table: Mapping[str, LazyCommand]) -> None:
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


class LazyGroup(TyperGroup):
    """A group of lazy commands; a subclass sets the table."""

    table: Mapping[str, LazyCommand]

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.commands: Any = LazyCommands(self.table)

    def list_commands(self, _ctx: Any) -> list[str]:
        return list(self.table)

    def format_commands(self, _ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in self.table.items()])


class PlainCommand(TyperCommand):
    """A command whose help shows arguments as people write them, `SITE`, without braces and types of Python."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return ["[OPTIONS]", *(usage_of(each) for each in self.get_params(ctx) if _is_argument(each))]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        records = [(each, each.get_help_record(ctx)) for each in self.get_params(ctx)]
        arguments = [(name_of(each), record[1]) for each, record in records if record and _is_argument(each)]
        options = [record for each, record in records if record and not _is_argument(each)]
        for title, rows in (("Arguments", arguments), ("Options", options)):
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


def _is_argument(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "argument")


def name_of(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def usage_of(argument: Any) -> str:
    """The argument in a line of usage: `SITE`, `TAG...` for several, `[SITE]` if it is optional."""
    name = name_of(argument) if argument.required else f"[{name_of(argument)}]"
    return name if argument.nargs == 1 else f"{name}..."


def _show_plainly(app: typer.Typer) -> None:
    for command in app.registered_commands:
        command.cls = PlainCommand
    for group in app.registered_groups:
        if group.typer_instance is not None:
            _show_plainly(group.typer_instance)


def _as_click(name: str, loaded: Any) -> Any:
    holder = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False)
    if isinstance(loaded, typer.Typer):
        holder.add_typer(loaded, name=name)
    else:
        holder.command(name)(loaded)
    add_database_flag(holder)
    _show_plainly(holder)
    return get_group(holder).commands[name]
