"""ACKs through the fast lane, compared with uvicorn's own protocol in front of the same application.

For any ACK both respond alike, or both refuse it. Also: ACKs in parts, pipelined ACKs, and clients that disconnect.
"""

import asyncio
import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from structlog.testing import capture_logs

from restante.server.http.post_templates import BODY_BYTES_MAX
from tests.server.fast_lane_collector import CollectorServer, decode_body
from tests.server.live_server import RawConnection, RawResponse, is_refused
from tests.server.odd_posts import ACK, BODY, ODD_POSTS, OTHER

CLOSING_REQUEST = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
LOOP_ITERATIONS = 20
SHORT_SECONDS = 0.3
LATE_SECONDS = 3.0
# Random ids, and times.
_RANDOM = re.compile(rb'[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|cmd_[0-9a-f]{24}|"\d{4}-\d\d-\d\dT[0-9:]+Z"')


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorServer]:
    server = CollectorServer(tmp_path_factory.mktemp("server"))
    yield server
    server.live_server.close()


@pytest.fixture
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorServer]:
    """A server with short deadlines for bodies and idle connections."""
    seconds = {"body_deadline_seconds": SHORT_SECONDS, "keep_alive_seconds": SHORT_SECONDS}
    server = CollectorServer(tmp_path_factory.mktemp("impatient"), **seconds)
    yield server
    server.live_server.close()


def fill(raw: bytes, server: CollectorServer, command_id: bytes) -> bytes:
    return raw.replace(b"{token}", server.token).replace(b"{id}", command_id)


def exchange(server: CollectorServer, port: int, raw: bytes) -> tuple[list[RawResponse], str]:
    """All responses to this request and to a last one that closes the connection; and the state of the command."""
    command_id = server.lease()
    responses = []
    with server.live_server.connect(port) as wire, suppress(BrokenPipeError, ConnectionResetError):
        wire.send(fill(raw, server, command_id))
        responses.append(wire.response())
        wire.send(CLOSING_REQUEST)
        responses += wire.responses_until_close()
    # An ACK may still be on its way to the database when a bad request behind it closes the connection.
    server.live_server.wait_until_idle()
    return [comparable(response) for response in responses], server.state(command_id)


def comparable(response: RawResponse) -> RawResponse:
    return response.without_date()._replace(body=_RANDOM.sub(b"*", response.body))


@pytest.mark.parametrize("name", ODD_POSTS)
def test_both_protocols_respond_and_act_alike(server: CollectorServer, name: str) -> None:
    raw = ODD_POSTS[name]
    (fast, fast_state), (plain, plain_state) = (
        exchange(server, port, raw) for port in (server.live_server.fast_port, server.live_server.plain_port)
    )
    if is_refused(fast) and is_refused(plain):
        fast, plain = fast[:-1], plain[:-1]
    assert fast == plain
    assert fast_state == plain_state


def test_ack_is_handled_by_fast_lane(server: CollectorServer) -> None:
    """The control: it proves that the fast lane was used above."""
    with server.live_server.connect() as wire:
        assert decode_body(server.request_fast(wire, server.ack(server.lease())))["command_status"] == "succeeded"


def test_ack_may_arrive_in_two_parts(server: CollectorServer) -> None:
    command_id = server.lease()
    raw = server.ack(command_id)
    with server.live_server.connect() as wire:
        wire.request(raw)
        replayed = wire.request(raw).without_date()
        assert decode_body(replayed)["replayed"] is True
        for cut in range(1, len(raw)):
            wire.send(raw[:cut])
            server.live_server.call(int)  # one iteration of the event loop: it has read the first part alone
            assert wire.request(raw[cut:]).without_date() == replayed, cut
    assert server.success_count(command_id) == 1


def test_first_ack_may_arrive_in_two_parts(server: CollectorServer) -> None:
    """Around the end of the headers, where the fast lane starts to wait for the body, each with a new command."""
    raw = ACK.replace(b"{token}", server.token)
    end = raw.index(b"\r\n\r\n") + len(server.lease()) - len(b"{id}")
    for cut in range(end - 2, end + 8):
        command_id = server.lease()
        data = fill(raw, server, command_id)
        with server.live_server.connect() as wire:
            wire.send(data[:cut])
            server.live_server.call(int)
            assert decode_body(wire.request(data[cut:])) == {
                "status": "ok",
                "command_id": command_id.decode(),
                "command_status": "succeeded",
                "replayed": False,
            }


