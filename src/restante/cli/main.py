"""The command line: one file for each group of commands, put together here.

Whatever is expected to go wrong (a wrong setting, a missing device, a locked folder) ends here as one line on
stderr and exit code 1; a traceback means a fault of ours. Wrong usage is Typer's, with exit code 2.
"""

import gc
import os
from typing import Annotated, Any

import typer

from restante import __version__
from restante.cli.loading import Loadable, LoadingGroup

# What a program loads when it starts is no garbage: looking for some in it, again and again, is a tenth of the start.
GARBAGE_THRESHOLD = 50_000

TABLE = {
    "serve": Loadable("serve:serve", "Run the server until it is told to stop (SIGTERM, Ctrl-C)."),
    "settings": Loadable("settings:settings", "Show every setting, its value and where the value comes from."),
    "doctor": Loadable(
        "doctor:doctor", "Check settings, data folder, database, clock, disk, outbox, Redis and TLS files."
    ),
    "copy": Loadable("copying:copy_database", "Copy an embedded database into PostgreSQL, and compare."),
    "user": Loadable("users:app", "People who may sign in."),
    "apikey": Loadable("apikeys:app", "Keys for programs."),
    "device": Loadable("devices:app", "Devices that poll."),
    "signal": Loadable("signals:app", "Signals to devices."),
    "outbox": Loadable("outbox:app", "Signals on their way to devices."),
    "rollout": Loadable("rollouts:app", "The fleet's pace during a rollout."),
    "keys": Loadable("keys:app", "The keys device access tokens are signed with."),
    "site": Loadable("sites:app", "Sites with miners."),
    "zone": Loadable("sites:zone_app", "Zones of sites."),
    "collector": Loadable("collectors:app", "Devices that fetch a site's commands."),
    "miner": Loadable("miners:app", "Miners at sites."),
    "commands": Loadable("commands:app", "Commands for miners."),
    "audit": Loadable("audit:app", "The audit trail of edge commands."),
    "events": Loadable("events:app", "Event polling."),
    "migrate": Loadable("migrations:app", "The database's schema: what is there, what is lacking."),
}


class CommandLine(LoadingGroup):
    table = TABLE

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # The reader of our output has seen enough; Typer ends quietly.
            raise
        except UnicodeError:
            _complain("what was given is not valid UTF-8")
            raise typer.Exit(1) from None
        except _expected() as error:
            for line in (str(error) or type(error).__name__).splitlines():
                _complain(line)
            raise typer.Exit(1) from None


def _expected() -> tuple[type[Exception], ...]:
    """Looked up when something has gone wrong, and by then loaded by whoever raised it."""
    from restante.core.errors import RestanteError
    from restante.database.errors import DatabaseError
    from restante.identity.master_key import MasterKeyError
    from restante.server.settings_sources import SettingsError

    return RestanteError, DatabaseError, SettingsError, MasterKeyError, OSError


def _complain(message: str) -> None:
    # Loaded when it is needed, like the commands: what draws tables takes longer to load than to help does.
    from restante.cli.output import complain

    complain(message)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"restante {__version__}")
        raise typer.Exit


def _global_options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Keeps signals, commands and event tokens for machines that can only call home."""


app = typer.Typer(
    cls=CommandLine,
    callback=_global_options,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def main() -> None:
    # What the program makes is its owner's alone, wherever the data folder lies.
    os.umask(0o077)
    gc.set_threshold(GARBAGE_THRESHOLD)
    app(prog_name="restante")
