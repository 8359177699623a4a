"""The grounds that the cases are run on, by their names."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.conformance.grounds import Ground, OnPostgres, OnSqlite
from tests.services.postgres import PostgresServer
from tests.services.redis import RedisServer, running_redis


@pytest.fixture
def ground(ground_name: str, request: pytest.FixtureRequest) -> Ground:
    if ground_name == "sqlite":
        return OnSqlite(ground_name)
    redis = request.getfixturevalue("paired_redis") if ground_name == "redis" else None
    server: PostgresServer = request.getfixturevalue("postgres")
    return OnPostgres(ground_name, server, request.getfixturevalue("paired_postgres"), redis)


@pytest.fixture(scope="session")
def paired_postgres(postgres: PostgresServer) -> list[str]:
    """One database for each of a case's two nodes."""
    return [postgres.migrated(), postgres.migrated()]


@pytest.fixture(scope="session")
def paired_redis() -> Iterator[list[RedisServer]]:
    """Two servers: the nodes' devices have the same ids, and rings are heard in all of a server's databases."""
    with ExitStack() as opened:
        yield [opened.enter_context(running_redis()) for _ in range(2)]
