"""Several live nodes in one process, on one real PostgreSQL."""

import contextlib
from pathlib import Path
from typing import Any

from restante.server.cluster.roles import RoleNames
from tests.defaults import new_postgres_engine
from tests.server.live_server import LiveServer

ONLY_API = RoleNames(["api"])


class Nodes:
    def __init__(self, folder: Path, url: str) -> None:
        self._folder = folder
        self._url = url
        self._closing = contextlib.ExitStack()

    def start(self, roles: RoleNames = ONLY_API, **settings: Any) -> LiveServer:
        """Start a node and wait until it is connected to the others."""
        server = LiveServer(self._folder, engine=new_postgres_engine(self._url, writers=2), roles=roles, **settings)
        self._closing.callback(server.close)
        cluster = server.node.cluster
        assert cluster is not None
        server.wait_until(lambda: cluster.is_connected)
        return server

    def close(self) -> None:
        self._closing.close()
