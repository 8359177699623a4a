"""One address, or one caller, tries to take all connections or waits of the server (promise 3 of SECURITY.md)."""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from restante.core.events.poll_acks import NO_VERDICTS
from restante.events.inbox.poll_schema import ParsedPoll
from restante.server.config.setting_types import CommaList
from restante.server.http import fast_lane, idle_connections
from restante.server.http.connection_limits import REFUSED_MAX, ConnectionLimits, Verdict, address_key
from tests.server.fast_lane_collector import BASE, CollectorServer
from tests.server.fast_lane_device import DeviceServer
from tests.server.live_server import TIMEOUT_SECONDS, RawConnection
from tests.server.odd_requests import OTHER
from tests.server.tls_connection import SETTINGS, TlsConnection

GREEDY, HONEST = "127.0.0.2", "127.0.0.1"
UNFINISHED = b"GET /healthz HTTP/1.1\r\nX: "
METRICS = b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"

OpenServer = Callable[..., DeviceServer]


class ConnectionFrom(RawConnection):
    """A connection from an address of this machine."""

    def __init__(self, address: str, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), TIMEOUT_SECONDS, (address, 0))
        self._unread = b""


@pytest.fixture
def open_server(tmp_path: Path) -> Iterator[OpenServer]:
    with ExitStack() as opened:

        def open_server(**settings: Any) -> DeviceServer:
            server = DeviceServer(tmp_path, **settings)
            opened.callback(server.live_server.close)
            return server

        yield open_server


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused connections wait for their request however busy the machine is."""
    monkeypatch.setattr(fast_lane, "REFUSED_SECONDS", 60.0)


@pytest.fixture
def no_idle_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection counts as idle at once, and each search is a new one."""
    monkeypatch.setattr(idle_connections, "IDLE_SECONDS", 0.0)
    monkeypatch.setattr(idle_connections, "SEARCH_SECONDS", 0.0)


def test_address_over_its_share_is_refused_while_others_are_served(open_server: OpenServer) -> None:
    server = open_server(connections_max=20, connections_per_address_max=5)
    port = server.live_server.fast_port
    with ExitStack() as opened, capture_logs() as logged:
        greedy = [opened.enter_context(ConnectionFrom(GREEDY, port)) for _ in range(30)]
        responses = [wire.request(OTHER) for wire in greedy]
        assert [response.status for response in responses] == [200] * 5 + [503] * 25
        assert all(1 <= int(response.header(b"retry-after") or b"0") <= 11 for response in responses[5:])
        honest = [opened.enter_context(ConnectionFrom(HONEST, port)) for _ in range(5)]
        assert [wire.request(server.device.poll()).status for wire in honest] == [200] * 5
        assert server.node.lane.limits.refused == {"connections_max": 0, "address": 25, "descriptors": 0}
    lines = [line for line in logged if line["event"] == "connections refused"]
    assert [(line["reason"], line["address"]) for line in lines] == [("address", GREEDY)]


def test_closed_connection_frees_the_share_of_its_address(open_server: OpenServer) -> None:
    server = open_server(connections_per_address_max=1)
    for _ in range(3):
        with ConnectionFrom(GREEDY, server.live_server.fast_port) as wire:
            assert wire.request(OTHER).status == 200
        server.live_server.wait_until(lambda: server.node.lane.limits.admitted == 0)


def test_connections_of_a_trusted_proxy_are_not_counted_by_address(open_server: OpenServer) -> None:
    proxies = CommaList([ip_network(GREEDY)])
    server = open_server(connections_per_address_max=1, trusted_proxies=proxies)
    with ExitStack() as opened:
        wires = [opened.enter_context(ConnectionFrom(GREEDY, server.live_server.fast_port)) for _ in range(5)]
        assert [wire.request(OTHER).status for wire in wires] == [200] * 5


