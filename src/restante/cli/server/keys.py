"""`restante keys`: the keys that sign device access tokens, and the change of the master key."""

from typing import Annotated

import typer

from restante.cli.database import load_settings, open_database, open_database_for
from restante.cli.options import DataOption, JsonOption
from restante.cli.output import print_items, print_result
from restante.core.iso_time import iso_precise
from restante.database.database import Database
from restante.identity import signing_keys
from restante.identity.master_key import NEXT_VARIABLE, VARIABLE, MasterKey, MasterKeyError, MasterKeySource
from restante.identity.reseal import key_change
from restante.identity.reseal.runner import ResealOptions, ResealResult, ResealRun
from restante.server.data_folder import DataFolder
from restante.server.engines import master_key_source

app = typer.Typer(no_args_is_help=True, help="The keys that sign device access tokens, and the master key.")


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
    source = master_key_source(settings)
    if master_key_lost:
        # A running server still has the old key in memory, and could not read what the new key seals.
        folder.refuse_if_running()
    with open_database_for(settings) as database:
        master = _replace_lost_key(database, source) if master_key_lost else signing_keys.unlock(database, source)
        key = signing_keys.make(master)
        grace_seconds = 0 if at_once or master_key_lost else settings.access_token_seconds
        if master_key_lost:
            database.write_now(key_change.forget_lost_key)
        database.write_now(signing_keys.rotate, key, grace_seconds)
    print_result({"kid": key.kid}, f"Tokens are signed with {key.kid} from now on.", json)


@app.command("reseal")
def reseal(
    wait: Annotated[
        int,
        typer.Option(
            "--wait", metavar="SECONDS", min=0, max=3600, help="How long to wait for servers to know the new key."
        ),
    ] = 60,
    settle: Annotated[
        int,
        typer.Option(
            "--settle",
            metavar="SECONDS",
            min=0,
            max=3600,
            help="How long to wait for work that began before, then verify again.",
        ),
    ] = 30,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Put every sealed value under a new master key, while the servers run. Run it again to continue after a stop.

    The new key is in the file master.key.next of the data folder, which is made if it is missing, or in
    RESTANTE_MASTER_KEY_NEXT. Every server must have it.
    """
    settings = load_settings(data)
    source = master_key_source(settings)
    with open_database_for(settings) as database:
        options = ResealOptions(wait, settle)
        result = ResealRun(database, source, options, lambda step: typer.echo(step, err=True)).run()
    values = {
        "old_key": result.old_key_id,
        "new_key": result.new_key_id,
        "values": result.values,
        "resealed": result.resealed,
        "unreadable": result.unreadable_names,
    }
    print_result(values, _reseal_text(result, source), json)


def _reseal_text(result: ResealResult, source: MasterKeySource) -> str:
    lines = [
        f"All {result.values - result.unreadable} sealed values are under the key {result.new_key_id}, "
        f"each was opened with it. {result.resealed} were resealed now."
    ]
    if result.unreadable:
        lines.append(f"{result.unreadable} values open with neither key: {'; '.join(result.unreadable_names)}.")
    if source.from_environment is not None:
        lines.append(f"Now give the new key by {VARIABLE} to every server, and remove {NEXT_VARIABLE}.")
    elif result.kept_file is not None:
        lines.append(f"{source.path} has the new key; {result.kept_file} has the old one, which no server needs.")
        lines.append(f"On other machines, put {source.next_path.name} in the place of {source.path.name}.")
    lines.append("Backups that were made before need the old key: keep it with them, and nowhere else.")
    return "\n".join(lines)


def _replace_lost_key(database: Database, source: MasterKeySource) -> MasterKey:
    """The master key for a database whose own key is lost: the key that is in place now, or a new one."""
    try:
        database.read_now(signing_keys.matching_master_key, source)
    except MasterKeyError:
        return source.find() or source.make()
    raise MasterKeyError(f"{source} is not lost", "rotate without --master-key-lost")
