"""Opening the database for a command that works on the data folder, beside a running server or without one.

Only `restante init` creates a missing database; for every other command it is an error, because the folder is then the
wrong one. An older database is migrated only if no server can be running on it: the schema must not change under a
running server.
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
from restante.database.migrate import is_new, migrate, pending
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
def open_database_for(settings: Settings, *, create: bool = False) -> Iterator[Database]:
    folder = DataFolder(settings.data)
    if create:
        folder.create()
    elif settings.database is None:
        folder.refuse_without_database()
    # A command runs one statement at a time.
    engine = engine_of(replace(settings, database_writers=1, database_readers=1))
    try:
        _prepare(engine, folder, create)
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
    """Open the embedded database in the folder; create a missing one."""
    with open_database_for(Settings(data=folder.path), create=True) as database:
        yield database


def _prepare(engine: Engine, folder: DataFolder, create: bool) -> None:
    if engine.is_shared:
        if _is_new(engine):
            if not create:
                raise DatabaseError("it is empty: `restante init` or `restante serve` creates the schema")
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
