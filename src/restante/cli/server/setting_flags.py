"""One command-line flag per setting, generated from the settings' declarations."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from restante.server.config.setting_types import Boolean
from restante.server.config.settings import DECLARATIONS, Declaration

FLAGGED = {name: declaration for name, declaration in DECLARATIONS.items() if declaration.flag}


def with_setting_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Add the flags to the command; it receives their values as `flags`, by setting name."""

    @functools.wraps(command)
    def run(**arguments: Any) -> None:
        flags = {name: arguments.pop(name) for name in FLAGGED}
        command(flags=flags, **arguments)

    own = [each for each in inspect.signature(command).parameters.values() if each.name != "flags"]
    # Typer reads the options of a command from its signature, which can be generated.
    wrapped: Any = run
    wrapped.__signature__ = inspect.Signature([*own, *map(_parameter, FLAGGED.values())])
    return run


def _parameter(declaration: Declaration) -> inspect.Parameter:
    word = declaration.name.replace("_", "-")
    if isinstance(declaration.type, Boolean):
        option = typer.Option(f"--{word}/--no-{word}", help=_help(declaration))
        annotation: Any = Annotated[bool | None, option]
    elif getattr(declaration.type, "is_repeatable", False):
        option = typer.Option(f"--{word}", metavar="VALUE", help=_help(declaration) + " May be given several times.")
        annotation = Annotated[list[str] | None, option]
    else:
        # Passed on as text, so that the settings report a wrong value the same way for every source.
        option = typer.Option(f"--{word}", metavar="VALUE", help=_help(declaration))
        annotation = Annotated[str | None, option]
    return inspect.Parameter(declaration.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _help(declaration: Declaration) -> str:
    default = declaration.shown(declaration.default)
    return f"{declaration.meaning} [default: {default}]" if default else declaration.meaning
