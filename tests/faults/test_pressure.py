"""A server under pressure: senders that dawdle, more connections than it takes, a disk that is full."""

import contextlib
import json
import socket
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.faults.client import UPDATES
from tests.faults.server_process import PATIENCE_SECONDS, ServerProcess
from tests.faults.site import Site, site

pytestmark = pytest.mark.slow

DEADLINE_SECONDS = 1.0
DEADLINES = (
    "--header-deadline-seconds",
    str(DEADLINE_SECONDS),
    "--body-deadline-seconds",
    str(DEADLINE_SECONDS),
)
BYTE_SECONDS = 0.1  # a byte each: far from done when the deadline comes
# Cut by its deadline and not by something slower; what is above the deadline is for a busy machine.
CUT_WITHIN_SECONDS = 4.0
CONNECTIONS_MAX = 50
FLOOD = 200


def connect(server: ServerProcess) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS)


def dribble(sock: socket.socket, text: bytes) -> bytes:
    """Send a byte at a time until the server has enough of it; what it said."""
    sock.settimeout(BYTE_SECONDS)
    for byte in text:
        with contextlib.suppress(OSError):
            sock.send(bytes([byte]))
        try:
            said = sock.recv(65536)
        except TimeoutError:
            continue
        except ConnectionError:
            return b""
        return said
    raise AssertionError("the server listened to all of it")


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
def test_a_slow_sender_is_cut_while_others_are_served(tmp_path: Path, at_once: bytes, slowly: bytes) -> None:
    with site(tmp_path, *DEADLINES) as running_site:
        device = running_site.add_device()
        poll = running_site.park(device)
        with connect(running_site.server) as slow:
            started = time.monotonic()
            slow.sendall(at_once)
            said = dribble(slow, slowly)
            seconds = time.monotonic() - started
        assert DEADLINE_SECONDS * 0.9 <= seconds < CUT_WITHIN_SECONDS
        assert said.startswith(b"HTTP/1.1 408 ")
        assert json.loads(said.partition(b"\r\n\r\n")[2])["error"]["code"] == 40800
        assert running_site.server.metric("restante_slow_senders_cut_total") == 1
        assert running_site.send(device, number=1).status == 202
        assert poll.result(PATIENCE_SECONDS).status == 200


def test_who_says_nothing_is_cut_without_an_answer(tmp_path: Path) -> None:
    with site(tmp_path, *DEADLINES) as running_site, connect(running_site.server) as silent:
        started = time.monotonic()
        assert silent.recv(65536) == b""
        assert DEADLINE_SECONDS * 0.9 <= time.monotonic() - started < CUT_WITHIN_SECONDS


def test_many_slow_senders_do_not_hinder_others(tmp_path: Path) -> None:
    with site(tmp_path, *DEADLINES) as running_site, ExitStack() as open_sockets:
        device = running_site.add_device()
        client = running_site.client_of(device)
        for _ in range(FLOOD):
            open_sockets.enter_context(connect(running_site.server)).sendall(BODY_HEADERS + b'{"act')
        for number in range(20):
            assert running_site.send(device, number=number).status == 202
            assert client.poll("0-0").status in (200, 204)
        running_site.server.wait_for_metric("restante_slow_senders_cut_total", FLOOD)


def test_a_slow_answer_is_not_a_slow_sender(tmp_path: Path) -> None:
    with site(tmp_path, *DEADLINES) as running_site:
        poll = running_site.park(running_site.add_device(), wait=3)
        asgi_poll = running_site.park(running_site.add_device(), wait=3, fast=False)
        assert poll.result(PATIENCE_SECONDS).status == 204
        assert asgi_poll.result(PATIENCE_SECONDS).status == 204


def test_a_flood_of_connections_is_refused_and_parked_polls_go_on(tmp_path: Path) -> None:
    with site(tmp_path, "--connections-max", str(CONNECTIONS_MAX)) as running_site, ExitStack() as flood:
        device, other = running_site.add_device(), running_site.add_device()
        polls = [running_site.park(device), running_site.park(other, fast=False)]
        sockets = [flood.enter_context(connect(running_site.server)) for _ in range(FLOOD)]
        said = [first_words(sock) for sock in sockets]

        accepted = [words for words in said if words.startswith(b"HTTP/1.1 200 ")]
        refused = [words for words in said if words.startswith(b"HTTP/1.1 503 ")]
        assert len(accepted) + len(refused) == FLOOD
        assert 0 < len(accepted) < CONNECTIONS_MAX
        assert all(is_a_refusal(words) for words in refused)
        for told in (device, other):
            assert running_site.send(told, number=1).status == 202
        assert [poll.result(PATIENCE_SECONDS).status for poll in polls] == [200, 200]
        flood.close()
        wait_until_served(running_site)


def first_words(sock: socket.socket) -> bytes:
    with contextlib.suppress(ConnectionError):
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        return sock.recv(65536)
    return b""


def is_a_refusal(words: bytes) -> bool:
    head, _, body = words.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    return int(fields[b"retry-after"]) >= 1 and json.loads(body)["error"]["code"] == 50300


def wait_until_served(running_site: Site) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        with connect(running_site.server) as sock:
            if first_words(sock).startswith(b"HTTP/1.1 200 "):
                return
        assert time.monotonic() < deadline, "new connections are still refused"
