"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from restante.identity.grants import EXPECTED_SCOPE, Grants, Role, checked_grants, parse_grant

LIMIT_MAX = 1000
ID_MAX = 2**63 - 1  # the largest integer of the database


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
    Role | None,
    typer.Option(
        "--role",
        parser=role_named,
        metavar="|".join(Role.__members__),
        help="Its role, for everything.",
        show_default=False,
    ),
]
GrantOption = Annotated[
    list[str] | None,
    typer.Option(
        "--grant",
        metavar="ROLE@SCOPE",
        help="A role in a scope, instead of --role; repeatable. Scopes: " + EXPECTED_SCOPE + ".",
        show_default=False,
    ),
]


def grants_of(role: Role | None, grants: list[str] | None) -> Grants:
    """The grants of the flags: `--role`, or one or more `--grant`."""
    if (role is None) == (not grants):
        raise typer.BadParameter("either --role or --grant is required")
    if role is not None:
        return Grants.everywhere(role)
    return checked_grants([parse_grant(text, "--grant") for text in grants or ()], "--grant")


def shown_grants(grants: Grants) -> str:
    """The grants as a sentence shows them: a role for everything by its name alone."""
    return ", ".join(text.removesuffix("@all") for text in grants.as_texts())


LimitOption = Annotated[int, typer.Option("--limit", min=1, max=LIMIT_MAX, help="The most items to list.")]
AfterOption = Annotated[int, typer.Option("--after", min=0, max=ID_MAX, help="The last id of the previous page.")]
