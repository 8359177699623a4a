"""Which engine the settings choose. The only file that names engines, for the server and the commands beside it."""

from restante.database.engine import Engine
from restante.database.sqlite import SqliteEngine
from restante.server.data_folder import DataFolder
from restante.server.settings import Settings


def engine_of(settings: Settings) -> Engine:
    """The embedded database of the data folder, or the PostgreSQL database that is named."""
    if settings.database is None:
        return SqliteEngine(DataFolder(settings.data).database_path)
    # Imported here because nobody who does not use it need wait for its driver.
    from restante.database.postgres import PostgresEngine

    return PostgresEngine(settings.database.url, writers=settings.database_writers, readers=settings.database_readers)


def place_of(settings: Settings) -> str:
    """Where the database is, for people."""
    return str(settings.database or DataFolder(settings.data).database_path)