def test_ack_may_arrive_byte_by_byte(server: CollectorServer) -> None:
    command_id = server.lease()
    with server.live_server.connect() as wire:
        for byte in server.ack(command_id):
            wire.send(bytes([byte]))
        assert decode_body(wire.response())["replayed"] is False
    assert server.success_count(command_id) == 1


def test_fast_lane_waits_for_body_after_headers(server: CollectorServer) -> None:
    raw = server.ack(server.lease())
    with server.live_server.connect() as wire:
        before = server.fast_requests
        wire.send(raw[: -len(BODY)])
        server.live_server.call(int)
        assert server.fast_requests == before
        assert decode_body(server.request_fast(wire, raw[-len(BODY) :]))["command_status"] == "succeeded"


@pytest.mark.parametrize("size", [BODY_BYTES_MAX, BODY_BYTES_MAX + 1])
def test_large_bodies_may_arrive_in_parts(server: CollectorServer, size: int) -> None:
    body = b'{"status":"succeeded","more":"%b"}' % (b"a" * (size - 32))
    assert len(body) == size
    raw = server.ack(server.lease(), body)
    before = server.fast_requests
    with server.live_server.connect() as wire:
        for start in range(0, len(raw), 10_000):
            wire.send(raw[start : start + 10_000])
            server.live_server.call(int)
        assert decode_body(wire.response())["command_status"] == "succeeded"
    assert server.fast_requests - before == (size <= BODY_BYTES_MAX)


@pytest.mark.parametrize("port", ["fast_port", "plain_port"])
def test_expect_100_continue_is_honoured(server: CollectorServer, port: str) -> None:
    command_id = server.lease()
    raw = server.ack(command_id, BODY, b"Expect: 100-continue")
    with server.live_server.connect(getattr(server.live_server, port)) as wire:
        assert wire.request(raw[: -len(BODY)]).status == 100
        assert decode_body(wire.request(BODY))["command_status"] == "succeeded"


def test_poll_and_ack_share_one_connection(server: CollectorServer) -> None:
    with server.live_server.connect() as wire:
        for _ in range(5):
            command_id = server.create()
            polled = decode_body(server.request_fast(wire, server.poll()))
            assert [command["command_id"] for command in polled["commands"]] == [command_id]
            body = b'{"status":"succeeded","nonce":"%b"}' % polled["commands"][0]["nonce"].encode()
            assert decode_body(server.request_fast(wire, server.ack(command_id.encode(), body)))["replayed"] is False
            assert decode_body(server.request_fast(wire, server.poll()))["commands"] == []


def test_one_connection_may_use_both_protocols(server: CollectorServer) -> None:
    first, second = server.lease(), server.lease()
    with server.live_server.connect() as wire:
        assert wire.request(OTHER).status == 200
        assert server.request_fast(wire, server.ack(first)).status == 200
        assert wire.request(OTHER).status == 200
        assert decode_body(wire.request(server.ack(second, BODY, b"X-Else: 1")))["command_status"] == "succeeded"
        assert decode_body(server.request_fast(wire, server.ack(second)))["replayed"] is True


def test_pipelined_requests_are_answered_in_order(server: CollectorServer) -> None:
    """A poll that finds a command, an ACK, another request, and a second poll, in one part."""
    leased, waiting = server.lease(), server.create()
    with server.live_server.connect() as wire:
        wire.send(server.poll() + server.ack(leased) + OTHER + server.poll())
        polled, acked, other, empty = (wire.response() for _ in range(4))
    assert [command["command_id"] for command in decode_body(polled)["commands"]] == [waiting]
    assert decode_body(acked)["command_id"] == leased.decode()
    assert other.status == 200
    assert decode_body(empty)["commands"] == []


def test_ack_after_parked_poll_is_handled_after_it(server: CollectorServer) -> None:
    leased = server.lease()
    with server.live_server.connect() as wire:
        wire.send(server.poll(b"?wait=30"))
        server.live_server.wait_until(lambda: server.node.commands.poll.parked_count == 1)
        wire.send(server.ack(leased))
        server.live_server.call(int)
        assert server.state(leased) == "dispatched"
        created = server.create()
        polled, acked = wire.response(), wire.response()
    assert [command["command_id"] for command in decode_body(polled)["commands"]] == [created]
    assert decode_body(acked)["command_status"] == "succeeded"


