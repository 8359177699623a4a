"""New connections without TLS: answered before a protocol exists, or handed over to one."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from restante.server.http import plain_listener
from tests.server.fast_lane_device import DeviceServer
from tests.server.live_server import RawConnection
from tests.server.odd_requests import OTHER


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeviceServer]:
    server = DeviceServer(tmp_path_factory.mktemp("plain"))
    yield server
    server.live_server.close()


def idle(server: DeviceServer, *lines: bytes) -> bytes:
    return server.device.poll(b"", b"If-None-Match: " + server.cursor(server.device), *lines)


def learn(server: DeviceServer, raw: bytes) -> None:
    """Let the server learn the template, so that it has the response in memory."""
    with server.live_server.connect() as wire:
        assert wire.request(raw).status == 204


class MadeProtocols:
    """Counts the protocols that the server makes."""

    def __init__(self, server: DeviceServer, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        listening = server.live_server.listening_server
        listener = listening.servers[0]
        make = getattr(listener, "_make_protocol")  # noqa: B009

        def counted() -> Any:
            self.count += 1
            return make()

        monkeypatch.setattr(listener, "_make_protocol", counted)


def test_closing_idle_poll_needs_no_protocol(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However slowly this test sends its requests. On a server of its own: its timer lasts as long.
    monkeypatch.setattr(plain_listener, "WAIT_SECONDS", 600.0)
    server = DeviceServer(tmp_path_factory.mktemp("slow"))
    try:
        check_closing_polls(server, monkeypatch)
    finally:
        server.live_server.close()


def check_closing_polls(server: DeviceServer, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = idle(server, b"Connection: close")
    learn(server, raw)
    made = MadeProtocols(server, monkeypatch)
    before, polls = server.fast_requests, server.node.updates.poll.counters.idle
    for _ in range(5):
        with server.live_server.connect() as wire:
            assert wire.request(raw).status == 204
            assert wire.is_closed_by_server()
    assert made.count == 0
    assert server.fast_requests == before + 5
    assert server.node.updates.poll.counters.idle == polls + 5
    server.live_server.wait_until(lambda: server.node.lane.limits.admitted == 0)


def test_idle_poll_that_keeps_its_connection_is_answered_and_counted_once(server: DeviceServer) -> None:
    raw = idle(server)
    learn(server, raw)
    before, polls = server.fast_requests, server.node.updates.poll.counters.idle
    with server.live_server.connect() as wire:
        for _ in range(3):
            assert wire.request(raw).status == 204
        assert wire.request(OTHER).status == 200
        server.live_server.wait_until(lambda: server.node.lane.limits.admitted == 1)
    assert server.fast_requests == before + 3
    assert server.node.updates.poll.counters.idle == polls + 3
    server.live_server.wait_until(lambda: server.node.lane.limits.admitted == 0)


def test_bytes_read_early_come_before_all_others(server: DeviceServer) -> None:
    """Sent in parts as fast as possible, while the connection changes from one to the other."""
    raw = idle(server)
    with ExitStack() as opened:
        wires: list[RawConnection] = [opened.enter_context(server.live_server.connect()) for _ in range(20)]
        for number, wire in enumerate(wires):
            cut = 1 + number * 7
            for part in (raw[:cut], raw[cut:], OTHER, raw):
                wire.send(part)
        assert [[wire.response().status for _ in range(3)] for wire in wires] == [[204, 200, 204]] * 20


def test_connection_without_a_request_is_handed_over(server: DeviceServer) -> None:
    listener: Any = server.live_server.listening_server.servers[0]
    with server.live_server.connect() as wire:
        server.live_server.wait_until(lambda: server.node.lane.connections == 1)
        server.live_server.wait_until(lambda: not listener.waiting)
        server.live_server.wait_until(lambda: server.node.lane.connections == 1)
        assert wire.request(OTHER).status == 200
    server.live_server.wait_until(lambda: server.node.lane.limits.admitted == 0)


def test_client_that_leaves_without_a_request_is_forgotten(server: DeviceServer) -> None:
    for _ in range(10):
        server.live_server.connect().socket.close()
    server.live_server.wait_until(lambda: server.node.lane.connections == 0)
    server.live_server.wait_until(lambda: server.node.lane.limits.admitted == 0)


def test_waiting_connections_are_closed_when_the_server_stops(tmp_path_factory: pytest.TempPathFactory) -> None:
    server = DeviceServer(tmp_path_factory.mktemp("stopping"))
    with ExitStack() as opened:
        wires = [opened.enter_context(server.live_server.connect()) for _ in range(10)]
        server.live_server.wait_until(lambda: server.node.lane.limits.admitted == 10)
        server.live_server.close()
        assert all(wire.is_closed_by_server() for wire in wires)
    assert server.node.lane.limits.admitted == 0


def test_refused_connection_is_told_so_unless_it_reads_the_metrics(tmp_path_factory: pytest.TempPathFactory) -> None:
    server = DeviceServer(tmp_path_factory.mktemp("full"), connections_max=1)
    try:
        with server.live_server.connect() as first:
            assert first.request(OTHER).status == 200
            with server.live_server.connect() as refused:
                response = refused.request(OTHER)
                assert (response.status, response.header(b"connection")) == (503, b"close")
                assert response.header(b"retry-after") is not None
                assert refused.is_closed_by_server()
            with server.live_server.connect() as monitoring:
                assert monitoring.request(OTHER.replace(b"/healthz", b"/metrics")).status == 200
        server.live_server.wait_until(lambda: server.node.lane.limits.refused_now == 0)
    finally:
        server.live_server.close()
