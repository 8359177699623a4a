"""Strangers send endless request lines, headers, trailers and pipelines (promise 1 of SECURITY.md).

Each bound holds for the fast lane, for uvicorn's protocol alone, and behind TLS.
"""

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from restante.server.http.bounded_protocol import (
    FIELD_BYTES_MAX,
    FIELD_LINES_MAX,
    PIPELINED_MAX,
    TARGET_BYTES_MAX,
)
from tests.faults.server_process import ServerProcess, running_server
from tests.server.fast_lane_device import PATH, DeviceServer
from tests.server.live_server import RawConnection, RawResponse
from tests.server.tls_connection import SETTINGS, TlsConnection

CONNECTIONS = 50
# Without bounds, each of these connections costs the server many times as much.
SENT_PER_CONNECTION = 2_000_000
GROWTH_BYTES_MAX = 48_000_000

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
CHUNKED = (
    b"POST /auth/refresh HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
)
LAST_CHUNK = b"2\r\n{}\r\n0\r\n"

Connect = Callable[[], RawConnection]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeviceServer]:
    server = DeviceServer(tmp_path_factory.mktemp("plain"))
    yield server
    server.live_server.close()


@pytest.fixture(scope="module")
def tls_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeviceServer]:
    server = DeviceServer(tmp_path_factory.mktemp("tls"), **SETTINGS)
    yield server
    server.live_server.close()


@pytest.fixture(params=["fast lane", "uvicorn", "tls"])
def connect(request: pytest.FixtureRequest, server: DeviceServer) -> Connect:
    if request.param == "tls":
        port = request.getfixturevalue("tls_server").live_server.fast_port
        return lambda: TlsConnection(port)
    port = server.live_server.fast_port if request.param == "fast lane" else server.live_server.plain_port
    return lambda: RawConnection(port)


def last_response(connect: Connect, sent: bytes, part_bytes: int | None = None) -> RawResponse:
    """The last response before the server closes the connection."""
    with connect() as wire:
        # The server may close before everything is sent.
        with suppress(ConnectionError):
            for start in range(0, len(sent), part_bytes or len(sent)):
                wire.send(sent[start : start + (part_bytes or len(sent))])
        return wire.responses_until_close()[-1]


def error_code(response: RawResponse) -> int:
    assert response.header(b"connection") == b"close"
    code: int = msgspec.json.decode(response.body)["error"]["code"]
    return code


def line_of(length: int) -> bytes:
    """A header line of that many bytes."""
    return b"X: " + b"a" * (length - 5) + b"\r\n"


def target_of(length: int) -> bytes:
    return b"GET /healthz?" + b"a" * (length - len(b"/healthz?")) + b" HTTP/1.1\r\nHost: x\r\n\r\n"


def status(connect: Connect, sent: bytes) -> int:
    with connect() as wire:
        return wire.request(sent).status


HOST_BYTES = len(b"Host: x\r\n")

WITHIN = {
    "target": target_of(TARGET_BYTES_MAX),
    "one long header": HEALTH + line_of(FIELD_BYTES_MAX - HOST_BYTES) + b"\r\n",
    "many headers": HEALTH + b"X: a\r\n" * (FIELD_LINES_MAX - 1) + b"\r\n",
}
OVER = {
    "target": (414, target_of(TARGET_BYTES_MAX + 1)),
    "target without an end": (414, b"GET /" + b"a" * 400_000),
    "one long header": (431, HEALTH + line_of(FIELD_BYTES_MAX - HOST_BYTES + 1) + b"\r\n"),
    "one header without an end": (431, HEALTH + b"X: " + b"a" * 400_000),
    "one header name without an end": (431, HEALTH + b"a" * 400_000),
    "many headers": (431, HEALTH + b"X: a\r\n" * FIELD_LINES_MAX + b"\r\n"),
    "many long headers": (431, HEALTH + line_of(2000) * 33 + b"\r\n"),
    "headers without an end": (431, HEALTH + b"a:\r\n" * 100_000),
    "poll with many headers": (431, b"{poll}" + b"Accept: a\r\n" * FIELD_LINES_MAX + b"\r\n"),
    "poll with a long token": (431, b"{poll}Authorization: Bearer " + b"a" * FIELD_BYTES_MAX + b"\r\n\r\n"),
    "poll with a long query": (
        414,
        b"GET %b?" % PATH + b"&" * TARGET_BYTES_MAX + b" HTTP/1.1\r\n\r\n",
    ),
    "trailers": (431, CHUNKED + LAST_CHUNK + b"X: a\r\n" * (FIELD_LINES_MAX + 1) + b"\r\n"),
    "one trailer without an end": (431, CHUNKED + LAST_CHUNK + b"X: " + b"a" * 400_000),
    "chunk extension without an end": (431, CHUNKED + b"2;" + b"a" * 400_000),
    "only empty lines": (431, b"\r\n" * 200_000),
}


