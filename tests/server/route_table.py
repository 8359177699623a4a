"""All routes of a node, for tests that have one case for each: known before any server runs."""

import tempfile
from functools import cache
from pathlib import Path

from restante.database.database import Database
from restante.database.migrate import migrate
from restante.database.sqlite import SqliteEngine
from restante.identity.master_key import MasterKey
from restante.server.app import Node
from restante.server.settings import Settings
from restante.web.routes import Route


@cache
def every_route() -> list[Route]:
    with tempfile.TemporaryDirectory() as folder:
        engine = SqliteEngine(Path(folder) / "restante.db")
        migrate(engine)
        node = Node(Settings(data=Path(folder)), engine, Database(engine), MasterKey(bytes(32)))
        routes = node.routes()
        node.database.close()
        return routes


def route_name(route: Route) -> str:
    return f"{route.method} {route.path}"
