"""`restante events keys`: the keys event tokens are signed with."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from restante.cli.edge import actor
from restante.cli.event_clients import Alg
from restante.cli.opening import opened, opened_for, settings_of
from restante.cli.options import DataOption, JsonOption
from restante.cli.output import show_json, show_table
from restante.core.iso_time import iso
from restante.database.database import Database
from restante.events import event_keys
from restante.events.key_rotation import Rotated, Withdrawn
from restante.identity.master_key import MasterKey, MasterKeySource
from restante.identity.signing_keys import unlock
from restante.server.data_folder import DataFolder
from restante.server.options import token_options
from restante.server.settings import Settings

app = typer.Typer(no_args_is_help=True, help="The keys event tokens are signed with.")


class _Unlocked(NamedTuple):
    database: Database
    master_key: MasterKey
    settings: Settings


@app.command("list")
def list_keys(data: DataOption = None, json: JsonOption = False) -> None:
    """List the keys, newest first: which sign, which will, which are published for their old tokens."""
    with opened(data) as database:
        keys = database.read_now(event_keys.views)
    if json:
        show_json({"items": keys})
        return
    show_table(
        ("key", "algorithm", "status", "made", "signs from", "published until"),
        [
            (key.kid, key.alg, key.status, key.created_at, key.signs_from, key.withdrawn_at or key.published_until)
            for key in keys
        ],
        when_empty="No keys yet: each is made when the first event is signed with its algorithm.",
    )


@app.command("rotate")
def rotate(
    alg: Annotated[Alg | None, typer.Option("--alg", help="Which; else what the settings say.")] = None,
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Publish a new key now and have it sign after the lead; the old one stays published for the overlap."""
    with _unlocked(data) as (database, master_key, settings):
        options = token_options(settings)
        key = event_keys.make(master_key, options.default_alg if alg is None else alg.value)
        lead, overlap = options.rotation.lead_seconds, options.rotation.overlap_seconds
        made = Rotated(key.kid, iso(database.write_now(event_keys.rotate, key, lead, overlap, actor())))
    if json:
        show_json(made)
    else:
        typer.echo(f"{made.kid} is published, and signs from {made.signs_from}.")


@app.command("withdraw")
def withdraw(
    kid: Annotated[str, typer.Argument(metavar="KEY", help="The key's name (kid).")],
    data: DataOption = None,
    json: JsonOption = False,
) -> None:
    """Take a key that has leaked out of the published ones at once, and sign with another."""
    with _unlocked(data) as (database, master_key, _settings):
        successor = event_keys.make(master_key, database.read_now(event_keys.algorithm_of, kid))
        done = Withdrawn(kid, database.write_now(event_keys.withdraw, kid, successor, actor()))
    if json:
        show_json(done)
    else:
        typer.echo(f"{kid} is withdrawn. Tokens nobody had yet, signed again: {done.signed_again}.")


@contextmanager
def _unlocked(data: Path | None) -> Iterator[_Unlocked]:
    settings = settings_of(data)
    with opened_for(settings) as database:
        source = MasterKeySource(DataFolder(settings.data).master_key_path, settings.master_key)
        yield _Unlocked(database, unlock(database, source), settings)
