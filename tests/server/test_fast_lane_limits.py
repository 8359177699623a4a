"""What the fast lane does not put up with: too many connections, slow senders, idle ones. And how it stops."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from restante.server import lifecycle
from restante.server.fast_lane import REFUSED_SECONDS
from tests.server.lane import Lane
from tests.server.odd_requests import OTHER
from tests.server.serving import WireAnswer

HEADERS = b"POST /auth/refresh HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n"
MOMENT_SECONDS = 0.2
# How late a deadline may be noticed on a busy machine, and still have been noticed by itself.
LATE_SECONDS = 3.0

OpenLane = Callable[..., Lane]


@pytest.fixture
def open_lane(tmp_path: Path) -> Iterator[OpenLane]:
    with ExitStack() as opened:

        def open_lane(**settings: Any) -> Lane:
            lane = Lane(tmp_path, **settings)
            opened.callback(lane.served.close)
            return lane

        yield open_lane


def error_of(answer: WireAnswer) -> dict[str, Any]:
    assert answer.header(b"content-type") == b"application/json"
    error: dict[str, Any] = msgspec.json.decode(answer.body)["error"]
    return error


def test_connections_over_the_cap_are_told_to_come_back(open_lane: OpenLane) -> None:
    lane = open_lane(connections_max=2)
    with lane.served.connect() as first, lane.served.connect() as second:
        lane.park(first, lane.device)
        assert second.ask(OTHER).status == 200
        with lane.served.connect() as third:
            refused = third.ask(OTHER)
            assert third.is_closed_by_server()
        assert refused.status == 503
        assert 1 <= int(refused.header(b"retry-after") or b"0") <= 11
        assert refused.header(b"connection") == b"close"
        assert error_of(refused)["code"] == 50300
        assert lane.node.lane.refused_connections == 1
        # Those within the cap are none the worse for it.
        assert second.ask(OTHER).status == 200
        lane.publish(lane.device)
        assert b"app.news" in first.answer().body


def test_a_refused_connection_that_says_nothing_is_closed(open_lane: OpenLane) -> None:
    lane = open_lane(connections_max=1)
    with lane.served.connect() as first:
        assert first.ask(OTHER).status == 200
        with lane.served.connect() as second:
            started = time.monotonic()
            assert second.is_closed_by_server()
            assert time.monotonic() - started < REFUSED_SECONDS + LATE_SECONDS


def test_there_is_room_again_when_a_connection_ends(open_lane: OpenLane) -> None:
    lane = open_lane(connections_max=1)
    for _ in range(5):
        with lane.served.connect() as wire:
            assert wire.ask(OTHER).status == 200
        lane.served.until(lambda: lane.node.lane.connections == 0)


def test_slow_headers_are_cut(open_lane: OpenLane) -> None:
    lane = open_lane(header_deadline_seconds=MOMENT_SECONDS)
    with lane.served.connect() as wire:
        wire.send(OTHER[:20])
        cut = wire.answer()
        assert wire.is_closed_by_server()
    assert cut.status == 408
    assert cut.header(b"connection") == b"close"
    assert error_of(cut)["code"] == 40800
    assert lane.node.lane.slow_senders_cut == 1


def test_slow_headers_are_cut_on_a_used_connection_too(open_lane: OpenLane) -> None:
    lane = open_lane(header_deadline_seconds=MOMENT_SECONDS)
    with lane.served.connect() as wire:
        assert wire.ask(lane.device.poll()).status == 200
        assert wire.ask(OTHER).status == 200
        wire.send(OTHER[:20])
        assert wire.answer().status == 408


def test_headers_that_trickle_are_cut(open_lane: OpenLane) -> None:
    """Every byte in time does not make the request in time."""
    lane = open_lane(header_deadline_seconds=MOMENT_SECONDS)
    with lane.served.connect() as wire:
        wire.socket.settimeout(MOMENT_SECONDS / 10)
        wire.send(b"GET / HTTP/1.1\r\nX: ")
        end = time.monotonic() + MOMENT_SECONDS + LATE_SECONDS
        while True:
            assert time.monotonic() < end
            try:
                answer = wire.answer()
                break
            except TimeoutError:
                wire.send(b"a")
    assert answer.status == 408


def test_slow_bodies_are_cut(open_lane: OpenLane) -> None:
    lane = open_lane(body_deadline_seconds=MOMENT_SECONDS)
    with lane.served.connect() as wire:
        cut = wire.ask(HEADERS + b'{"refresh')
        assert wire.is_closed_by_server()
    assert cut.status == 408
    assert lane.node.lane.slow_senders_cut == 1


def test_a_body_in_time_is_not_cut(open_lane: OpenLane) -> None:
    lane = open_lane(header_deadline_seconds=MOMENT_SECONDS)
    with lane.served.connect() as wire:
        wire.send(HEADERS)
        over = time.monotonic() + 2 * MOMENT_SECONDS
        lane.served.until(lambda: lane.node.lane.deadlines.now > over)
        assert wire.ask(b'{"refresh_token":"a"').status == 400


def test_others_are_answered_while_slow_senders_wait(open_lane: OpenLane) -> None:
    lane = open_lane()
    with ExitStack() as slow:
        for _ in range(50):
            slow.enter_context(lane.served.connect()).send(HEADERS + b"{")
        with lane.served.connect() as wire:
            assert wire.ask(lane.device.poll()).status == 200
            assert wire.ask(OTHER).status == 200


@pytest.mark.parametrize("sent", [b"", b"\r\n"], ids=["nothing", "an empty line"])
def test_a_connection_without_a_request_is_closed(open_lane: OpenLane, sent: bytes) -> None:
    lane = open_lane(header_deadline_seconds=MOMENT_SECONDS)
    with lane.served.connect() as wire:
        wire.send(sent)
        assert wire.is_closed_by_server()


@pytest.mark.parametrize("last", ["hot", "application", "empty line"])
def test_an_idle_connection_is_closed(open_lane: OpenLane, last: str) -> None:
    lane = open_lane(keep_alive_seconds=1.0, header_deadline_seconds=3600)
    with lane.served.connect() as wire:
        assert wire.ask(OTHER).status == 200
        assert wire.ask(lane.device.poll()).status == 200
        if last != "hot":
            assert wire.ask(OTHER).status == 200
        if last == "empty line":
            wire.send(b"\r\n")
        started = time.monotonic()
        assert wire.is_closed_by_server()
        assert time.monotonic() - started < 1.0 + LATE_SECONDS


def test_a_short_keep_alive_is_kept(open_lane: OpenLane) -> None:
    """Less than a second is not none at all."""
    lane = open_lane(keep_alive_seconds=0.9)
    with lane.served.connect() as wire:
        assert [wire.ask(OTHER).status for _ in range(3)] == [200] * 3


def test_a_parked_poll_is_not_idle(open_lane: OpenLane) -> None:
    lane = open_lane(keep_alive_seconds=0.1, header_deadline_seconds=0.1)
    with lane.served.connect() as wire:
        assert wire.ask(OTHER).status == 200
        started = time.monotonic()
        answer = wire.ask(lane.device.poll(b"?wait=1", b"If-None-Match: " + lane.cursor(lane.device)))
    assert answer.status == 204
    assert time.monotonic() - started >= 1.0


def test_a_connection_is_idle_again_after_a_wait_that_ended_early(open_lane: OpenLane) -> None:
    lane = open_lane(keep_alive_seconds=0.2)
    with lane.served.connect() as wire:
        lane.park(wire, lane.device)
        lane.publish(lane.device)
        assert wire.answer().status == 200
        started = time.monotonic()
        assert wire.is_closed_by_server()
        assert time.monotonic() - started < LATE_SECONDS


def test_stopping_answers_the_parked(open_lane: OpenLane) -> None:
    lane = open_lane()
    cursor = lane.cursor(lane.device)
    by_application = lane.device.poll(b"?wait=30&unknown=1", b"If-None-Match: " + cursor)
    with lane.served.connect() as hot, lane.served.connect() as cold, lane.served.connect() as late:
        lane.park(hot, lane.device)
        cold.send(by_application)
        lane.served.until(lambda: lane.node.poll.bell.waiting_count == 2)
        lane.served.call(lifecycle.stop_parking, lane.node)
        for answer in (hot.answer(), cold.answer()):
            assert answer.status == 204
            assert answer.header(b"etag") == cursor
        assert hot.is_closed_by_server()
        # Nobody is parked any more: who comes now is told at once.
        assert late.ask(by_application).status == 204
