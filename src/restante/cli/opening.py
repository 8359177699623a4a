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
from restante.database.sqlite import SqliteEngine
from restante.server.data_folder import DataFolder
from restante.server.settings_sources import load


@contextmanager
def opened(data: Path | None) -> Iterator[Database]:
    """The database of the data folder that the flag, the environment or the default names."""
    with opened_in(DataFolder(load({"data": data}, os.environ).data)) as database:
        yield database


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
