"""Limits of the fast lane: too many connections, slow senders, idle connections. And how it stops."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from restante.server import lifecycle
from restante.server.http.fast_lane import REFUSED_SECONDS
from tests.server.fast_lane_device import DeviceServer
from tests.server.live_server import RawResponse
from tests.server.odd_requests import OTHER

HEADERS = b"POST /auth/refresh HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n"
SHORT_SECONDS = 0.2
# The most that a deadline may be late on a busy machine.
LATE_SECONDS = 3.0

OpenServer = Callable[..., DeviceServer]


@pytest.fixture
def open_server(tmp_path: Path) -> Iterator[OpenServer]:
    with ExitStack() as opened:

        def open_server(**settings: Any) -> DeviceServer:
            server = DeviceServer(tmp_path, **settings)
            opened.callback(server.live_server.close)
            return server

        yield open_server


def error_of(response: RawResponse) -> dict[str, Any]:
    assert response.header(b"content-type") == b"application/json"
    error: dict[str, Any] = msgspec.json.decode(response.body)["error"]
    return error


def test_connection_over_limit_gets_retry_after(open_server: OpenServer) -> None:
    server = open_server(connections_max=2)
    with server.live_server.connect() as first, server.live_server.connect() as second:
        server.park(first, server.device)
        assert second.request(OTHER).status == 200
        with server.live_server.connect() as third:
            refused = third.request(OTHER)
            assert third.is_closed_by_server()
        assert refused.status == 503
        assert 1 <= int(refused.header(b"retry-after") or b"0") <= 11
        assert refused.header(b"connection") == b"close"
        assert error_of(refused)["code"] == 50300
        assert server.node.lane.limits.refused["connections_max"] == 1
        # Connections within the limit are not affected.
        assert second.request(OTHER).status == 200
        server.publish(server.device)
        assert b"app.news" in first.response().body


def test_silent_connection_over_limit_is_closed(open_server: OpenServer) -> None:
    server = open_server(connections_max=1)
    with server.live_server.connect() as first:
        assert first.request(OTHER).status == 200
        with server.live_server.connect() as second:
            started = time.monotonic()
            assert second.is_closed_by_server()
            assert time.monotonic() - started < REFUSED_SECONDS + LATE_SECONDS


def test_closed_connection_frees_its_place(open_server: OpenServer) -> None:
    server = open_server(connections_max=1)
    for _ in range(5):
        with server.live_server.connect() as wire:
            assert wire.request(OTHER).status == 200
        server.live_server.wait_until(lambda: server.node.lane.connections == 0)


def test_slow_headers_time_out(open_server: OpenServer) -> None:
    server = open_server(header_deadline_seconds=SHORT_SECONDS)
    with server.live_server.connect() as wire:
        wire.send(OTHER[:20])
        timed_out = wire.response()
        assert wire.is_closed_by_server()
    assert timed_out.status == 408
    assert timed_out.header(b"connection") == b"close"
    assert error_of(timed_out)["code"] == 40800
    assert server.node.lane.slow_senders_cut == 1


def test_slow_headers_time_out_on_used_connection(open_server: OpenServer) -> None:
    server = open_server(header_deadline_seconds=SHORT_SECONDS)
    with server.live_server.connect() as wire:
        assert wire.request(server.device.poll()).status == 200
        assert wire.request(OTHER).status == 200
        wire.send(OTHER[:20])
        assert wire.response().status == 408


def test_headers_sent_byte_by_byte_time_out(open_server: OpenServer) -> None:
    """The deadline is for the whole request, not for each byte."""
    server = open_server(header_deadline_seconds=SHORT_SECONDS)
    with server.live_server.connect() as wire:
        wire.socket.settimeout(SHORT_SECONDS / 10)
        wire.send(b"GET / HTTP/1.1\r\nX: ")
        end = time.monotonic() + SHORT_SECONDS + LATE_SECONDS
        while True:
            assert time.monotonic() < end
            try:
                response = wire.response()
                break
            except TimeoutError:
                wire.send(b"a")
    assert response.status == 408


def test_slow_body_times_out(open_server: OpenServer) -> None:
    server = open_server(body_deadline_seconds=SHORT_SECONDS)
    with server.live_server.connect() as wire:
        timed_out = wire.request(HEADERS + b'{"refresh')
        assert wire.is_closed_by_server()
    assert timed_out.status == 408
    assert server.node.lane.slow_senders_cut == 1


def test_body_in_time_is_accepted(open_server: OpenServer) -> None:
    server = open_server(header_deadline_seconds=SHORT_SECONDS)
    with server.live_server.connect() as wire:
        wire.send(HEADERS)
        over = time.monotonic() + 2 * SHORT_SECONDS
        server.live_server.wait_until(lambda: server.node.lane.deadlines.now > over)
        assert wire.request(b'{"refresh_token":"a"').status == 400


def test_slow_senders_do_not_delay_others(open_server: OpenServer) -> None:
    server = open_server()
    with ExitStack() as slow:
        for _ in range(50):
            slow.enter_context(server.live_server.connect()).send(HEADERS + b"{")
        with server.live_server.connect() as wire:
            assert wire.request(server.device.poll()).status == 200
            assert wire.request(OTHER).status == 200


@pytest.mark.parametrize("sent", [b"", b"\r\n"], ids=["nothing", "an empty line"])
def test_connection_without_request_is_closed(open_server: OpenServer, sent: bytes) -> None:
    server = open_server(header_deadline_seconds=SHORT_SECONDS)
    with server.live_server.connect() as wire:
        wire.send(sent)
        assert wire.is_closed_by_server()


@pytest.mark.parametrize("last", ["fast lane", "application", "empty line"])
def test_idle_connection_is_closed(open_server: OpenServer, last: str) -> None:
    server = open_server(keep_alive_seconds=1.0, header_deadline_seconds=3600)
    with server.live_server.connect() as wire:
        assert wire.request(OTHER).status == 200
        assert wire.request(server.device.poll()).status == 200
        if last != "fast lane":
            assert wire.request(OTHER).status == 200
        if last == "empty line":
            wire.send(b"\r\n")
        started = time.monotonic()
        assert wire.is_closed_by_server()
        assert time.monotonic() - started < 1.0 + LATE_SECONDS


def test_keep_alive_below_one_second_is_honoured(open_server: OpenServer) -> None:
    """A value below one second is not rounded to zero."""
    server = open_server(keep_alive_seconds=0.9)
    with server.live_server.connect() as wire:
        assert [wire.request(OTHER).status for _ in range(3)] == [200] * 3


def test_parked_poll_does_not_count_as_idle(open_server: OpenServer) -> None:
    server = open_server(keep_alive_seconds=0.1, header_deadline_seconds=0.1)
    with server.live_server.connect() as wire:
        assert wire.request(OTHER).status == 200
        started = time.monotonic()
        response = wire.request(server.device.poll(b"?wait=1", b"If-None-Match: " + server.cursor(server.device)))
    assert response.status == 204
    assert time.monotonic() - started >= 1.0


def test_connection_is_idle_again_after_wait_ended_early(open_server: OpenServer) -> None:
    server = open_server(keep_alive_seconds=0.2)
    with server.live_server.connect() as wire:
        server.park(wire, server.device)
        server.publish(server.device)
        assert wire.response().status == 200
        started = time.monotonic()
        assert wire.is_closed_by_server()
        assert time.monotonic() - started < LATE_SECONDS


def test_stop_answers_parked_polls(open_server: OpenServer) -> None:
    server = open_server()
    cursor = server.cursor(server.device)
    by_application = server.device.poll(b"?wait=30&unknown=1", b"If-None-Match: " + cursor)
    with (
        server.live_server.connect() as fast,
        server.live_server.connect() as slow,
        server.live_server.connect() as late,
    ):
        server.park(fast, server.device)
        slow.send(by_application)
        server.live_server.wait_until(lambda: server.node.updates.poll.parked_count == 2)
        server.live_server.call(lifecycle.stop_parking, server.node)
        for response in (fast.response(), slow.response()):
            assert response.status == 204
            assert response.header(b"etag") == cursor
        assert fast.is_closed_by_server()
        # No poll is parked any more: a new one is answered at once.
        assert late.request(by_application).status == 204
