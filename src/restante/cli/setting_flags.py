"""One command-line flag for every setting, made from the declarations."""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from restante.server.setting_kinds import YesOrNo
from restante.server.settings import DECLARED, Declaration

FLAGGED = {name: declaration for name, declaration in DECLARED.items() if declaration.flag}


def with_setting_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Give the command those flags; it receives what was given as `flags`, by setting name."""

    @functools.wraps(command)
    def run(**given: Any) -> None:
        flags = {name: given.pop(name) for name in FLAGGED}
        command(flags=flags, **given)

    own = [each for each in inspect.signature(command).parameters.values() if each.name != "flags"]
    # Typer reads a command's options from its signature, and a signature is what can be made from data.
    shaped: Any = run
    shaped.__signature__ = inspect.Signature([*own, *map(_parameter, FLAGGED.values())])
    return run


def _parameter(declaration: Declaration) -> inspect.Parameter:
    word = declaration.name.replace("_", "-")
    if isinstance(declaration.kind, YesOrNo):
        option = typer.Option(f"--{word}/--no-{word}", help=_help(declaration))
        annotation: Any = Annotated[bool | None, option]
    elif getattr(declaration.kind, "is_repeatable", False):
        option = typer.Option(f"--{word}", metavar="VALUE", help=_help(declaration) + " May be given several times.")
        annotation = Annotated[list[str] | None, option]
    else:
        # Taken as text: the settings' own reading says the same about a wrong value whatever its source.
        option = typer.Option(f"--{word}", metavar="VALUE", help=_help(declaration))
        annotation = Annotated[str | None, option]
    return inspect.Parameter(declaration.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _help(declaration: Declaration) -> str:
    default = declaration.shown(declaration.default)
    return f"{declaration.meaning} [default: {default}]" if default else declaration.meaning
