"""Options of the commands that work on the data folder."""

from pathlib import Path
from typing import Annotated

import typer

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
