"""What a node of the conformance cases can stand on, made as new each time one is put there."""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, NamedTuple

from restante.database.engine import Engine
from restante.database.postgres import PostgresEngine
from restante.database.sqlite import SqliteEngine
from restante.delivery.redis_address import parse_redis_url
from tests.conftest import ManualClock
from tests.services.postgres import PostgresServer
from tests.services.redis import RedisServer


class Lodging(NamedTuple):
    engine: Engine
    settings: dict[str, Any]


class Ground(ABC):
    """`side` is which of the two nodes of a case is to stand there."""

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def lodge(self, side: int, folder: Path, clock: ManualClock) -> Lodging: ...


class OnSqlite(Ground):
    def lodge(self, side: int, folder: Path, clock: ManualClock) -> Lodging:
        return Lodging(SqliteEngine(folder / "restante.db", clock=clock), {})


class OnPostgres(Ground):
    def __init__(self, name: str, server: PostgresServer, urls: list[str], redis: list[RedisServer] | None) -> None:
        super().__init__(name)
        self._server = server
        self._urls = urls
        self._redis = redis

    def lodge(self, side: int, folder: Path, clock: ManualClock) -> Lodging:
        url = self._urls[side]
        self._server.empty(url)
        engine = PostgresEngine(url, writers=2, readers=2, clock=clock)
        if self._redis is None:
            return Lodging(engine, {})
        self._redis[side].ask("FLUSHALL")
        return Lodging(engine, {"redis_url": parse_redis_url(self._redis[side].url)})
