"""`--database`, for every command that takes `--data`: added to all of them in one place, as none does anything else
with it than to have the right database opened."""

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
_given: ContextVar[str | None] = ContextVar("database", default=None)


def given_database() -> str | None:
    """What the command that runs was given."""
    return _given.get()


def add_to_all(app: typer.Typer) -> None:
    """Give the flag to the commands of the application and of its groups."""
    for command in app.registered_commands:
        if command.callback is not None and _parameters(command.callback) & {"data", "database"} == {"data"}:
            command.callback = _with_flag(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_to_all(group.typer_instance)


def _parameters(command: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(command).parameters)


def _with_flag(command: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(command)
    def run(*, database: str | None = None, **given: Any) -> Any:
        token = _given.set(database)
        try:
            return command(**given)
        finally:
            _given.reset(token)

    signature = inspect.signature(command)
    flag = inspect.Parameter("database", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=DatabaseOption)
    before = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in signature.parameters.values()]
    place = next(at for at, each in enumerate(before) if each.name == "data") + 1
    shaped: Any = run
    shaped.__signature__ = signature.replace(parameters=[*before[:place], flag, *before[place:]])
    return run
