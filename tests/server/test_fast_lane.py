"""The fast lane against uvicorn's own protocol with the same application behind it: whatever is sent, both say the
same, or both refuse. And polls that are parked on their connection."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
from structlog.testing import capture_logs

from restante.server.fast_lane import PIPELINED_BYTES_MAX
from tests.server.lane import Lane
from tests.server.odd_requests import ODD_REQUESTS, OTHER, with_line
from tests.server.serving import WireAnswer

LAST = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
TURNS = 20


@pytest.fixture(scope="module")
def lane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lane]:
    lane = Lane(tmp_path_factory.mktemp("lane"))
    yield lane
    lane.served.close()


def fill(raw: bytes, lane: Lane) -> bytes:
    device = lane.device
    return raw.replace(b"{token}", device.token).replace(b"{cursor}", lane.cursor(device))


def exchange(lane: Lane, port: int, *pieces: bytes) -> list[WireAnswer]:
    """Everything the server says to these pieces and to a last request that ends the connection."""
    said = []
    with lane.served.connect(port) as wire, suppress(BrokenPipeError, ConnectionResetError):
        for piece in pieces:
            wire.send(piece)
            # Turns of the loop, in which the piece is read by itself and a short answer is given.
            for _ in range(TURNS if len(pieces) > 1 else 0):
                lane.served.call(int)
        said.append(wire.answer())
        wire.send(LAST)
        said += wire.answers_to_the_end()
    return [answer.without_date() for answer in said]


def is_refusal(said: list[WireAnswer]) -> bool:
    return not said or (said[-1].status == 400 and said[-1].header(b"connection") == b"close")


@pytest.mark.parametrize("name", ODD_REQUESTS)
def test_both_protocols_say_the_same(lane: Lane, name: str) -> None:
    raw = fill(ODD_REQUESTS[name], lane)
    fast, plain = (exchange(lane, port, raw) for port in (lane.served.fast_port, lane.served.plain_port))
    if is_refusal(fast) and is_refusal(plain):
        fast, plain = fast[:-1], plain[:-1]
    assert fast == plain


def test_a_request_may_arrive_in_any_two_pieces(lane: Lane) -> None:
    raw = fill(with_line(b"If-None-Match: 0-0"), lane)
    with lane.served.connect() as wire:
        whole = wire.ask(raw).without_date()
        for cut in range(1, len(raw)):
            wire.send(raw[:cut])
            lane.served.call(int)  # the loop has turned: the first piece was read by itself
            assert wire.ask(raw[cut:]).without_date() == whole


def test_a_request_may_arrive_byte_by_byte(lane: Lane) -> None:
    raw = fill(with_line(b"If-None-Match: 0-0"), lane)
    with lane.served.connect() as wire:
        whole = wire.ask(raw).without_date()
        for byte in raw:
            wire.send(bytes([byte]))
        assert wire.answer().without_date() == whole


def test_one_connection_mixes_both_ways(lane: Lane) -> None:
    before = lane.hot_requests
    idle = lane.device.poll(b"", b"If-None-Match: " + lane.cursor(lane.device))
    with lane.served.connect() as wire:
        said = [wire.ask(raw).status for raw in (idle, OTHER, idle, OTHER, OTHER, idle)]
    assert said == [204, 200, 204, 200, 200, 204]
    assert lane.hot_requests == before + 3


def test_a_parked_poll_is_woken(lane: Lane) -> None:
    device = lane.add_device()
    with lane.served.connect() as wire:
        lane.park(wire, device)
        lane.publish(device)
        answer = wire.answer()
    assert answer.status == 200
    assert b"app.news" in answer.body


def test_what_arrives_behind_a_parked_poll_is_answered_after_it(lane: Lane) -> None:
    device = lane.add_device()
    with lane.served.connect() as wire:
        lane.park(wire, device)
        wire.send(device.poll(b"", b"If-None-Match: 0-0") + OTHER)
        wire.send(b"POST /auth/refresh HTTP/1.1\r\nHost: x\r\nContent-")
        lane.publish(device)
        first, second, third = wire.answer(), wire.answer(), wire.answer()
        last = wire.ask(b"Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
    assert (first.status, second.status, third.status, last.status) == (200, 200, 200, 400)
    assert b"app.news" in first.body
    assert second.body.count(b"app.note") == 3
    assert b"ok" in third.body
    assert b"refresh_token" in last.body


def test_a_poll_behind_a_parked_poll_is_hot_too(lane: Lane) -> None:
    device = lane.add_device()
    with lane.served.connect() as wire:
        lane.park(wire, device)
        before = lane.hot_requests
        wire.send(device.poll(b"", b"If-None-Match: 0-0"))
        lane.publish(device)
        assert [wire.answer().status, wire.answer().status] == [200, 200]
    assert lane.hot_requests == before + 1


def test_reading_goes_on_after_a_parked_poll_with_much_behind_it(lane: Lane) -> None:
    """More has arrived than is kept, so reading has stopped; the rest of it is read after the answer."""
    device = lane.add_device()
    long = OTHER.replace(b"Host", b"X: %b\r\nHost" % (b"a" * 2 * PIPELINED_BYTES_MAX))
    with lane.served.connect() as wire:
        lane.park(wire, device)
        wire.send(long[:-20])
        for _ in range(TURNS):
            lane.served.call(int)
        lane.publish(device)
        assert wire.answer().status == 200
        assert wire.ask(long[-20:]).status == 200


def test_what_arrives_behind_a_poll_parked_by_the_application_is_answered_after_it(lane: Lane) -> None:
    device = lane.add_device()
    with lane.served.connect() as wire:
        wire.send(device.poll(b"?wait=30&unknown=1", b"If-None-Match: " + lane.cursor(device)))
        lane.served.until(lambda: lane.node.poll.bell.waiting_count == 1)
        wire.send(device.poll(b"", b"If-None-Match: 0-0"))
        lane.served.call(int)
        lane.publish(device)
        first, second = wire.answer(), wire.answer()
    assert b"app.note" not in first.body
    assert second.body.count(b"app.note") == 3


SMUGGLED = {
    "in a header": b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: ",
    "in the body of an answered request": b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n",
    "in a chunk": b"GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}\r\n",
    "behind a line feed": b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: y\n",
}


@pytest.mark.parametrize("name", SMUGGLED)
def test_what_looks_like_a_poll_within_a_request_is_none(lane: Lane, name: str) -> None:
    poll = lane.device.poll()
    opening = SMUGGLED[name].replace(b"{length}", b"%d" % len(poll)).replace(b"{chunk}", b"%x" % len(poll))
    closing = b"\r\n0\r\n\r\n" if name == "in a chunk" else b""
    before = lane.hot_requests
    fast, plain = (
        exchange(lane, port, opening, poll, closing) for port in (lane.served.fast_port, lane.served.plain_port)
    )
    if is_refusal(fast) and is_refusal(plain):
        fast, plain = fast[:-1], plain[:-1]
    assert fast == plain
    assert lane.hot_requests == before


def test_who_hangs_up_while_parked_waits_no_more(lane: Lane) -> None:
    device = lane.add_device()
    with lane.served.connect() as wire:
        lane.park(wire, device)
    lane.until_nobody_waits()


def test_who_hangs_up_while_parked_by_the_application_waits_no_more(lane: Lane) -> None:
    device = lane.add_device()
    with lane.served.connect() as wire:
        wire.send(device.poll(b"?wait=30&unknown=1", b"If-None-Match: " + lane.cursor(device)))
        lane.served.until(lambda: lane.node.poll.bell.waiting_count == 1)
    lane.until_nobody_waits()


def test_who_hangs_up_during_a_read_harms_nobody(lane: Lane) -> None:
    """The answer to nobody must not stop the answers to others that are read for with it."""
    devices = [lane.add_device() for _ in range(5)]
    release = threading.Event()
    for _ in range(lane.node.database.readers):  # all readers are busy, so that the polls' reads wait
        asyncio.run_coroutine_threadsafe(lane.node.database.read(lambda _: release.wait()), lane.served.loop)
    with ExitStack() as connected, capture_logs() as logged:
        wires = [connected.enter_context(lane.served.connect()) for _ in devices]
        for wire, device in zip(wires, devices, strict=True):
            lane.send_hot(wire, device.poll(b"", b"If-None-Match: 0-0"))
        connections = lane.node.lane.connections
        for wire in wires[:3]:
            wire.socket.close()
        lane.served.until(lambda: lane.node.lane.connections == connections - 3)
        release.set()
        assert [wire.answer().status for wire in wires[3:]] == [200, 200]
        assert [line for line in logged if line["log_level"] == "error"] == []
        assert wires[4].ask(devices[0].poll(b"", b"If-None-Match: 0-0")).status == 200
