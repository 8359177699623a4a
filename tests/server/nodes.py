"""Several live nodes in one process, on one real PostgreSQL."""

import contextlib
from pathlib import Path
from typing import Any

from restante.database.postgres import PostgresEngine
from restante.server.roles import RoleNames
from tests.server.serving import Served

ONLY_API = RoleNames(["api"])


class Nodes:
    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._url = url
        self._closing = contextlib.ExitStack()

    def start(self, roles: RoleNames = ONLY_API, **settings: Any) -> Served:
        """One more, which hears the others."""
        served = Served(self._folder, engine=PostgresEngine(self._url, writers=2), roles=roles, **settings)
        self._closing.callback(served.close)
        neighbours = served.node.neighbours
        assert neighbours is not None
        served.until(lambda: neighbours.is_in_touch)
        return served

    def close(self) -> None:
        self._closing.close()
