"""`restante serve`: run the server, after telling where it is and, if nobody can sign in yet, what to do."""

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import typer

from restante import __version__
from restante.cli.options import ConfigOption
from restante.cli.setting_flags import with_setting_flags
from restante.server import logs
from restante.server.data_folder import DataFolder
from restante.server.setting_kinds import Address
from restante.server.settings import DECLARED, Settings
from restante.server.settings_sources import load, refuse_unshared

COMMAND = "restante"


@with_setting_flags
def serve(flags: Mapping[str, object], config: ConfigOption = None) -> None:
    """Run the server until it is told to stop (SIGTERM, Ctrl-C)."""
    settings = load(flags, os.environ, config)
    refuse_unshared(settings.workers, is_shared=settings.database is not None)
    if settings.database is None:
        DataFolder(settings.data).refuse_if_running()
    # Imported here because the other commands need not wait for the server's libraries.
    from restante.server.app import serve as run_server

    def tell(address: Address, has_users: bool) -> None:
        actual = replace(settings, listen=address)
        typer.echo(startup_message(actual, has_users=has_users, started_as=started_as(sys.argv[0])))

    logs.configure(settings.log_format, settings.log_level)
    code = run_server(settings, tell)
    if code:
        raise typer.Exit(code)


def startup_message(settings: Settings, *, has_users: bool, started_as: str) -> str:
    lines = [
        f"Restante {__version__} serves {'http' if settings.tls_certificate is None else 'https'}://{settings.listen}",
        f"Data: {settings.data.absolute()}",
        *([f"Database: {settings.database}"] if settings.database else []),
    ]
    if not has_users:
        data = "" if settings.data == DECLARED["data"].default else f" --data {shlex.quote(str(settings.data))}"
        # Not as it is: a password may be in it.
        database = " --database URL" if settings.database else ""
        lines += [
            "There is no user yet. Make the first one with:",
            f"    {started_as} user add you@example.com --role admin{data}{database}",
        ]
    return "\n".join(lines)


def started_as(program: str) -> str:
    """How to call this program again from where the caller stands."""
    path = Path(program).absolute()
    on_path = shutil.which(COMMAND)
    if path.name != COMMAND or (on_path is not None and Path(on_path).absolute() == path):
        return COMMAND
    here = Path.cwd()
    return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))
