"""The entry point of the command line: the table of commands, and how errors are shown.

An expected error (a wrong setting, a missing device, a locked folder) is printed as one line on stderr, with exit code
1. Wrong usage is Typer's, with exit code 2. A traceback means a bug.
"""

import gc
import io
import os
import sys
from typing import Annotated, Any

import typer

from restante import __version__
from restante.cli.lazy_commands import LazyCommand, LazyGroup

# Modules loaded at the start are not garbage: collecting during the imports takes a tenth of the start time.
GARBAGE_THRESHOLD = 50_000

TABLE = {
    "serve": LazyCommand("server.serve:serve", "Run the server until it is stopped (SIGTERM, Ctrl-C)."),
    "settings": LazyCommand(
        "server.settings:settings", "Show every setting, its value and where the value comes from."
    ),
    "doctor": LazyCommand(
        "server.doctor:doctor", "Check settings, data folder, database, clock, disk, outbox, Redis and TLS files."
    ),
    "copy": LazyCommand("server.copy:copy_database", "Copy an embedded database into PostgreSQL, and compare."),
    "user": LazyCommand("fleet.users:app", "People who may sign in."),
    "apikey": LazyCommand("fleet.apikeys:app", "Keys for programs."),
    "device": LazyCommand("fleet.devices:app", "Devices that poll."),
    "signal": LazyCommand("fleet.signals:app", "Signals to devices."),
    "outbox": LazyCommand("fleet.outbox:app", "Signals on their way to devices."),
    "poll-boost": LazyCommand("fleet.poll_boosts:app", "Faster polling of all devices for a limited time."),
    "keys": LazyCommand("fleet.keys:app", "The keys that sign device access tokens."),
    "site": LazyCommand("edge.sites:app", "Sites with miners."),
    "zone": LazyCommand("edge.sites:zone_app", "Zones of sites."),
    "collector": LazyCommand("edge.collectors:app", "Devices that poll for a site's commands."),
    "miner": LazyCommand("edge.miners:app", "Miners at sites."),
    "commands": LazyCommand("edge.commands:app", "Commands for miners."),
    "audit": LazyCommand("edge.audit:app", "The audit trail of edge commands."),
    "events": LazyCommand("events.groups:app", "Event polling."),
    "migrate": LazyCommand("server.migrations:app", "The migrations of the database schema."),
}


class CommandLine(LazyGroup):
    table = TABLE

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # The reader of the output closed it; Typer ends without a message.
            raise
        except UnicodeError:
            _print_error("the input is not valid UTF-8")
            raise typer.Exit(1) from None
        except _expected_errors() as error:
            for line in (str(error) or type(error).__name__).splitlines():
                _print_error(line)
            raise typer.Exit(1) from None


def _expected_errors() -> tuple[type[Exception], ...]:
    """Imported only after an error: the module that raised it has already loaded them."""
    from restante.core.errors import RestanteError
    from restante.database.errors import DatabaseError
    from restante.identity.master_key import MasterKeyError
    from restante.server.config.settings_sources import SettingsError

    return RestanteError, DatabaseError, SettingsError, MasterKeyError, OSError


def _open_closed_streams() -> None:
    """Open the closed ones of stdin, stdout and stderr on the null device.

    Otherwise the first files that the program opens, such as the database, would get their numbers, and every line
    that is printed would be written into them.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest free number is this one.
            os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w")


class _Output(io.FileIO):
    """Standard output whose first error says that it is about standard output; the rest of the text is dropped."""

    has_failed = False

    def write(self, data: Any, /) -> int:
        try:
            return len(data) if self.has_failed else super().write(data)
        except (BrokenPipeError, BlockingIOError):
            raise
        except OSError as error:
            self.has_failed = True
            raise OSError(f"standard output cannot be written: {error.strerror}") from error


def _print_error(message: str) -> None:
    # Imported when needed, like the commands: the table library takes longer to load than printing the help.
    from restante.cli.output import print_error

    print_error(message)


def _print_version(is_requested: bool) -> None:
    if is_requested:
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
    # Files that the program creates are readable by their owner only, wherever the data folder is.
    os.umask(0o077)
    gc.set_threshold(GARBAGE_THRESHOLD)
    is_output_closed = sys.stdout is None
    _open_closed_streams()
    if is_output_closed and sys.argv[1:2] != ["serve"]:
        # Before it changes anything: a new token, for example, would be lost.
        _print_error("standard output is closed: redirect it to a file, or to /dev/null")
        sys.exit(1)
    output = _Output(1, "w", closefd=False)
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(output), line_buffering=output.isatty())
    app(prog_name="restante")
