"""The backends that the cases run on, by name."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.conformance.backends import Backend, PostgresBackend, SqliteBackend
from tests.services.postgres import PostgresServer
from tests.services.redis import RedisServer, running_redis


@pytest.fixture
def backend(backend_name: str, request: pytest.FixtureRequest) -> Backend:
    if backend_name == "sqlite":
        return SqliteBackend(backend_name)
    redis = request.getfixturevalue("paired_redis") if backend_name == "redis" else None
    server: PostgresServer = request.getfixturevalue("postgres")
    return PostgresBackend(backend_name, server, request.getfixturevalue("paired_postgres"), redis)


@pytest.fixture(scope="session")
def paired_postgres(postgres: PostgresServer) -> list[str]:
    """One database for each of a case's two nodes."""
    return [postgres.migrated(), postgres.migrated()]


@pytest.fixture(scope="session")
def paired_redis() -> Iterator[list[RedisServer]]:
    """Two servers: the devices of both nodes have the same ids, and messages reach all databases of a server."""
    with ExitStack() as opened:
        yield [opened.enter_context(running_redis()) for _ in range(2)]
