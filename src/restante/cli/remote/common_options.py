"""The options that all commands of one kind have: which server, how to print, what to list, whether to ask.

Each table maps the name of a parameter to its type and default; `noun.py` adds them to the signatures of commands.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from restante.cli.remote.values import choice, whole_number

Options = dict[str, tuple[Any, Any]]

ServerOption = Annotated[
    str | None, typer.Option("--server", metavar="URL", help="The server (RESTANTE_SERVER). See `restante login`.")
]
ProfileOption = Annotated[
    str | None, typer.Option("--profile", metavar="NAME", help="A profile that `restante login` has made.")
]
DataOption = Annotated[
    Path | None,
    typer.Option("--data", metavar="DIR", help="The data folder of a server on this machine (RESTANTE_DATA)."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
UtcOption = Annotated[bool, typer.Option("--utc", help="Print times in UTC instead of how long ago.")]
LimitOption = Annotated[int, typer.Option("--limit", metavar="N", parser=whole_number, help="The most items to list.")]
AfterOption = Annotated[str | None, typer.Option("--after", metavar="ID", help="Where the previous page ended.")]
CountOption = Annotated[bool, typer.Option("--count", help="Print how many there are, not which.")]
WatchOption = Annotated[bool, typer.Option("--watch", help="Print again every two seconds, until Ctrl-C.")]
SinceOption = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help="Only newer ones: 15m, 1h, 7d, or a time.")
]
FormatOption = Annotated[str, choice("--format", ("csv", "json"), "The format. Default: csv.")]
OutOption = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="The file. Default: stdout.")]
YesOption = Annotated[bool, typer.Option("--yes", help="Do it without a question.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]

OUTPUT: Options = {"json": (JsonOption, False), "utc": (UtcOption, False)}
TARGET: Options = {"server": (ServerOption, None), "profile": (ProfileOption, None), "data": (DataOption, None)}
WATCHING: Options = {"watch": (WatchOption, False)}
LISTING: Options = {
    "limit": (LimitOption, 100),
    "after": (AfterOption, None),
    "count": (CountOption, False),
    **WATCHING,
}
SINCE: Options = {"since": (SinceOption, None)}
ASKING: Options = {"yes": (YesOption, False), "dry_run": (DryRunOption, False)}
