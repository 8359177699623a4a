"""A running installation for browser tests: one server on the embedded database, or two nodes on PostgreSQL."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from playwright.sync_api import Page

from restante.server.cluster.roles import EVERY_ROLE
from restante.server.config.setting_types import CommaList
from tests.console.console_server import ConsoleServer
from tests.server.edge_resources import APPROVED_TYPE
from tests.server.two_nodes import ONLY_API, Nodes

ENGINES = ("sqlite", "postgres")
# The node with every role, and one that only answers requests. With the embedded database both are the same.
FIRST, SECOND = 0, 1


class Installation(NamedTuple):
    """`urls`: of both nodes."""

    engine: str
    server: ConsoleServer
    urls: tuple[str, str]


class PageOn(Protocol):
    """Opens a page of the browser on a node, in which this person has signed in; None: nobody."""

    def __call__(self, person: str | None, node: int) -> Page: ...


@contextmanager
def running_on_files(folder: Path) -> Iterator[Installation]:
    server = ConsoleServer(folder)
    try:
        yield Installation("sqlite", server, (server.base_url, server.base_url))
    finally:
        server.close()


@contextmanager
def running_on_postgres(folder: Path, url: str) -> Iterator[Installation]:
    nodes = Nodes(folder, url)
    settings = {"commands_needing_approval": CommaList([APPROVED_TYPE])}
    try:
        server = ConsoleServer(folder, nodes.start(EVERY_ROLE, **settings))
        other = nodes.start(ONLY_API, **settings)
        yield Installation("postgres", server, (server.base_url, f"http://127.0.0.1:{other.fast_port}"))
    finally:
        nodes.close()
