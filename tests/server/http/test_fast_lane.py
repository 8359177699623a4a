"""The fast lane compared with uvicorn's own protocol in front of the same application.

For any request both respond alike, or both refuse it. Also: polls that are parked on their connection.
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import pytest
from structlog.testing import capture_logs

from restante.server.http.fast_lane import PIPELINED_BYTES_MAX
from restante.server.http.request_templates import FastRequest
from restante.updates.devices import devices
from tests.delivery.busy_database import hold_readers
from tests.server.fast_lane_device import DeviceServer
from tests.server.live_server import RawConnection, RawResponse, is_refused
from tests.server.odd_requests import ODD_REQUESTS, OTHER, POLL, with_line

CLOSING_REQUEST = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
LOOP_ITERATIONS = 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeviceServer]:
    server = DeviceServer(tmp_path_factory.mktemp("lane"))
    yield server
    server.live_server.close()


def fill(raw: bytes, server: DeviceServer) -> bytes:
    device = server.device
    return raw.replace(b"{token}", device.token).replace(b"{cursor}", server.cursor(device))


def exchange(server: DeviceServer, port: int, *parts: bytes) -> list[RawResponse]:
    """All responses to these parts, and to a last request that closes the connection."""
    responses = []
    with server.live_server.connect(port) as wire, suppress(BrokenPipeError, ConnectionResetError):
        for part in parts:
            wire.send(part)
            # Iterations of the event loop, in which it reads the part alone and may send a short response.
            for _ in range(LOOP_ITERATIONS if len(parts) > 1 else 0):
                server.live_server.call(int)
        responses.append(wire.response())
        wire.send(CLOSING_REQUEST)
        responses += wire.responses_until_close()
    return [answer.without_date() for answer in responses]


@pytest.mark.parametrize("name", ODD_REQUESTS)
def test_both_protocols_respond_alike(server: DeviceServer, name: str) -> None:
    raw = fill(ODD_REQUESTS[name], server)
    fast, plain = (
        exchange(server, port, raw) for port in (server.live_server.fast_port, server.live_server.plain_port)
    )
    if is_refused(fast) and is_refused(plain):
        fast, plain = fast[:-1], plain[:-1]
    assert fast == plain


def test_request_may_arrive_in_two_parts(server: DeviceServer) -> None:
    raw = fill(with_line(b"If-None-Match: 0-0"), server)
    with server.live_server.connect() as wire:
        whole = wire.request(raw).without_date()
        for cut in range(1, len(raw)):
            wire.send(raw[:cut])
            server.live_server.call(int)  # one iteration of the event loop: it has read the first part alone
            assert wire.request(raw[cut:]).without_date() == whole


def test_request_may_arrive_byte_by_byte(server: DeviceServer) -> None:
    raw = fill(with_line(b"If-None-Match: 0-0"), server)
    with server.live_server.connect() as wire:
        whole = wire.request(raw).without_date()
        for byte in raw:
            wire.send(bytes([byte]))
        assert wire.response().without_date() == whole


def test_one_connection_may_use_both_protocols(server: DeviceServer) -> None:
    before = server.fast_requests
    idle = server.device.poll(b"", b"If-None-Match: " + server.cursor(server.device))
    with server.live_server.connect() as wire:
        responses = [wire.request(raw).status for raw in (idle, OTHER, idle, OTHER, OTHER, idle)]
    assert responses == [204, 200, 204, 200, 200, 204]
    assert server.fast_requests == before + 3


def test_idle_polls_come_from_memory_again_after_the_application_served_the_connection(
    server: DeviceServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    templates, recognized = server.node.lane.templates, list[bytes]()
    recognize = templates.recognize

    def counted(data: bytes) -> FastRequest | None:
        recognized.append(data)
        return recognize(data)

    idle = server.device.poll(b"", b"If-None-Match: " + server.cursor(server.device))
    with server.live_server.connect() as wire:
        assert [wire.request(raw).status for raw in (idle, OTHER, idle)] == [204, 200, 204]
        monkeypatch.setattr(templates, "recognize", counted)
        assert [wire.request(idle).status for _ in range(3)] == [204] * 3
        assert recognized == []
        # And the other way round: the application serves the connection as before.
        assert [wire.request(raw).status for raw in (OTHER, idle, OTHER)] == [200, 204, 200]


def test_parked_poll_is_woken(server: DeviceServer) -> None:
    device = server.add_device()
    with server.live_server.connect() as wire:
        server.park(wire, device)
        server.publish(device)
        answer = wire.response()
    assert answer.status == 200
    assert b"app.news" in answer.body


def test_requests_after_parked_poll_are_handled_after_it(server: DeviceServer) -> None:
    device = server.add_device()
    with server.live_server.connect() as wire:
        server.park(wire, device)
        wire.send(device.poll(b"", b"If-None-Match: 0-0") + OTHER)
        wire.send(b"POST /auth/refresh HTTP/1.1\r\nHost: x\r\nContent-")
        server.publish(device)
        first, second, third = wire.response(), wire.response(), wire.response()
        last = wire.request(b"Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
    assert (first.status, second.status, third.status, last.status) == (200, 200, 200, 400)
    assert b"app.news" in first.body
    assert second.body.count(b"app.note") == 3
    assert b"ok" in third.body
    assert b"refresh_token" in last.body


def test_poll_after_parked_poll_is_fast_too(server: DeviceServer) -> None:
    device = server.add_device()
    with server.live_server.connect() as wire:
        server.park(wire, device)
        before = server.fast_requests
        wire.send(device.poll(b"", b"If-None-Match: 0-0"))
        server.publish(device)
        assert [wire.response().status, wire.response().status] == [200, 200]
    assert server.fast_requests == before + 1


def test_reading_resumes_after_parked_poll_with_full_buffer(server: DeviceServer) -> None:
    """More bytes arrived than the buffer holds, so reading pauses; the rest is read after the response."""
    device = server.add_device()
    long = OTHER.replace(b"Host", b"X: %b\r\nHost" % (b"a" * (PIPELINED_BYTES_MAX * 3 // 4)))
    with server.live_server.connect() as wire:
        server.park(wire, device)
        wire.send(long + long[:-20])
        for _ in range(LOOP_ITERATIONS):
            server.live_server.call(int)
        server.publish(device)
        assert [wire.response().status, wire.response().status] == [200, 200]
        assert wire.request(long[-20:]).status == 200


def test_request_after_poll_parked_by_application_is_handled_after_it(server: DeviceServer) -> None:
    device = server.add_device()
    with server.live_server.connect() as wire:
        wire.send(device.poll(b"?wait=30&unknown=1", b"If-None-Match: " + server.cursor(device)))
        server.live_server.wait_until(lambda: server.node.updates.poll.parked_count == 1)
        wire.send(device.poll(b"", b"If-None-Match: 0-0"))
        server.live_server.call(int)
        server.publish(device)
        first, second = wire.response(), wire.response()
    assert b"app.note" not in first.body
    assert second.body.count(b"app.note") == 3


SMUGGLED = {
    "in a header": b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: ",
    "in the body of an answered request": b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n",
    "in a chunk": b"GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}\r\n",
    "behind a line feed": b"GET /healthz HTTP/1.1\r\nHost: x\r\nX: y\n",
}


@pytest.mark.parametrize("name", SMUGGLED)
def test_poll_inside_another_request_is_not_recognized(server: DeviceServer, name: str) -> None:
    poll = server.device.poll()
    opening = SMUGGLED[name].replace(b"{length}", b"%d" % len(poll)).replace(b"{chunk}", b"%x" % len(poll))
    closing = b"\r\n0\r\n\r\n" if name == "in a chunk" else b""
    before = server.fast_requests
    fast, plain = (
        exchange(server, port, opening, poll, closing)
        for port in (server.live_server.fast_port, server.live_server.plain_port)
    )
    if is_refused(fast) and is_refused(plain):
        fast, plain = fast[:-1], plain[:-1]
    assert fast == plain
    assert server.fast_requests == before


def test_disconnect_ends_parked_poll(server: DeviceServer) -> None:
    device = server.add_device()
    with server.live_server.connect() as wire:
        server.park(wire, device)
    server.wait_until_none_parked()


def test_disconnect_ends_poll_parked_by_application(server: DeviceServer) -> None:
    device = server.add_device()
    with server.live_server.connect() as wire:
        wire.send(device.poll(b"?wait=30&unknown=1", b"If-None-Match: " + server.cursor(device)))
        server.live_server.wait_until(lambda: server.node.updates.poll.parked_count == 1)
    server.wait_until_none_parked()


def test_disconnect_during_read_does_not_affect_others(server: DeviceServer) -> None:
    """A response without a client must not stop the responses of the same read."""
    devices = [server.add_device() for _ in range(5)]
    release = threading.Event()
    for _ in range(server.node.database.readers):  # all readers are busy, so the reads of the polls wait
        asyncio.run_coroutine_threadsafe(server.node.database.read(lambda _: release.wait()), server.live_server.loop)
    with ExitStack() as connected, capture_logs() as logged:
        wires = [connected.enter_context(server.live_server.connect()) for _ in devices]
        for wire, device in zip(wires, devices, strict=True):
            server.send_fast(wire, device.poll(b"", b"If-None-Match: 0-0"))
        connections = server.node.lane.connections
        for wire in wires[:3]:
            wire.socket.close()
        server.live_server.wait_until(lambda: server.node.lane.connections == connections - 3)
        release.set()
        assert [wire.response().status for wire in wires[3:]] == [200, 200]
        assert [line for line in logged if line["log_level"] == "error"] == []
        assert wires[4].request(devices[0].poll(b"", b"If-None-Match: 0-0")).status == 200


class HeldReaders:
    """Keeps every reader of the database busy, so that the token of a first poll stays undecided."""

    def __init__(self, server: DeviceServer) -> None:
        self._release = hold_readers(server.node.database)

    def __enter__(self) -> "HeldReaders":
        return self

    def __exit__(self, *_: object) -> None:
        self._release()


def forget_tokens(server: DeviceServer) -> None:
    server.live_server.call(server.node.identity.device_tokens.forget_all)


def send_and_wait_until_read(server: DeviceServer, wire: RawConnection, data: bytes) -> None:
    wire.send(data)
    for _ in range(LOOP_ITERATIONS):
        server.live_server.call(int)


def test_first_poll_of_a_token_is_handled_by_fast_lane(server: DeviceServer) -> None:
    device = server.add_device()
    idle = device.poll(b"", b"If-None-Match: " + server.cursor(device))
    forget_tokens(server)
    before = server.fast_requests
    with server.live_server.connect() as wire:
        assert [wire.request(idle).status for _ in range(2)] == [204, 204]
    assert server.fast_requests == before + 2


FIRST_POLLS = {
    "idle": with_line(b"If-None-Match: {cursor}"),
    "with signals": with_line(b"If-None-Match: 0-0"),
    "bad cursor": with_line(b"If-None-Match: a"),
    "expired cursor": with_line(b"If-None-Match: 9-9"),
    "closing": with_line(b"Connection: close"),
    "altered token": POLL.replace(b"{token}", b"{token}A"),
}


@pytest.mark.parametrize("is_revoked", [False, True])
@pytest.mark.parametrize("name", FIRST_POLLS)
def test_both_protocols_respond_alike_to_the_first_poll(server: DeviceServer, name: str, is_revoked: bool) -> None:
    device = server.add_device()
    cursor = server.cursor(device)
    if is_revoked:
        server.node.database.write_now(devices.revoke, device.id)
    responses = []
    for port in (server.live_server.fast_port, server.live_server.plain_port):
        forget_tokens(server)
        raw = FIRST_POLLS[name].replace(b"{token}", device.token).replace(b"{cursor}", cursor)
        responses.append(exchange(server, port, raw))
    fast, plain = responses
    assert fast == plain


def test_requests_behind_first_poll_are_handled_after_it(server: DeviceServer) -> None:
    device, revoked = server.add_device(), server.add_device()
    server.node.database.write_now(devices.revoke, revoked.id)
    for first, status in ((device, 200), (revoked, 403)):
        forget_tokens(server)
        with server.live_server.connect() as wire:
            with HeldReaders(server):
                send_and_wait_until_read(server, wire, first.poll(b"", b"If-None-Match: 0-0"))
                send_and_wait_until_read(server, wire, OTHER + device.poll(b"", b"If-None-Match: 0-0"))
            assert [wire.response().status for _ in range(3)] == [status, 200, 200]


@pytest.mark.parametrize("is_revoked", [False, True])
def test_disconnect_before_first_poll_is_decided_leaves_nothing_parked(server: DeviceServer, is_revoked: bool) -> None:
    device = server.add_device()
    cursor = server.cursor(device)
    if is_revoked:
        server.node.database.write_now(devices.revoke, device.id)
    forget_tokens(server)
    connections = server.node.lane.connections
    with HeldReaders(server), capture_logs() as logged:
        with server.live_server.connect() as wire:
            send_and_wait_until_read(server, wire, device.poll(b"?wait=30", b"If-None-Match: " + cursor))
        server.live_server.wait_until(lambda: server.node.lane.connections <= connections)
    assert server.live_server.wait_for(_verifies(server)) == server.device.id
    server.wait_until_none_parked()
    assert [line for line in logged if line["log_level"] == "error"] == []


async def _verifies(server: DeviceServer) -> int:
    """A later verification: what was queued before it has been decided."""
    return (await server.node.identity.device_tokens.verify(server.device.token.decode())).device_id
