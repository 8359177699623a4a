"""`restante serve`: run the server. At the start it prints its address and, without users, how to add one."""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import structlog
import typer

from restante import __version__
from restante.cli.options import ConfigOption
from restante.cli.server.setting_flags import with_setting_flags
from restante.server.config.setting_types import Address
from restante.server.config.settings import DECLARATIONS, Settings
from restante.server.config.settings_sources import check_public_url, check_workers, load, passwords_in_flags
from restante.server.data_folder import DataFolder
from restante.server.monitoring import logs

COMMAND = "restante"

log = structlog.get_logger()


@with_setting_flags
def serve(flags: Mapping[str, object], config: ConfigOption = None) -> None:
    """Run the server until it is stopped (SIGTERM, Ctrl-C)."""
    settings = load(flags, os.environ, config)
    check_public_url(settings)
    check_workers(settings.workers, is_shared=settings.database is not None)
    if settings.database is None:
        DataFolder(settings.data).refuse_if_running()
    # Imported here so that the errors above do not wait for the server's libraries.
    from restante.server.app import serve as run_server

    def print_startup_message(address: Address, has_users: bool) -> None:
        actual = replace(settings, listen=address)
        try:
            typer.echo(startup_message(actual, has_users=has_users, started_as=started_as(sys.argv[0])))
        except OSError as error:
            # No reader is left; the log goes to stderr.
            log.warning("standard output cannot be written", error=str(error))
            sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")

    logs.configure(settings.log_format, settings.log_level)
    for flag in passwords_in_flags(flags):
        log.warning("other users of this machine can see the password in a flag: use @FILE or the variable", flag=flag)
    code = run_server(settings, print_startup_message)
    if code:
        raise typer.Exit(code)


def startup_message(settings: Settings, *, has_users: bool, started_as: str) -> str:
    lines = [
        f"Restante {__version__} serves {'http' if settings.tls_certificate is None else 'https'}://{settings.listen}",
        f"Data: {settings.data.absolute()}",
        *([f"Database: {settings.database}"] if settings.database else []),
    ]
    if not has_users:
        data = "" if settings.data == DECLARATIONS["data"].default else f" --data {shlex.quote(str(settings.data))}"
        lines += [
            "There is no user yet. Make the first one with:",
            f"    {started_as} user create you@example.com --role admin{data}",
        ]
    return "\n".join(lines)


def started_as(program: str) -> str:
    """The command that starts this program again from the current folder."""
    path = Path(program).absolute()
    on_path = shutil.which(COMMAND)
    if path.name != COMMAND or (on_path is not None and Path(on_path).absolute() == path):
        return COMMAND
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))
