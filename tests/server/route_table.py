"""All routes of a node, for tests that have one case for each: known before any server runs."""

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from restante.database.database import Database
from restante.database.migrate import migrate
from restante.database.sqlite import SqliteEngine
from restante.identity.master_key import MasterKey
from restante.server.app import Node
from restante.server.config.settings import Settings
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


def route_named(name: str) -> Route:
    return next(route for route in every_route() if route_name(route) == name)


def case_name(value: Any) -> str:
    """The id of a parameter of a test: a route has its name."""
    return route_name(value) if isinstance(value, Route) else str(value)
