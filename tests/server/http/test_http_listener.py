"""New connections: answered before a protocol exists, or handed over to one."""

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from restante.server.http import http_listener
from restante.updates.devices import devices
from tests.pki import pki
from tests.server.fast_lane_device import DeviceServer
from tests.server.live_server import RawConnection
from tests.server.odd_requests import OTHER
from tests.server.tls_connection import SETTINGS, TlsConnection

Connect = Callable[[], RawConnection]


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


@pytest.fixture(params=["plain", "tls"])
def patient(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[DeviceServer, Connect]]:
    """A server that hands no connection over for want of a request, however slowly a test sends it."""
    monkeypatch.setattr(http_listener, "WAIT_SECONDS", 600.0)
    is_tls = request.param == "tls"
    server = DeviceServer(tmp_path, **(SETTINGS if is_tls else {}))
    yield server, (lambda: TlsConnection(server.live_server.fast_port)) if is_tls else server.live_server.connect
    server.live_server.close()


def test_closing_idle_poll_needs_no_protocol(
    patient: tuple[DeviceServer, Connect], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, connect = patient
    raw = idle(server, b"Connection: close")
    for _ in range(2):  # the server learns the template of the request
        with connect() as wire:
            assert wire.request(raw).status == 204
    made = MadeProtocols(server, monkeypatch)
    before, polls = server.fast_requests, server.node.updates.poll.counters.idle
    for _ in range(5):
        with connect() as wire:
            assert wire.request(raw).status == 204
            # With TLS this is its regular end, not only that of the socket.
            assert wire.socket.recv(1) == b""
    assert made.count == 0
    assert server.fast_requests == before + 5
    assert server.node.updates.poll.counters.idle == polls + 5
    server.live_server.wait_until(lambda: server.node.lane.limits.admitted == 0)


def test_closing_first_poll_needs_no_protocol(
    patient: tuple[DeviceServer, Connect], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, connect = patient
    made = MadeProtocols(server, monkeypatch)
    before = server.fast_requests
    for cursor, status in ((server.cursor(server.device), 204), (b"0-0", 200)):
        server.live_server.call(server.node.identity.device_tokens.forget_all)
        with connect() as wire:
            response = wire.request(server.device.poll(b"", b"If-None-Match: " + cursor, b"Connection: close"))
            assert (response.status, response.header(b"connection")) == (status, b"close")
            assert wire.socket.recv(1) == b""
    assert made.count == 0
    assert server.fast_requests == before + 2
    server.live_server.wait_until(lambda: server.node.lane.limits.admitted == 0)


def test_refused_first_poll_is_passed_to_the_application(patient: tuple[DeviceServer, Connect]) -> None:
    server, connect = patient
    device = server.add_device()
    server.node.database.write_now(devices.revoke, device.id)
    server.live_server.call(server.node.identity.device_tokens.forget_all)
    with connect() as wire:
        assert wire.request(device.poll()).status == 403
        assert wire.request(OTHER).status == 200
    with connect() as wire:
        assert wire.request(device.poll()[:-4] + b"A\r\n\r\n").status == 401
    server.live_server.wait_until(lambda: server.node.lane.limits.admitted == 0)


def test_requests_of_one_tls_record_and_of_many_are_served_in_order(tmp_path: Path) -> None:
    server = DeviceServer(tmp_path, **SETTINGS)
    try:
        raw = idle(server)
        with TlsConnection(server.live_server.fast_port) as wire:
            wire.send(raw + OTHER + raw)
            for part in (raw[:20], raw[20:], OTHER, raw):
                wire.send(part)
            assert [wire.response().status for _ in range(6)] == [204, 200, 204, 204, 200, 204]
    finally:
        server.live_server.close()


def test_handshake_under_way_survives_a_reload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_listener, "WAIT_SECONDS", 600.0)
    server = DeviceServer(tmp_path, **SETTINGS)
    try:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=pki().authority.certificate)
        client = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
        with pytest.raises(ssl.SSLWantReadError):
            client.do_handshake()
        with server.live_server.connect() as wire:
            wire.send(outgoing.read())
            incoming.write(wire.socket.recv(65_536))
            client.do_handshake()
            assert server.live_server.wait_for(server.live_server.listening_server.reload())
            client.write(OTHER)
            wire.send(outgoing.read())
            received = b""
            while b"HTTP/1.1 200" not in received:
                incoming.write(wire.socket.recv(65_536))
                with suppress(ssl.SSLWantReadError):
                    received += client.read()
        server.live_server.wait_until(lambda: server.node.lane.limits.admitted == 0)
    finally:
        server.live_server.close()


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


def test_kernel_keeps_new_connections_until_their_first_bytes_arrive(server: DeviceServer) -> None:
    (listening,) = getattr(server.live_server.listening_server, "_sockets")  # noqa: B009
    assert listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT) > 0
    with server.live_server.connect() as wire:
        # Not for ever: a silent client is counted, and gets a deadline.
        server.live_server.wait_until(lambda: server.node.lane.limits.admitted == 1)
        assert wire.request(idle(server)).status == 204


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
