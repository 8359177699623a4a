"""Fixtures for all tests: a manual clock, a real, migrated database for each test, and real services.

Tests in the folders of ON_BOTH_ENGINES that use the database run twice, on SQLite and on PostgreSQL, unless they are
marked `embedded`.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from restante.database.database import Database
from restante.database.engine import Engine
from restante.database.sqlite import SqliteEngine
from tests.databases import FreshDatabases, FreshFiles, FreshPostgres, write_migrated
from tests.defaults import new_postgres_engine
from tests.examples import EXAMPLES_FACTOR, IS_DETERMINISTIC
from tests.services.mariadb import MariaDb, running_mariadb
from tests.services.postgres import PostgresServer, postgres_server
from tests.services.redis import PASSWORD as REDIS_PASSWORD
from tests.services.redis import RedisServer, running_redis

START_MS = 1_800_000_000_000
TESTS = Path(__file__).parent
ON_BOTH_ENGINES = {"commands", "database", "delivery", "events", "identity", "jobs", "models", "updates"}
ENGINES = ("sqlite", "postgres")

# No deadlines: the time of an example depends on what else the machine does.
settings.register_profile(
    "patient",
    deadline=None,
    derandomize=IS_DETERMINISTIC,
    max_examples=100 * EXAMPLES_FACTOR,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("patient")


class ManualClock:
    """The database's clock in tests: it changes only when a test moves it."""

    def __init__(self) -> None:
        self.now_ms = START_MS

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, seconds: float) -> None:
        self.now_ms += int(seconds * 1000)


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDb]:
    """One server for all tests of a pytest worker; each test creates its own database in it."""
    with running_mariadb() as service:
        yield service


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """One server for all tests of a pytest worker, with a password; each test empties it first."""
    with running_redis(password=REDIS_PASSWORD) as server:
        yield server


@pytest.fixture
def empty_redis(redis_server: RedisServer) -> RedisServer:
    redis_server.execute("FLUSHALL")
    return redis_server


@pytest.fixture
def own_redis() -> Iterator[RedisServer]:
    """A server that a test may kill and restart; every write is on disk at once."""
    with running_redis("--appendonly", "yes", "--appendfsync", "always") as server:
        yield server


@pytest.fixture
def own_mariadb() -> Iterator[MariaDb]:
    """A server that a test may stop and restart."""
    with running_mariadb() as service:
        yield service


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    folder = Path(metafunc.module.__file__ or "").relative_to(TESTS).parts[0]
    is_on_both = folder in ON_BOTH_ENGINES and metafunc.definition.get_closest_marker("embedded") is None
    if is_on_both and "engine_name" in metafunc.fixturenames:
        metafunc.parametrize("engine_name", ENGINES)


@pytest.fixture
def engine_name() -> str:
    return "sqlite"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def engine(engine_name: str, clock: ManualClock, request: pytest.FixtureRequest) -> Engine:
    """A migrated database for one test."""
    if engine_name == "postgres":
        return new_postgres_engine(request.getfixturevalue("postgres_url"), writers=2, readers=2, clock=clock)
    folder: Path = request.getfixturevalue("tmp_path")
    return SqliteEngine(write_migrated(folder / "restante.db"), clock=clock)


@pytest.fixture
def fresh(engine_name: str, request: pytest.FixtureRequest) -> FreshDatabases:
    """For tests that need many databases, one after another."""
    if engine_name == "postgres":
        urls = [request.getfixturevalue("migrated_postgres"), request.getfixturevalue("second_postgres")]
        return FreshPostgres(request.getfixturevalue("postgres"), urls)
    return FreshFiles(request.getfixturevalue("tmp_path"))


@pytest.fixture
def database(engine: Engine) -> Iterator[Database]:
    database = Database(engine)
    yield database
    database.close()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A private PostgreSQL server for this test process."""
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def migrated_postgres(postgres: PostgresServer) -> str:
    return postgres.migrated()


@pytest.fixture(scope="session")
def second_postgres(postgres: PostgresServer) -> str:
    return postgres.migrated()


@pytest.fixture(scope="session")
def cleared_postgres(postgres: PostgresServer) -> str:
    return postgres.create()


@pytest.fixture
def postgres_url(postgres: PostgresServer, migrated_postgres: str) -> str:
    """The address of a migrated database without rows that only this test uses."""
    postgres.empty(migrated_postgres)
    return migrated_postgres


@pytest.fixture
def empty_postgres_url(postgres: PostgresServer, cleared_postgres: str) -> str:
    """The address of a database without tables that only this test uses."""
    postgres.clear(cleared_postgres)
    return cleared_postgres
