"""The choice of the database engine and of the master key's place by the settings.

The only module of the server and the CLI that names engines.
"""

from restante.database.clocks.steady_clock import SteadyClock
from restante.database.engine import Engine
from restante.database.sqlite import SqliteEngine
from restante.identity.master_key import MasterKeySource
from restante.server.config.settings import Settings
from restante.server.data_folder import DataFolder


def engine_of(settings: Settings) -> Engine:
    """The engine of the embedded database in the data folder, or of the configured PostgreSQL database."""
    if settings.database is None:
        folder = DataFolder(settings.data)
        folder.refuse_copied()
        return SqliteEngine(folder.database_path, clock=SteadyClock(folder.clock_path))
    # Imported here because only installations with PostgreSQL need its driver.
    from restante.database.postgres.engine import PostgresEngine

    return PostgresEngine(settings.database.url, writers=settings.database_writers, readers=settings.database_readers)


def database_location(settings: Settings) -> str:
    """The path or the URL of the database, without its password."""
    return str(settings.database or DataFolder(settings.data).database_path)


def master_key_source(settings: Settings) -> MasterKeySource:
    """Where the server finds its master key, and the next one while it changes."""
    return MasterKeySource(DataFolder(settings.data).master_key_path, settings.master_key, settings.master_key_next)


def steady_clock_of(engine: Engine) -> SteadyClock | None:
    """The clock of an embedded database; None if the database has a clock of its own."""
    return engine.clock if isinstance(engine, SqliteEngine) and isinstance(engine.clock, SteadyClock) else None
