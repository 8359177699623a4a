"""How a command gets at the database: as one more process on it, with or without a running server.

A command makes the database if there is none, and brings an older one up to date unless a server may run on it:
a server must not have the schema changed under it.
"""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from restante.cli.database_flag import given_database
from restante.database.database import Database
from restante.database.engine import Engine
from restante.database.errors import DatabaseError
from restante.database.migrate import is_new, migrate, pending
from restante.database.outside import OutsideDatabase
from restante.delivery.outbox import OWN_SOURCE
from restante.delivery.sources import Source
from restante.server.data_folder import DataFolder
from restante.server.engines import engine_of, place_of
from restante.server.settings import Settings
from restante.server.settings_sources import load


def settings_of(data: Path | None, config: Path | None = None) -> Settings:
    """The settings as the command's flags, the environment and the settings file have them."""
    return load({"data": data, "database": given_database()}, os.environ, config)


@contextmanager
def opened(data: Path | None) -> Iterator[Database]:
    """The database that the flags, the environment or the defaults name."""
    with opened_for(settings_of(data)) as database:
        yield database


@contextmanager
def opened_sources(data: Path | None, config: Path | None) -> Iterator[dict[str, Source]]:
    """The outboxes there are, by name: the server's own, and those in databases that the settings name."""
    settings = settings_of(data, config)
    outside = [OutsideDatabase(address) for address in settings.outbox]
    try:
        with opened_for(settings) as database:
            every: list[Database | OutsideDatabase] = [database, *outside]
            names = [OWN_SOURCE, *(source.name for source in outside)]
            # A running server notices what a command changes by itself: nobody is to be rung from here.
            yield {name: Source(name, place, lambda: None) for name, place in zip(names, every, strict=True)}
    finally:
        for source in outside:
            source.close()


@contextmanager
def opened_for(settings: Settings) -> Iterator[Database]:
    folder = DataFolder(settings.data)
    folder.create()
    # A command does one thing after another.
    engine = engine_of(replace(settings, database_writers=1, database_readers=1))
    try:
        _make_ready(engine, folder)
        database = Database(engine)
        if engine.is_shared:
            # Imported here because it knows what every protocol announces, and where nobody is told nobody need wait.
            from restante.server.announcements import tell_others

            tell_others(database, engine)
    except DatabaseError as error:
        raise DatabaseError(f"{place_of(settings)}: {error}") from error
    try:
        yield database
    finally:
        database.close()


@contextmanager
def opened_in(folder: DataFolder) -> Iterator[Database]:
    """The embedded database of the folder."""
    with opened_for(Settings(data=folder.path)) as database:
        yield database


def _make_ready(engine: Engine, folder: DataFolder) -> None:
    if engine.is_shared:
        if _is_new(engine):
            migrate(engine)
        else:
            _refuse_older(engine, "it is of an older version: restart the servers that use it first")
        return
    pid = folder.running_pid()
    if pid is None or not folder.database_path.exists():
        migrate(engine)
    else:
        _refuse_older(engine, f"the server that uses it (process {pid}) is of an older version: restart it first")


def _is_new(engine: Engine) -> bool:
    with closing(engine.connect(writable=False)) as conn:
        return is_new(conn)


def _refuse_older(engine: Engine, why: str) -> None:
    with closing(engine.connect(writable=False)) as conn:
        if pending(conn):
            raise DatabaseError(why)
