"""`restante keys`: the keys the server signs device access tokens with."""

from typing import Annotated

import typer

from restante.cli.opening import opened, opened_for, settings_of
from restante.cli.options import DataOption, JsonOption
from restante.cli.output import moment, show_json, show_table
from restante.database.database import Database
from restante.identity import signing_keys
from restante.identity.master_key import MasterKey, MasterKeyError, MasterKeySource
from restante.server.data_folder import DataFolder

app = typer.Typer(no_args_is_help=True, help="The keys device access tokens are signed with.")


@app.command("list")
def list_keys(data: DataOption = None, json: JsonOption = False) -> None:
    """List the keys whose tokens are accepted; the one that signs first."""
    with opened(data) as database:
        keys = database.read_now(signing_keys.verifying)
    if json:
        show_json([{"kid": key.kid, "verifies_until": key.verifies_until} for key in keys])
    else:
        show_table(
            ("key", "verifies until"),
            [(key.kid, moment(key.verifies_until) or "further notice") for key in keys],
            when_empty="No keys yet: the server makes the first one when it starts.",
        )


@app.command("rotate")
def rotate(
    at_once: Annotated[
        bool, typer.Option("--at-once", help="Refuse the old keys' tokens now, for a key that has leaked.")
    ] = False,
    master_key_lost: Annotated[
        bool,
        typer.Option(
            "--master-key-lost",
            help="Go on under another master key, and --at-once: what was sealed under the lost one is lost with it.",
        ),
    ] = False,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Sign with a new key from now on; the old one's tokens stay valid until they expire."""
    settings = settings_of(data)
    folder = DataFolder(settings.data)
    source = MasterKeySource(folder.master_key_path, settings.master_key)
    if master_key_lost:
        # A server that runs still has the old key, and would not get on with the new one.
        folder.refuse_if_running()
    with opened_for(settings) as database:
        master = _in_place_of_lost(database, source) if master_key_lost else signing_keys.unlock(database, source)
        key = signing_keys.make(master)
        grace_seconds = 0 if at_once or master_key_lost else settings.access_token_seconds
        database.write_now(signing_keys.rotate, key, grace_seconds)
    if json:
        show_json({"kid": key.kid})
    else:
        typer.echo(f"Tokens are signed with {key.kid} from now on.")


def _in_place_of_lost(database: Database, source: MasterKeySource) -> MasterKey:
    """Another key for a database whose own is lost: the one that lies there now, or a new one."""
    try:
        database.read_now(signing_keys.matching_key, source)
    except MasterKeyError:
        return source.find() or source.make()
    raise MasterKeyError(f"{source} is not lost", "rotate without --master-key-lost")
