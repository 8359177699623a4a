"""The databases that the nodes of the conformance cases run on, emptied each time a node is started."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from restante.database.engine import Engine
from restante.database.sqlite import SqliteEngine
from restante.delivery.redis.redis_address import parse_redis_url
from tests.conftest import ManualClock
from tests.defaults import new_postgres_engine
from tests.services.postgres import PostgresServer
from tests.services.redis import RedisServer


@dataclass(frozen=True, slots=True)
class EmptyBackend:
    """An empty database for one node, and the settings that it needs."""

    engine: Engine
    settings: dict[str, Any]


class Backend(ABC):
    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def prepare(self, side: int, folder: Path, clock: ManualClock) -> EmptyBackend:
        """`side` is 0 or 1: which of the two nodes of a case uses it."""


class SqliteBackend(Backend):
    def prepare(self, side: int, folder: Path, clock: ManualClock) -> EmptyBackend:
        return EmptyBackend(SqliteEngine(folder / "restante.db", clock=clock), {})


class PostgresBackend(Backend):
    """PostgreSQL, with or without Redis in front of the log."""

    def __init__(self, name: str, server: PostgresServer, urls: list[str], redis: list[RedisServer] | None) -> None:
        super().__init__(name)
        self._server = server
        self._urls = urls
        self._redis = redis

    def prepare(self, side: int, folder: Path, clock: ManualClock) -> EmptyBackend:
        url = self._urls[side]
        self._server.empty(url)
        engine = new_postgres_engine(url, writers=2, readers=2, clock=clock)
        if self._redis is None:
            return EmptyBackend(engine, {})
        self._redis[side].execute("FLUSHALL")
        return EmptyBackend(engine, {"redis_url": parse_redis_url(self._redis[side].url)})
