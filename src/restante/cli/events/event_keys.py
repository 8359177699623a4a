"""`restante events keys`: the keys that sign event tokens."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from restante.cli.actor import cli_actor
from restante.cli.database import load_settings, open_database, open_database_for
from restante.cli.events.event_clients import Alg
from restante.cli.options import DataOption, JsonOption
from restante.cli.output import Columns, print_items, print_result
from restante.core.iso_time import iso
from restante.database.database import Database
from restante.events.signing import event_keys
from restante.events.signing.key_rotation import RotatedEventKey, WithdrawnEventKey
from restante.identity.master_key import MasterKey, MasterKeySource
from restante.identity.signing_keys import unlock
from restante.server.config.options import signing_options
from restante.server.config.settings import Settings
from restante.server.data_folder import DataFolder

app = typer.Typer(no_args_is_help=True, help="The keys that sign event tokens.")

_COLUMNS: Columns = {
    "key": "kid",
    "algorithm": "alg",
    "status": "status",
    "made": "created_at",
    "signs from": "signs_from",
    "published until": lambda key: key.withdrawn_at or key.published_until,
}


class _Unlocked(NamedTuple):
    database: Database
    master_key: MasterKey
    settings: Settings


@app.command("list")
def list_keys(data: DataOption = None, json: JsonOption = False) -> None:
    """List the keys, newest first: those that sign, will sign, or only verify older tokens."""
    with open_database(data) as database:
        keys = database.read_now(event_keys.list_views)
    when_empty = "No keys yet: they are made when a server starts, and when a client with another algorithm is added."
    print_items(keys, _COLUMNS, json, when_empty=when_empty, json_value={"items": keys})


@app.command("rotate")
def rotate(
    alg: Annotated[Alg | None, typer.Option("--alg", help="The algorithm. Default: from the settings.")] = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Publish a new key now. It signs after the lead time; the old key stays published for the overlap."""
    with _unlocked(data) as (database, master_key, settings):
        options = signing_options(settings)
        key = event_keys.generate(master_key, options.default_alg if alg is None else alg.value)
        lead, overlap = options.rotation.lead_seconds, options.rotation.overlap_seconds
        rotated = RotatedEventKey(key.kid, iso(database.write_now(event_keys.rotate, key, lead, overlap, cli_actor())))
    print_result(rotated, f"{rotated.kid} is published, and signs from {rotated.signs_from}.", json)


@app.command("withdraw")
def withdraw(
    kid: Annotated[str, typer.Argument(metavar="KEY", help="The key's name (kid).")],
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Withdraw a leaked key: it is no longer published, and another key signs."""
    with _unlocked(data) as (database, master_key, _settings):
        successor = event_keys.generate(master_key, database.read_now(event_keys.algorithm_of, kid))
        withdrawn = WithdrawnEventKey(kid, database.write_now(event_keys.withdraw, kid, successor, cli_actor()))
    print_result(withdrawn, f"{kid} is withdrawn. Undelivered tokens signed again: {withdrawn.signed_again}.", json)


@contextmanager
def _unlocked(data: Path | None) -> Iterator[_Unlocked]:
    settings = load_settings(data)
    with open_database_for(settings) as database:
        source = MasterKeySource(DataFolder(settings.data).master_key_path, settings.master_key)
        yield _Unlocked(database, unlock(database, source), settings)
