"""The console of two nodes on PostgreSQL: every page, live pages on the other node, and a node that disappears."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from restante.console.server_facts import AWAY_AFTER_MS
from restante.database.connection import Connection
from restante.delivery.log.signals import Signal
from restante.delivery.outbox import outbox
from restante.server.cluster import node_registry
from restante.server.cluster.node_registry import NodeIdentity, NodeLoad
from restante.server.cluster.roles import EVERY_ROLE
from restante.web.access import SESSION_COOKIE
from tests.console.console_server import ConsoleServer, eventually
from tests.console.test_access import fill, guarded
from tests.server.two_nodes import ONLY_API, Nodes

pytestmark = pytest.mark.slow


@pytest.fixture
def nodes(tmp_path: Path, postgres_url: str) -> Iterator[Nodes]:
    nodes = Nodes(tmp_path, postgres_url)
    yield nodes
    nodes.close()


def test_every_page_is_shown_and_every_node_is_listed(nodes: Nodes, tmp_path: Path) -> None:
    server = ConsoleServer(tmp_path, nodes.start(EVERY_ROLE))
    other = nodes.start(ONLY_API)
    filled = fill(server)
    with server.client("admin") as admin:
        shown = {filled.path(route): admin.get(filled.path(route)).status_code for route in guarded(filled, "GET")}
        assert shown == dict.fromkeys(shown, 200)
        eventually(lambda: f":{other.fast_port}" in admin.get("/console").text)


def test_change_on_one_node_reaches_a_live_page_on_the_other(nodes: Nodes, tmp_path: Path) -> None:
    server = ConsoleServer(tmp_path, nodes.start(EVERY_ROLE))
    other = nodes.start(ONLY_API)
    device_id = server.add_device("live")
    cookies = {SESSION_COOKIE: server.session("fleet")}
    with httpx.Client(base_url=f"http://127.0.0.1:{other.fast_port}", cookies=cookies, timeout=60) as client:
        with client.stream("GET", "/console/live?topics=updates") as stream:
            lines = stream.iter_lines()
            assert next(line for line in lines if line.startswith("event:")) == "event: changed"
            server.database.write_now(outbox.enqueue, device_id, Signal("app.note", 1, {}))
            assert next(line for line in lines if line.startswith("event:")) == "event: changed"
        eventually(lambda: "<code>app.note</code>" in client.get(f"/console/outbox?device={device_id}").text)


def test_each_node_shares_its_rates_with_the_others(nodes: Nodes, tmp_path: Path) -> None:
    server = ConsoleServer(tmp_path, nodes.start(EVERY_ROLE))
    nodes.start(ONLY_API)

    def series() -> list[int]:
        found = server.database.read_now(node_registry.list_nodes)
        return [len(node.load.series.get("polls", [])) for node in found]

    eventually(lambda: len(series()) == 2 and all(series()))
    with server.client("fleet") as fleet:
        eventually(lambda: "All 2 nodes, the last five minutes" in fleet.get("/console").text)


def test_node_that_disappeared_is_away(nodes: Nodes, tmp_path: Path) -> None:
    server = ConsoleServer(tmp_path, nodes.start(EVERY_ROLE))

    def add_old(conn: Connection) -> None:
        node_registry.beat(conn, NodeIdentity("gone", "192.0.2.7:8080", "all", 1, "far"), NodeLoad(), 2 * AWAY_AFTER_MS)

    server.database.write_now(add_old)
    with server.client("admin") as admin:
        eventually(lambda: "Node 192.0.2.7:8080 does not answer" in admin.get("/console").text)
