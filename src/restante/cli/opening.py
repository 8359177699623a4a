"""How a command gets at the database: as one more process on the file, with or without a running server.

A command makes the database if there is none, and brings an older one up to date unless a server runs on it:
a server must not have the schema changed under it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from restante.database.database import Database
from restante.database.errors import DatabaseError
from restante.database.migrate import migrate, pending
from restante.database.outside import OutsideDatabase
from restante.database.sqlite import SqliteEngine
from restante.delivery.outbox import OWN_SOURCE
from restante.delivery.sources import Source
from restante.server.data_folder import DataFolder
from restante.server.settings_sources import load


@contextmanager
def opened(data: Path | None) -> Iterator[Database]:
    """The database of the data folder that the flag, the environment or the default names."""
    with opened_in(DataFolder(load({"data": data}, os.environ).data)) as database:
        yield database


@contextmanager
def opened_sources(data: Path | None, config: Path | None) -> Iterator[dict[str, Source]]:
    """The outboxes there are, by name: the server's own, and those in databases that the settings name."""
    settings = load({"data": data}, os.environ, config)
    outside = [OutsideDatabase(address) for address in settings.outbox]
    try:
        with opened_in(DataFolder(settings.data)) as database:
            every: list[Database | OutsideDatabase] = [database, *outside]
            names = [OWN_SOURCE, *(source.name for source in outside)]
            # A running server notices what a command changes by itself: nobody is to be rung from here.
            yield {name: Source(name, place, lambda: None) for name, place in zip(names, every, strict=True)}
    finally:
        for source in outside:
            source.close()


@contextmanager
def opened_in(folder: DataFolder) -> Iterator[Database]:
    folder.create()
    database = _opened(folder)
    try:
        yield database
    finally:
        database.close()


def _opened(folder: DataFolder) -> Database:
    engine = SqliteEngine(folder.database_path)
    pid = folder.running_pid()
    try:
        if pid is None or not folder.database_path.exists():
            migrate(engine)
        else:
            _refuse_older_server(engine, pid)
        return Database(engine)
    except DatabaseError as error:
        raise DatabaseError(f"{folder.database_path}: {error}") from error


def _refuse_older_server(engine: SqliteEngine, pid: int) -> None:
    conn = engine.connect(writable=False)
    try:
        if pending(conn):
            raise DatabaseError(f"the server that uses it (process {pid}) is of an older version: restart it first")
    finally:
        conn.close()