@pytest.mark.parametrize("name", WITHIN)
def test_request_at_the_bound_is_served(connect: Connect, name: str) -> None:
    assert status(connect, WITHIN[name]) == 200


@pytest.mark.parametrize("part_bytes", [None, 10_000], ids=["at once", "in parts"])
@pytest.mark.parametrize("name", OVER)
def test_request_over_the_bound_is_refused(
    server: DeviceServer, connect: Connect, name: str, part_bytes: int | None
) -> None:
    expected, sent = OVER[name]
    refused = last_response(connect, sent.replace(b"{poll}", server.device.poll()[:-2]), part_bytes)
    assert refused.status == expected
    assert error_code(refused) == expected * 100


def test_trailers_are_not_headers(connect: Connect, server: DeviceServer) -> None:
    poll = b"GET %b HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n" % PATH
    assert status(connect, poll + b"0\r\nAuthorization: Bearer " + server.device.token + b"\r\n\r\n") == 401


def test_pipeline_over_the_bound_is_refused(connect: Connect) -> None:
    refused = last_response(connect, (HEALTH + b"\r\n") * (PIPELINED_MAX + 2))
    assert refused.status == 400
    assert b"at most 100 requests" in refused.body


def test_pipeline_at_the_bound_is_served(connect: Connect) -> None:
    with connect() as wire:
        wire.send((HEALTH + b"\r\n") * (PIPELINED_MAX + 1))
        assert [wire.response().status for _ in range(PIPELINED_MAX + 1)] == [200] * (PIPELINED_MAX + 1)


def test_refusals_are_counted(server: DeviceServer) -> None:
    before = server.node.lane.oversized_requests
    last_response(lambda: RawConnection(server.live_server.fast_port), OVER["many headers"][1])
    assert server.node.lane.oversized_requests == before + 1


def resident_bytes(server: ServerProcess) -> int:
    fields = Path(f"/proc/{server.pid}/status").read_text().split("\n")
    return next(int(line.split()[1]) * 1024 for line in fields if line.startswith("VmHWM:"))


FLOODS: dict[str, bytes] = {
    "header lines": HEALTH + b"a:\r\n" * (SENT_PER_CONNECTION // 4),
    "one header": HEALTH + b"X: " + b"a" * SENT_PER_CONNECTION,
    "target": b"GET /" + b"a" * SENT_PER_CONNECTION,
    "trailers": CHUNKED + LAST_CHUNK + b"a:\r\n" * (SENT_PER_CONNECTION // 4),
    "pipelined requests": b"GET / HTTP/1.1\r\n\r\n" * (SENT_PER_CONNECTION // 18),
}


@pytest.mark.slow
def test_memory_stays_flat_under_many_oversized_requests(tmp_path: Path) -> None:
    with running_server(tmp_path / "data") as server:
        flood(server, HEALTH + b"\r\n")  # what fifty connections and their buffers cost anyway
        before = resident_bytes(server)
        for sent in FLOODS.values():
            flood(server, sent)
        assert resident_bytes(server) - before < GROWTH_BYTES_MAX
        assert server.process.poll() is None


def flood(server: ServerProcess, sent: bytes) -> None:
    """Send on many connections in turns, so that all of them are open with an unfinished request."""
    with ExitStack() as opened:
        wires: list[Any] = [opened.enter_context(RawConnection(server.port)) for _ in range(CONNECTIONS)]
        for wire in wires:
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
        for start in range(0, len(sent), 60_000):
            for wire in wires:
                with suppress(ConnectionError):
                    wire.send(sent[start : start + 60_000])
        for wire in wires:
            assert wire.responses_until_close() if len(sent) > 60_000 else wire.response().status == 200
