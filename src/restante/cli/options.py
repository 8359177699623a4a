"""Options that several commands share, so that they are spelled and explained the same everywhere."""

from pathlib import Path
from typing import Annotated

import typer

from restante.identity.callers import Role

LIMIT_MAX = 1000
ID_MAX = 2**63 - 1  # what a database can hold


def role_named(name: str) -> Role:
    try:
        return Role[name]
    except KeyError:
        raise typer.BadParameter(f"{name!r} is not a role; there are {', '.join(Role.__members__)}") from None


DataOption = Annotated[
    Path | None, typer.Option("--data", metavar="DIR", help="The data folder (RESTANTE_DATA, else ./data).")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The settings file (RESTANTE_CONFIG, else restante.toml in the data folder).",
    ),
]
RoleOption = Annotated[
    Role,
    typer.Option(
        "--role",
        parser=role_named,
        metavar="|".join(Role.__members__),
        help="What it may do.",
        show_default=False,
    ),
]
LimitOption = Annotated[int, typer.Option("--limit", min=1, max=LIMIT_MAX, help="How many to list at most.")]
AfterOption = Annotated[
    int, typer.Option("--after", min=0, max=ID_MAX, help="Where the page before ended: its last id.")
]
