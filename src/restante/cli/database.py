"""Opening the database for a command, beside a running server or without one.

A command creates a missing database. It migrates an older one only if no server can be running on it: the schema must
not change under a running server.
"""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from restante.cli.database_flag import database_from_flag
from restante.database.database import Database
from restante.database.engine import Engine
from restante.database.errors import DatabaseError
from restante.database.external.external_database import ExternalDatabase
from restante.database.migrate import is_new, migrate, pending
from restante.delivery.outbox.outbox import OWN_SOURCE
from restante.delivery.outbox.outbox_sources import OutboxSource
from restante.server.config.settings import Settings
from restante.server.config.settings_sources import load
from restante.server.data_folder import DataFolder
from restante.server.engines import database_location, engine_of


def load_settings(data: Path | None, config: Path | None = None) -> Settings:
    """Load the settings from the command's flags, the environment and the settings file."""
    return load({"data": data, "database": database_from_flag()}, os.environ, config)


@contextmanager
def open_database(data: Path | None) -> Iterator[Database]:
    """Open the database that the flags, the environment or the defaults name."""
    with open_database_for(load_settings(data)) as database:
        yield database


@contextmanager
def open_outboxes(data: Path | None, config: Path | None) -> Iterator[dict[str, OutboxSource]]:
    """Open all outboxes, by name: the server's own, and those in the external databases of the settings."""
    settings = load_settings(data, config)
    external = [ExternalDatabase(address) for address in settings.outbox]
    try:
        with open_database_for(settings) as own:
            databases: list[Database | ExternalDatabase] = [own, *external]
            names = [OWN_SOURCE, *(source.name for source in external)]
            # A running server notices the changes of a command by itself: there is nothing to wake here.
            yield {
                name: OutboxSource(name, database, lambda: None)
                for name, database in zip(names, databases, strict=True)
            }
    finally:
        for source in external:
            source.close()


@contextmanager
def open_database_for(settings: Settings) -> Iterator[Database]:
    folder = DataFolder(settings.data)
    folder.create()
    # A command runs one statement at a time.
    engine = engine_of(replace(settings, database_writers=1, database_readers=1))
    try:
        _prepare(engine, folder)
        database = Database(engine)
        if engine.is_shared:
            # Imported here because it loads every protocol; with an embedded database there is no node to inform.
            from restante.server.cluster.cluster_messages import publish_commits

            publish_commits(database, engine)
    except DatabaseError as error:
        raise DatabaseError(f"{database_location(settings)}: {error}") from error
    try:
        yield database
    finally:
        database.close()


@contextmanager
def open_embedded_database(folder: DataFolder) -> Iterator[Database]:
    """Open the embedded database in the folder."""
    with open_database_for(Settings(data=folder.path)) as database:
        yield database


def _prepare(engine: Engine, folder: DataFolder) -> None:
    if engine.is_shared:
        if _is_new(engine):
            migrate(engine)
        else:
            _refuse_older(engine, "it is of an older version: restart the servers that use it first")
        return
    folder.refuse_key_without_database()
    pid = folder.running_pid()
    if pid is None or not folder.database_path.exists():
        migrate(engine)
    else:
        _refuse_older(engine, f"the server that uses it (process {pid}) is of an older version: restart it first")


def _is_new(engine: Engine) -> bool:
    with closing(engine.connect(writable=False)) as conn:
        return is_new(conn)


def _refuse_older(engine: Engine, message: str) -> None:
    with closing(engine.connect(writable=False)) as conn:
        if pending(conn):
            raise DatabaseError(message)
