"""`restante keys`: the keys that sign device access tokens."""

from typing import Annotated

import typer

from restante.cli.database import load_settings, open_database, open_database_for
from restante.cli.options import DataOption, JsonOption
from restante.cli.output import print_items, print_result
from restante.core.iso_time import iso_precise
from restante.database.database import Database
from restante.identity import signing_keys
from restante.identity.master_key import MasterKey, MasterKeyError, MasterKeySource
from restante.server.data_folder import DataFolder

app = typer.Typer(no_args_is_help=True, help="The keys that sign device access tokens, in the data folder.")


@app.command("list")
def list_keys(data: DataOption = None, json: JsonOption = False) -> None:
    """List the keys whose tokens are accepted. The first one signs."""
    with open_database(data) as database:
        keys = database.read_now(signing_keys.list_verifying)
    print_items(
        keys,
        {"key": "kid", "verifies until": lambda key: iso_precise(key.verifies_until) or "further notice"},
        json,
        when_empty="No keys yet: the server makes the first one when it starts.",
        json_value=[{"kid": key.kid, "verifies_until": key.verifies_until} for key in keys],
    )


@app.command("rotate")
def rotate(
    at_once: Annotated[
        bool, typer.Option("--at-once", help="Refuse tokens of the old keys now, because a key has leaked.")
    ] = False,
    master_key_lost: Annotated[
        bool,
        typer.Option(
            "--master-key-lost",
            help="Continue with another master key, and --at-once. Data sealed with the lost key stays unreadable.",
        ),
    ] = False,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Sign with a new key from now on. Tokens of the old key stay valid until they expire."""
    settings = load_settings(data)
    folder = DataFolder(settings.data)
    source = MasterKeySource(folder.master_key_path, settings.master_key)
    if master_key_lost:
        # A running server still has the old key in memory, and could not read what the new key seals.
        folder.refuse_if_running()
    with open_database_for(settings) as database:
        master = _replace_lost_key(database, source) if master_key_lost else signing_keys.unlock(database, source)
        key = signing_keys.make(master)
        grace_seconds = 0 if at_once or master_key_lost else settings.access_token_seconds
        database.write_now(signing_keys.rotate, key, grace_seconds)
    print_result({"kid": key.kid}, f"Tokens are signed with {key.kid} from now on.", json)


def _replace_lost_key(database: Database, source: MasterKeySource) -> MasterKey:
    """The master key for a database whose own key is lost: the key that is in place now, or a new one."""
    try:
        database.read_now(signing_keys.matching_master_key, source)
    except MasterKeyError:
        return source.find() or source.make()
    raise MasterKeyError(f"{source} is not lost", "rotate without --master-key-lost")