class BusyWriter:
    """Keeps the writer busy until it is released, so that other writes wait."""

    def __init__(self, server: CollectorServer) -> None:
        self._release = threading.Event()
        started = threading.Event()

        def work(_conn: Any) -> None:
            started.set()
            self._release.wait(10)

        asyncio.run_coroutine_threadsafe(server.node.database.write(work), server.live_server.loop)
        assert started.wait(10)

    def __enter__(self) -> "BusyWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._release.set()


def test_disconnect_during_write_does_not_affect_others(server: CollectorServer) -> None:
    """The ACK is applied although its response is lost; others get their responses."""
    leased = [server.lease() for _ in range(5)]
    with ExitStack() as connected, capture_logs() as logged:
        wires: list[RawConnection] = [connected.enter_context(server.live_server.connect()) for _ in leased]
        with BusyWriter(server):
            for wire, command_id in zip(wires, leased, strict=True):
                before = server.fast_requests
                wire.send(server.ack(command_id))
                server.live_server.wait_until(lambda before=before: server.fast_requests == before + 1)  # type: ignore[misc]
            connections = server.node.lane.connections
            for wire in wires[:3]:
                wire.socket.close()
            server.live_server.wait_until(lambda: server.node.lane.connections == connections - 3)
        assert [decode_body(wire.response())["replayed"] for wire in wires[3:]] == [False, False]
        assert [line for line in logged if line["log_level"] == "error"] == []
        # A repeated ACK is reported as replayed.
        assert [decode_body(wires[4].request(server.ack(command_id)))["replayed"] for command_id in leased] == [
            True
        ] * 5


def test_disconnect_before_claim_claims_nothing(server: CollectorServer) -> None:
    command_id = server.create()
    connections = server.node.lane.connections
    with BusyWriter(server):
        with server.live_server.connect() as wire:
            before = server.fast_requests
            wire.send(server.poll())
            server.live_server.wait_until(lambda: server.fast_requests == before + 1)
        server.live_server.wait_until(lambda: server.node.lane.connections == connections)
    with server.live_server.connect() as wire:
        commands = decode_body(wire.request(server.poll()))["commands"]
    assert [(command["command_id"], command["attempt"]) for command in commands] == [(command_id, 1)]


def test_disconnect_within_body_changes_nothing(server: CollectorServer) -> None:
    command_id = server.lease()
    connections = server.node.lane.connections
    with server.live_server.connect() as wire:
        wire.send(server.ack(command_id)[:-1])
        server.live_server.wait_until(lambda: server.node.lane.connections == connections + 1)
    server.live_server.wait_until(lambda: server.node.lane.connections == connections)
    assert server.state(command_id) == "dispatched"


def test_missing_body_times_out(impatient: CollectorServer) -> None:
    command_id = impatient.lease()
    with impatient.live_server.connect() as wire:
        wire.send(impatient.ack(command_id)[:-1])
        timed_out = wire.response()
        assert wire.is_closed_by_server()
    assert timed_out.status == 408
    assert impatient.node.lane.slow_senders_cut == 1
    assert impatient.state(command_id) == "dispatched"


def test_body_sent_byte_by_byte_times_out(impatient: CollectorServer) -> None:
    """The deadline is for the whole body, not for each byte."""
    raw = impatient.ack(impatient.lease(), b'{"status":"succeeded","more":"%b"}' % (b"a" * 1000))
    with impatient.live_server.connect() as wire:
        wire.socket.settimeout(SHORT_SECONDS / 10)
        start = raw.index(b"\r\n\r\n") + 4
        wire.send(raw[:start])
        end = time.monotonic() + SHORT_SECONDS + LATE_SECONDS
        for byte in raw[start:]:
            assert time.monotonic() < end
            try:
                response = wire.response()
                break
            except TimeoutError:
                wire.send(bytes([byte]))
    assert response.status == 408


def test_keep_alive_does_not_end_a_body_in_time(impatient: CollectorServer) -> None:
    """On a connection that uvicorn has used, which has its own keep-alive timer."""
    impatient.node.lane.body_seconds = 10.0
    raw = impatient.ack(impatient.lease())
    with impatient.live_server.connect() as wire:
        assert wire.request(OTHER).status == 200
        wire.send(raw[:-1])
        over = time.monotonic() + 4 * SHORT_SECONDS
        impatient.live_server.wait_until(lambda: impatient.node.lane.deadlines.now > over)
        assert decode_body(wire.request(raw[-1:]))["command_status"] == "succeeded"
