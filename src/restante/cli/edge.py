"""What the commands for edge sites stand on: the database, the audit trail and the secrets, by the server's settings.

What is done here is recorded as done by `cli:` and the name of the system's user, so two people at one machine are two
actors only if they are two users.
"""

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from restante.cli.opening import opened_for, settings_of
from restante.cli.options import ID_MAX
from restante.commands.audit import KEY_PURPOSE, AuditTrail
from restante.commands.collectors import SecretBox
from restante.commands.parts import CommandsOptions
from restante.core.keyed_hash import KeyedHash
from restante.database.database import Database
from restante.identity.master_key import MasterKeyError, MasterKeySource
from restante.identity.signing_keys import unlock
from restante.server.data_folder import DataFolder
from restante.server.options import commands_options

SiteArgument = Annotated[int, typer.Argument(metavar="SITE", min=1, max=ID_MAX, help="The site's id.")]
SiteOption = Annotated[int | None, typer.Option("--site", min=1, max=ID_MAX, help="Only of this site.")]
ZoneOption = Annotated[int | None, typer.Option("--zone", min=1, max=ID_MAX, help="The zone's id.")]


@dataclass(frozen=True, slots=True)
class Edge:
    database: Database
    trail: AuditTrail
    box: SecretBox
    options: CommandsOptions


@contextmanager
def opened_edge(data: Path | None) -> Iterator[Edge]:
    settings = settings_of(data)
    folder = DataFolder(settings.data)
    with opened_for(settings) as database:
        master_key = unlock(database, MasterKeySource(folder.master_key_path, settings.master_key))
        trail = AuditTrail(master_key.derived(KEY_PURPOSE))
        yield Edge(database, trail, SecretBox(master_key), commands_options(settings))


def audit_mac(data: Path | None) -> KeyedHash:
    """What the trail is verified with, without a database: of a copy of the key, on any machine."""
    settings = settings_of(data)
    source = MasterKeySource(DataFolder(settings.data).master_key_path, settings.master_key)
    master_key = source.find()
    if master_key is None:
        raise MasterKeyError(f"{source} is not there", "give the key that the trail was written under")
    return KeyedHash(master_key.derived(KEY_PURPOSE))


def actor() -> str:
    user_id = os.geteuid()
    try:
        return f"cli:{pwd.getpwuid(user_id).pw_name}"
    except KeyError:
        return f"cli:{user_id}"


def show_next(next_after: int | None) -> None:
    """Where a list goes on."""
    if next_after is not None:
        typer.echo(f"There are more: --after {next_after}")
