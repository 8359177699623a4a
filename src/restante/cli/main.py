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

# On a wide terminal the summaries of commands fit on their lines.
HELP_WIDTH_MAX = 110

TABLE = {
    "serve": LazyCommand("server.serve:serve", "Run the server until it is stopped (SIGTERM, Ctrl-C)."),
    "demo": LazyCommand("server.demo:demo", "Run a server with a simulated fleet on a temporary folder, to look at."),
    "settings": LazyCommand(
        "server.settings:settings", "Show every setting, its value and where the value comes from."
    ),
    "doctor": LazyCommand(
        "server.doctor:doctor", "Check settings, data folder, database, clock, disk, outbox, Redis and TLS files."
    ),
    "init": LazyCommand("server.init:init", "Create a data folder, and the first user."),
    "copy": LazyCommand("server.copy:copy_database", "Copy an embedded database into PostgreSQL, and compare."),
    "backup": LazyCommand("server.backup:backup", "Make a backup while the server runs, and check it."),
    "restore": LazyCommand("server.backup:restore", "Check a backup, and restore it."),
    "keys": LazyCommand("server.keys:app", "The keys that sign device access tokens, and the master key."),
    "migrate": LazyCommand("server.migrations:app", "The migrations of the database schema."),
    "login": LazyCommand("remote.sign_in:login", "Sign in to a server."),
    "logout": LazyCommand("remote.sign_in:logout", "Sign out of a server."),
    "whoami": LazyCommand("remote.sign_in:whoami", "Show the server that commands use, and as whom."),
    "profile": LazyCommand("remote.sign_in:profile_app", "The servers that you signed in to."),
    "status": LazyCommand("remote.status:status", "Show what is stuck."),
    "user": LazyCommand("fleet.users:app", "People who may sign in."),
    "key": LazyCommand("fleet.api_keys:app", "API keys of programs."),
    "device": LazyCommand("fleet.devices:app", "Devices that poll."),
    "group": LazyCommand("fleet.groups:app", "Groups of devices: saved filters."),
    "config": LazyCommand("fleet.configs:config_app", "Install configs of devices."),
    "certificate": LazyCommand("fleet.certificates:certificate_app", "Certificates of devices."),
    "ca": LazyCommand("fleet.certificates:ca_app", "Certificate authorities."),
    "account": LazyCommand("fleet.certificates:account_app", "Issuing accounts of certificates."),
    "signal": LazyCommand("fleet.configs:signal_app", "Signals to devices."),
    "outbox": LazyCommand("fleet.outbox:outbox_app", "Signals on their way to devices."),
    "poll-boost": LazyCommand("fleet.outbox:poll_boost_app", "Faster polling of all devices for some time."),
    "bulk": LazyCommand("jobs.bulk:app", "One action on everything that matches a filter."),
    "job": LazyCommand("jobs.jobs:app", "Bulk actions that the server runs as jobs."),
    "rollout": LazyCommand("jobs.rollouts:app", "Changes in waves: some devices or miners first, then the others."),
    "site": LazyCommand("edge.sites:site_app", "Sites with miners."),
    "zone": LazyCommand("edge.sites:zone_app", "Zones of sites."),
    "miner": LazyCommand("edge.miners:app", "Miners at sites."),
    "collector": LazyCommand("edge.collectors:app", "Collectors: programs that poll for the commands of a site."),
    "command": LazyCommand("edge.commands:app", "Commands for miners."),
    "rule": LazyCommand("edge.rules:rule_app", "Rules that send commands when telemetry meets a condition."),
    "telemetry": LazyCommand("edge.rules:telemetry_app", "What miners have measured."),
    "safety-event": LazyCommand("edge.rules:safety_event_app", "What collectors did by themselves for safety."),
    "audit": LazyCommand("edge.audit:app", "The audit trail of edge commands."),
    "client": LazyCommand("events.clients:app", "Clients of event polling."),
    "event": LazyCommand("events.events:app", "Events for clients."),
    "event-key": LazyCommand("events.keys_and_streams:event_key_app", "The keys that sign event tokens."),
    "stream": LazyCommand("events.keys_and_streams:stream_app", "Streams of Shared Signals."),
}


class CommandLine(LazyGroup):
    table = TABLE

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except (BrokenPipeError, typer.Exit, typer.Abort, typer.BadParameter):
            # Typer handles these; of a broken pipe, whose reader has gone, it says nothing.
            raise
        except UnicodeError:
            _print_error("the input is not valid UTF-8")
            raise typer.Exit(1) from None
        except _expected_errors() as error:
            for line in _text_of(error).splitlines():
                _print_error(line)
            raise typer.Exit(1) from None


def _text_of(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


def _expected_errors() -> tuple[type[Exception], ...]:
    """Imported only after an error: the module that raised it has already loaded them."""
    from restante_client.errors import RestanteError as ClientError

    from restante.core.errors import RestanteError
    from restante.database.errors import DatabaseError
    from restante.identity.master_key import MasterKeyError
    from restante.server.config.settings_sources import SettingsError

    return RestanteError, ClientError, DatabaseError, SettingsError, MasterKeyError, OSError


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
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": HELP_WIDTH_MAX},
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
    try:
        app(prog_name="restante")
    except KeyboardInterrupt:
        # Ctrl-C while modules are loaded, or in a completion.
        sys.exit(130)
