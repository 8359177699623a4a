"""A server under overload: slow senders, and more connections than its limit."""

import contextlib
import json
import socket
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults.client import UPDATES
from tests.faults.device_server import DeviceServer, running_device_server
from tests.faults.server_process import TIMEOUT_SECONDS, ServerProcess

pytestmark = pytest.mark.slow

DEADLINE_SECONDS = 1.0
DEADLINES = (
    "--header-deadline-seconds",
    str(DEADLINE_SECONDS),
    "--body-deadline-seconds",
    str(DEADLINE_SECONDS),
)
# The time between two bytes: the request is far from complete at the deadline.
BYTE_SECONDS = 0.1
# Short enough to prove that the deadline closed the connection; the rest is allowance for a busy machine.
CLOSED_WITHIN_SECONDS = 4.0
CONNECTIONS_MAX = 50
FLOOD = 200


def connect(server: ServerProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=TIMEOUT_SECONDS)


def send_slowly(sock: socket.socket, text: bytes) -> bytes:
    """Send one byte at a time until the server responds or closes; returns its response."""
    sock.settimeout(BYTE_SECONDS)
    for byte in text:
        with contextlib.suppress(OSError):
            sock.send(bytes([byte]))
        try:
            received = sock.recv(65536)
        except TimeoutError:
            continue
        except ConnectionError:
            return b""
        return received
    raise AssertionError("the server accepted the whole request")


SLOW_HEADERS = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 200
SLOW_POLL = b"GET " + UPDATES.encode() + b"?wait=30 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + b"a" * 200
BODY_HEADERS = (
    b"POST /auth/general HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n"
)


@pytest.mark.parametrize(
    ("at_once", "slowly"),
    [(b"", SLOW_HEADERS), (b"", SLOW_POLL), (BODY_HEADERS, b'{"action": "' + b"a" * 200)],
    ids=["headers", "a poll's headers", "body"],
)
def test_slow_sender_is_disconnected_while_others_are_served(tmp_path: Path, at_once: bytes, slowly: bytes) -> None:
    with running_device_server(tmp_path, *DEADLINES) as server:
        device = server.add_device()
        poll = server.park(device)
        with connect(server.process) as slow:
            started = time.monotonic()
            slow.sendall(at_once)
            received = send_slowly(slow, slowly)
            seconds = time.monotonic() - started
        assert DEADLINE_SECONDS * 0.9 <= seconds < CLOSED_WITHIN_SECONDS
        assert received.startswith(b"HTTP/1.1 408 ")
        assert json.loads(received.partition(b"\r\n\r\n")[2])["error"]["code"] == 40800
        assert server.process.metric("restante_slow_senders_cut_total") == 1
        assert server.send(device, number=1).status == 202
        assert poll.result(TIMEOUT_SECONDS).status == 200


def test_silent_connection_is_closed_without_a_response(tmp_path: Path) -> None:
    with running_device_server(tmp_path, *DEADLINES) as server, connect(server.process) as silent:
        started = time.monotonic()
        assert silent.recv(65536) == b""
        assert DEADLINE_SECONDS * 0.9 <= time.monotonic() - started < CLOSED_WITHIN_SECONDS


def test_many_slow_senders_do_not_affect_others(tmp_path: Path) -> None:
    with running_device_server(tmp_path, *DEADLINES) as server, ExitStack() as open_sockets:
        device = server.add_device()
        client = server.client_of(device)
        for _ in range(FLOOD):
            open_sockets.enter_context(connect(server.process)).sendall(BODY_HEADERS + b'{"act')
        for number in range(20):
            assert server.send(device, number=number).status == 202
            assert client.poll("0-0").status in (200, 204)
        server.process.wait_for_metric("restante_slow_senders_cut_total", FLOOD)


def test_long_poll_is_not_a_slow_sender(tmp_path: Path) -> None:
    with running_device_server(tmp_path, *DEADLINES) as server:
        poll = server.park(server.add_device(), wait=3)
        asgi_poll = server.park(server.add_device(), wait=3, fast_lane=False)
        assert poll.result(TIMEOUT_SECONDS).status == 204
        assert asgi_poll.result(TIMEOUT_SECONDS).status == 204


def test_connection_flood_is_refused_and_parked_polls_continue(tmp_path: Path) -> None:
    with (
        running_device_server(tmp_path, "--connections-max", str(CONNECTIONS_MAX)) as server,
        ExitStack() as flood,
    ):
        device, other = server.add_device(), server.add_device()
        polls = [server.park(device), server.park(other, fast_lane=False)]
        sockets = [flood.enter_context(connect(server.process)) for _ in range(FLOOD)]
        responses = [first_response(sock) for sock in sockets]

        accepted = [text for text in responses if text.startswith(b"HTTP/1.1 200 ")]
        refused = [text for text in responses if text.startswith(b"HTTP/1.1 503 ")]
        assert len(accepted) + len(refused) == FLOOD
        assert 0 < len(accepted) < CONNECTIONS_MAX
        assert all(is_refusal(text) for text in refused)
        for recipient in (device, other):
            assert server.send(recipient, number=1).status == 202
        assert [poll.result(TIMEOUT_SECONDS).status for poll in polls] == [200, 200]
        flood.close()
        wait_until_served(server)


def first_response(sock: socket.socket) -> bytes:
    with contextlib.suppress(ConnectionError):
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        return sock.recv(65536)
    return b""


def is_refusal(response: bytes) -> bool:
    head, _, body = response.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    return int(fields[b"retry-after"]) >= 1 and json.loads(body)["error"]["code"] == 50300


def wait_until_served(server: DeviceServer) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while True:
        with connect(server.process) as sock:
            if first_response(sock).startswith(b"HTTP/1.1 200 "):
                return
        assert time.monotonic() < deadline, "new connections are still refused"