def test_loopback_has_no_share_by_default(open_server: OpenServer) -> None:
    server = open_server(connections_max=4)
    with ExitStack() as opened:
        wires = [opened.enter_context(ConnectionFrom(HONEST, server.live_server.fast_port)) for _ in range(4)]
        assert [wire.request(OTHER).status for wire in wires] == [200] * 4


def test_unfinished_handshakes_count_for_their_address(open_server: OpenServer) -> None:
    server = open_server(connections_max=10, connections_per_address_max=5, **SETTINGS)
    port = server.live_server.fast_port
    with ExitStack() as opened:
        for _ in range(20):
            opened.enter_context(ConnectionFrom(GREEDY, port))
        server.live_server.wait_until(lambda: server.node.lane.limits.refused["address"] == 15)
        with TlsConnection(port) as wire:
            assert wire.request(OTHER).status == 200
    server.live_server.wait_until(lambda: server.node.lane.limits.admitted == 0)
    assert server.node.lane.limits.refused_now == 0


def test_metrics_are_served_although_the_server_is_full(open_server: OpenServer) -> None:
    server = open_server(connections_max=1)
    with server.live_server.connect() as first, server.live_server.connect() as second:
        first.send(UNFINISHED)
        assert second.request(METRICS).status == 200
        assert second.is_closed_by_server()


@pytest.mark.usefixtures("no_idle_time")
@pytest.mark.parametrize("last", ["fast lane", "application", "both"])
def test_full_server_closes_an_idle_connection_for_a_new_one(open_server: OpenServer, last: str) -> None:
    server = open_server(connections_max=2)
    sent = {"fast lane": ["poll"], "application": ["other"], "both": ["other", "poll"]}[last]
    with server.live_server.connect() as idle, server.live_server.connect() as busy:
        for each in sent:
            assert idle.request(server.device.poll() if each == "poll" else OTHER).status == 200
        server.park(busy, server.device)
        with server.live_server.connect() as newcomer:
            assert newcomer.request(OTHER).status == 200
            assert idle.is_closed_by_server()
            assert server.node.lane.limits.idle_closed == 1
            server.publish(server.device)
            assert busy.response().status == 200


@pytest.mark.usefixtures("no_idle_time")
def test_connection_that_is_idle_for_longest_is_closed_first(open_server: OpenServer) -> None:
    server = open_server(connections_max=3)
    deadlines = server.node.lane.deadlines
    with ExitStack() as opened:
        wires = [opened.enter_context(server.live_server.connect()) for _ in range(3)]
        for wire in (wires[1], wires[0], wires[2]):
            assert wire.request(server.device.poll()).status == 200
            tick = deadlines.now
            server.live_server.wait_until(lambda tick=tick: deadlines.now > tick)  # type: ignore[misc]
        for oldest in (wires[1], wires[0]):
            newcomer = opened.enter_context(server.live_server.connect())
            newcomer.send(UNFINISHED)
            assert oldest.is_closed_by_server()
        assert wires[2].request(OTHER).status == 200


def test_connection_in_use_is_not_closed_for_a_new_one(open_server: OpenServer) -> None:
    """Neither a parked poll, nor an unfinished request, nor a connection that was used a moment ago."""
    server = open_server(connections_max=3)
    with ExitStack() as opened:
        parked, unfinished, recent, newcomer = (opened.enter_context(server.live_server.connect()) for _ in range(4))
        server.park(parked, server.device)
        unfinished.send(UNFINISHED)
        assert recent.request(OTHER).status == 200
        refused = newcomer.request(OTHER)
    assert refused.status == 503


def test_ipv4_address_has_one_key_and_ipv6_network_one() -> None:
    assert address_key("192.0.2.1") == address_key("::ffff:192.0.2.1")
    assert address_key("192.0.2.1") != address_key("192.0.2.2")
    assert address_key("2001:db8::1") == address_key("2001:db8::ffff:1:2:3") == address_key("2001:db8::2%eth0")
    assert address_key("2001:db8::1") != address_key("2001:db8:0:1::1")
    assert address_key("nonsense:") == "nonsense:"


