"""Every component answers idle polls from memory, and reads the database again after `forget_all`."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from restante.database.connection import Connection
from restante.database.sqlite import SqliteConnection
from restante.events.ssf import streams
from restante.events.ssf.streams import StreamRequest
from restante.server import lifecycle
from restante.server.app import Node
from restante.web.component import Component
from tests.commands.edge_fixture import CommandsHarness
from tests.events import inbox_fixture
from tests.events.default_options import stream_rules
from tests.server.live_server import LiveServer
from tests.updates.updates_fixture import DeviceFleet

SCOPES = "eventpolling ssf.read ssf.manage"
EMPTY_POLL = {"maxEvents": 5, "returnImmediately": True}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LiveServer]:
    server = LiveServer(tmp_path, has_services=False)
    yield server
    server.close()


def poll_device(node: Node) -> dict[str, Any]:
    fleet = DeviceFleet(node.database)
    token = node.identity.device_tokens.mint(fleet.user_id, fleet.add_device().id)
    return {"method": "GET", "url": "/apiv1/devices/self/updates", "headers": bearer(token) | {"If-None-Match": "0-0"}}


def poll_commands(node: Node) -> dict[str, Any]:
    harness = CommandsHarness(node.database)
    collector = harness.add_collector(harness.add_site())
    return {"method": "GET", "url": "/api/edge/v1/commands/poll", "headers": bearer(collector.token)}


def poll_events(node: Node) -> dict[str, Any]:
    client = node.database.write_now(inbox_fixture.add_client)
    return {"method": "POST", "url": "/events", "headers": bearer(client.token), "json": EMPTY_POLL}


def poll_stream(node: Node) -> dict[str, Any]:
    def add_stream(conn: Connection) -> tuple[str, str]:
        client = inbox_fixture.add_client(conn, "receiver", SCOPES)
        stream = streams.create(conn, stream_rules(), client.id, StreamRequest())
        return client.token, stream.public_id

    token, stream_id = node.database.write_now(add_stream)
    url = f"/ssf/streams/{stream_id}/poll"
    return {"method": "POST", "url": url, "headers": bearer(token), "json": EMPTY_POLL}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


class Poller:
    """Repeats one idle poll, and counts the transactions that each one needs."""

    def __init__(self, server: LiveServer, request: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
        self._request = request | {"url": f"http://127.0.0.1:{server.fast_port}{request['url']}", "timeout": 30}
        self._transactions = 0
        begin = SqliteConnection.begin

        def counted_begin(conn: SqliteConnection, **options: Any) -> None:
            self._transactions += 1
            begin(conn, **options)

        monkeypatch.setattr(SqliteConnection, "begin", counted_begin)

    def poll_and_count_transactions(self) -> int:
        before = self._transactions
        response = httpx.request(**self._request)
        assert response.status_code in (200, 204), response.text
        return self._transactions - before


Poll = Callable[[Node], dict[str, Any]]
POLLS: list[tuple[Poll, Callable[[Node], Component]]] = [
    (poll_device, lambda node: node.updates),
    (poll_commands, lambda node: node.commands),
    (poll_events, lambda node: node.events),
    (poll_stream, lambda node: node.shared_signals),
]


@pytest.mark.parametrize(("poll", "component_of"), POLLS, ids=[poll.__name__ for poll, _ in POLLS])
def test_idle_poll_reads_the_database_again_after_forget_all(
    server: LiveServer, poll: Poll, component_of: Callable[[Node], Component], monkeypatch: pytest.MonkeyPatch
) -> None:
    poller = Poller(server, poll(server.node), monkeypatch)
    poller.poll_and_count_transactions()
    from_memory = poller.poll_and_count_transactions()
    server.call(component_of(server.node).forget_all)
    assert poller.poll_and_count_transactions() > from_memory
    assert poller.poll_and_count_transactions() == from_memory


@pytest.mark.parametrize(("poll", "_component"), POLLS, ids=[poll.__name__ for poll, _ in POLLS])
def test_token_is_verified_again_after_forget_all(
    server: LiveServer, poll: Poll, _component: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    poller = Poller(server, poll(server.node), monkeypatch)
    poller.poll_and_count_transactions()
    from_memory = poller.poll_and_count_transactions()
    server.call(server.node.identity.forget_all)
    assert poller.poll_and_count_transactions() > from_memory


@pytest.mark.parametrize(("poll", "_component"), POLLS, ids=[poll.__name__ for poll, _ in POLLS])
def test_failed_commit_event_handler_makes_every_component_forget(
    server: LiveServer, poll: Poll, _component: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node forgets tokens, too: the second poll verifies its token again, the third reads only memory."""
    node = server.node
    poller = Poller(server, poll(node), monkeypatch)
    poller.poll_and_count_transactions()
    from_memory = poller.poll_and_count_transactions()
    monkeypatch.setitem(node.components._event_handlers, str, [lambda _event: 1 / 0])
    server.call(node.components.handle_commit_events, ["an event"])
    assert poller.poll_and_count_transactions() > from_memory + (poll is not poll_device)
    assert poller.poll_and_count_transactions() == from_memory


def test_parked_polls_of_events_and_of_streams_are_counted_together(server: LiveServer) -> None:
    node = server.node
    base_url = f"http://127.0.0.1:{server.fast_port}"
    requests = [poll(node) | {"json": {"returnImmediately": False}} for poll in (poll_events, poll_stream)]
    with httpx.Client(base_url=base_url, timeout=30) as client, ThreadPoolExecutor() as threads:
        responses = [threads.submit(client.request, **request) for request in requests]
        server.wait_until(lambda: node.components.parked_count == 2)
        assert "restante_parked_event_polls 2.0" in httpx.get(f"{base_url}/metrics").text
        server.call(node.components.close)
        assert [response.result().status_code for response in responses] == [200, 200]


def test_stop_ends_the_parked_polls_of_every_component(server: LiveServer) -> None:
    node = server.node
    requests = [poll(node) for poll, _ in POLLS]
    for request in requests:
        request |= {"json": {"returnImmediately": False}} if "json" in request else {"params": {"wait": 30}}
    with httpx.Client(base_url=f"http://127.0.0.1:{server.fast_port}", timeout=30) as client:
        with ThreadPoolExecutor() as threads:
            responses = [threads.submit(client.request, **request) for request in requests]
            server.wait_until(lambda: node.components.parked_count == len(POLLS))
            server.call(lifecycle.stop_parking, node)
            # At once: a poll that stays parked would hold up the stop until its wait ends.
            assert server.call(lambda: node.components.parked_count) == 0
        assert [response.result().status_code for response in responses] == [204, 200, 200, 200]
