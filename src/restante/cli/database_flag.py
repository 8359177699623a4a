"""The flag `--database`, added to every command that takes `--data`.

No command uses the value itself; only opening the database does. So the flag is added in one place, and its value is
kept in a context variable.
"""

import functools
import inspect
from collections.abc import Callable
from contextvars import ContextVar
from typing import Annotated, Any

import typer

DatabaseOption = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL",
        help="The PostgreSQL database (RESTANTE_DATABASE, else the embedded one in the data folder).",
    ),
]
_database: ContextVar[str | None] = ContextVar("database", default=None)


def database_from_flag() -> str | None:
    """The value of the flag of the running command."""
    return _database.get()


def add_database_flag(app: typer.Typer) -> None:
    """Add the flag to the commands of the application and of its groups."""
    for command in app.registered_commands:
        if command.callback is not None and _takes_database(command.callback):
            command.callback = _with_flag(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_database_flag(group.typer_instance)


def _takes_database(command: Callable[..., Any]) -> bool:
    """Whether the command works on the data folder; a command that calls a server takes `--server`, too."""
    return set(inspect.signature(command).parameters) & {"data", "database", "server"} == {"data"}


def _with_flag(command: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(command)
    def run(*, database: str | None = None, **arguments: Any) -> Any:
        token = _database.set(database)
        try:
            return command(**arguments)
        finally:
            _database.reset(token)

    signature = inspect.signature(command)
    flag = inspect.Parameter("database", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=DatabaseOption)
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in signature.parameters.values()]
    position = next(index for index, each in enumerate(parameters) if each.name == "data") + 1
    wrapped: Any = run
    wrapped.__signature__ = signature.replace(parameters=[*parameters[:position], flag, *parameters[position:]])
    return run
