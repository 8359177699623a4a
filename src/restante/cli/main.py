"""The command line: one file for each group of commands, put together here.

Whatever is expected to go wrong (a wrong setting, a missing device, a locked folder) ends here as one line on
stderr and exit code 1; a traceback means a fault of ours. Wrong usage is Typer's, with exit code 2.
"""

import os
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from restante import __version__
from restante.cli import (
    apikeys,
    audit,
    collectors,
    command_verify,
    commands,
    copying,
    devices,
    doctor,
    events,
    keys,
    migrations,
    miners,
    outbox,
    rollouts,
    serve,
    settings,
    signals,
    sites,
    users,
)
from restante.cli.database_flag import add_to_all
from restante.cli.output import complain
from restante.core.errors import RestanteError
from restante.database.errors import DatabaseError
from restante.identity.master_key import MasterKeyError
from restante.server.settings_sources import SettingsError

EXPECTED = (RestanteError, DatabaseError, SettingsError, MasterKeyError, OSError)


class CommandLine(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # The reader of our output has seen enough; Typer ends quietly.
            raise
        except EXPECTED as error:
            for line in (str(error) or type(error).__name__).splitlines():
                complain(line)
            raise typer.Exit(1) from None
        except UnicodeError:
            complain("what was given is not valid UTF-8")
            raise typer.Exit(1) from None


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
app.command("serve")(serve.serve)
app.command("settings")(settings.settings)
app.add_typer(users.app, name="user")
app.add_typer(apikeys.app, name="apikey")
app.add_typer(devices.app, name="device")
app.add_typer(signals.app, name="signal")
app.add_typer(outbox.app, name="outbox")
app.add_typer(rollouts.app, name="rollout")
app.add_typer(keys.app, name="keys")
app.add_typer(sites.app, name="site")
app.add_typer(sites.zone_app, name="zone")
app.add_typer(collectors.app, name="collector")
app.add_typer(miners.app, name="miner")
commands.app.command("verify")(command_verify.verify)
app.add_typer(commands.app, name="commands")
app.add_typer(audit.app, name="audit")
app.add_typer(events.app, name="events")
app.command("doctor")(doctor.doctor)
app.add_typer(migrations.app, name="migrate")
app.command("copy")(copying.copy_database)
add_to_all(app)


def main() -> None:
    # What the program makes is its owner's alone, wherever the data folder lies.
    os.umask(0o077)
    app(prog_name="restante")