def test_default_share_is_half_of_all_connections() -> None:
    limits = ConnectionLimits(10, 0, lambda _address: False, lambda: False)
    key = limits.key_of("2001:db8::1")
    assert [limits.enter(key, 5) for _ in range(6)] == [Verdict.admitted] * 5 + [Verdict.refused]
    assert limits.enter(limits.key_of("2001:db8:0:1::1"), 5) is Verdict.admitted
    assert limits.key_of("127.0.0.1") is limits.key_of("::1") is None


def test_refused_connections_are_told_at_once_if_they_are_many() -> None:
    limits = ConnectionLimits(1, 0, lambda _address: False, lambda: False)
    limits.enter(None, 5)
    verdicts = [limits.enter(None, 5) for _ in range(REFUSED_MAX + 1)]
    assert verdicts == [Verdict.refused] * REFUSED_MAX + [Verdict.told_now]
    for verdict in verdicts:
        limits.leave(None, verdict)
    assert (limits.admitted, limits.refused_now) == (1, 0)


# Parked polls.


def test_poll_over_the_bound_of_its_device_ends_the_oldest_wait(open_server: OpenServer) -> None:
    server = open_server(device_parked_polls_max=2)
    other = server.add_device()
    with ExitStack() as opened:
        first, second, third, others = (opened.enter_context(server.live_server.connect()) for _ in range(4))
        server.park(others, other)
        server.park(first, server.device)
        server.park(second, server.device)
        cursor = server.cursor(server.device)
        third.send(server.device.poll(b"?wait=30", b"If-None-Match: " + cursor))
        ended = first.response()
        assert (ended.status, ended.header(b"etag")) == (204, cursor)
        assert server.node.updates.poll.parked_count == 3
        server.publish(server.device)
        server.publish(other)
        assert [wire.response().status for wire in (second, third, others)] == [200] * 3
        assert server.node.updates.poll.ended_early == 1


def test_poll_over_the_bound_of_its_collector_ends_its_oldest_wait(tmp_path: Path) -> None:
    server = CollectorServer(tmp_path, collector_parked_polls_max=2)
    try:
        poll = b"GET %bpoll?wait=30 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %b\r\n\r\n" % (BASE, server.token)
        with ExitStack() as opened:
            first, second, third = (opened.enter_context(server.live_server.connect()) for _ in range(3))
            for count, wire in enumerate((first, second), 1):
                wire.send(poll)
                server.live_server.wait_until(lambda count=count: server.node.commands.poll.parked_count == count)  # type: ignore[misc]
            third.send(poll)
            ended = first.response()
            assert ended.status == 200
            assert b'"commands":[]' in ended.body
            assert server.node.commands.poll.parked_count == 2
    finally:
        server.live_server.close()


@pytest.mark.parametrize("kind", ["events", "shared_signals"])
def test_poll_over_the_bound_of_its_client_ends_the_oldest_wait(tmp_path: Path, kind: str) -> None:
    server = DeviceServer(tmp_path, client_parked_polls_max=2, events_wait_seconds=30)
    poll = getattr(server.node, kind).poll
    waiting = ParsedPoll(10, True, NO_VERDICTS)
    results: list[tuple[int, Any]] = []

    def start(number: int, client: int) -> None:
        poll.waiters.learn_empty(client, poll.waiters.last_notified(client))
        poll.start(client, waiting, lambda result: results.append((number, result)))

    try:
        for number, client in enumerate((1, 1, 2, 1)):
            server.live_server.call(start, number, client)
        [(number, result)] = results
        assert (number, result.sets, result.more_available) == (0, {}, False)
        assert (poll.parked_count, poll.ended_early) == (3, 1)
    finally:
        server.live_server.close()
