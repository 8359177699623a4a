"""Shared by the commands for edge sites: database, audit trail, collectors' secrets and options, from the settings."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from restante.cli.database import load_settings, open_database_for
from restante.cli.options import ID_MAX
from restante.commands.audit.audit_trail import KEY_PURPOSE, AuditTrail
from restante.commands.audit.heads_recorder import record_now
from restante.commands.audit.signed_heads import RememberedHead
from restante.commands.component import CommandsOptions
from restante.commands.sites.collectors import SecretBox
from restante.core.keyed_hash import KeyedHash
from restante.database.database import Database
from restante.identity.master_key import MasterKeyError, MasterKeySource
from restante.identity.signing_keys import unlock
from restante.server.config.options import commands_options
from restante.server.data_folder import DataFolder

SiteArgument = Annotated[int, typer.Argument(metavar="SITE", min=1, max=ID_MAX, help="The site's id.")]
SiteOption = Annotated[int | None, typer.Option("--site", min=1, max=ID_MAX, help="Only of this site.")]
ZoneOption = Annotated[int | None, typer.Option("--zone", min=1, max=ID_MAX, help="The zone's id.")]


@dataclass(frozen=True, slots=True)
class EdgeContext:
    database: Database
    trail: AuditTrail
    box: SecretBox
    options: CommandsOptions
    remembered: RememberedHead


@contextmanager
def open_edge(data: Path | None) -> Iterator[EdgeContext]:
    settings = load_settings(data)
    folder = DataFolder(settings.data)
    with open_database_for(settings) as database:
        master_key = unlock(database, MasterKeySource(folder.master_key_path, settings.master_key))
        trail = AuditTrail(master_key.derive_key(KEY_PURPOSE))
        remembered = RememberedHead(folder.path, trail.mac)
        yield EdgeContext(database, trail, SecretBox(master_key), commands_options(settings), remembered)
        if trail.written_chains:
            record_now(database, trail, folder.path)


def audit_mac(data: Path | None) -> KeyedHash:
    """The MAC that verifies the trail. It needs the master key only, not the database, so any machine can verify."""
    settings = load_settings(data)
    source = MasterKeySource(DataFolder(settings.data).master_key_path, settings.master_key)
    master_key = source.find()
    if master_key is None:
        raise MasterKeyError(f"{source} does not exist", "provide the key that the trail was written with")
    return KeyedHash(master_key.derive_key(KEY_PURPOSE))
