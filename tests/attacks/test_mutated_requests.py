"""Mutated requests over raw sockets, to the fast lane and to uvicorn alone (promise 1 of SECURITY.md).

For each mutated request both respond alike, byte for byte except dates and random ids, or both refuse it with a 4xx and
close. There is no 5xx. The same requests are made each time; `make attacks` makes 24,000 of them.
"""

import os
import random
import re
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.events import inbox_fixture
from tests.identity.people_and_devices import add_device, add_user
from tests.server.fast_lane_collector import BASE, CollectorServer
from tests.server.fast_lane_device import PATH
from tests.server.live_server import RawConnection

REQUESTS = int(os.environ.get("RESTANTE_MUTATED_REQUESTS", "2400"))
SEED = 12
BATCH = 100
LOOP_ITERATIONS = 20
# Ends whatever a mutated request leaves unfinished: its line, its headers, or a body of at most that many bytes.
BODY_BYTES_MAX = 9000
ENDING = b"\r\n" * (BODY_BYTES_MAX // 2 + 100) + b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"

SETTINGS: dict[str, Any] = {
    "poll_burst": 1_000_000,
    "poll_interval_seconds": 1,
    "boost_poll_interval_seconds": 1,
    "events_poll_burst": 1_000_000,
    "events_wait_seconds": 0,
}
INSERTED = (
    *(
        b"\r\n",
        b"\n",
        b"\r",
        b"\x00",
        b" ",
        b"\t",
        b":",
        b",",
        b'"',
        b"\xff",
        b"\xc2\xa0",
        b"%00",
        b"%2F",
        b"/../",
        b"?",
    ),
    *(b"#", b"&", b"=", b"{", b"[", b"0", b"-", b"a" * 300, b"\r\nX: y", b"\r\n\r\n", b"\r\nHost: y", b" HTTP/1.0"),
    *(b"\r\nContent-Length: 2", b"\r\nTransfer-Encoding: chunked", b"\r\nConnection: close", b"\r\nAccept: text/html"),
    *(b"\r\nIf-None-Match: 0-0", b"\r\nExpect: 100-continue", b"\r\nContent-Encoding: gzip", b"\r\n a"),
)
HEADERS = (
    *(b"User-Agent: a/1.0 (b; c)", b"Accept-Encoding: gzip, br", b"traceparent: 00-0-0-01", b"X-Request-Id: 1"),
    *(b"Accept: application/json", b"Cache-Control: no-cache", b"Connection: keep-alive", b"Connection: Keep-Alive"),
    *(b"If-None-Match: 0-0", b'If-None-Match: "0-0"', b"x-fapi-interaction-id: 1", b"Cookie: a=b", b"X-Other: 1"),
)
_LENGTH = re.compile(rb"(?i)length\s*:\s*\D?(\d+)")
_CHUNK = re.compile(rb"(?m)^[0-9A-Fa-f]{4,}")
_VARYING = re.compile(
    rb"date: [^\r]*|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z"
)
_SERVER_ERROR = re.compile(rb"HTTP/1\.1 5\d\d ")
_REFUSAL = re.compile(rb"HTTP/1\.1 4\d\d [^\r]*\r\n(?:[^\r]+\r\n)*connection: close\r\n")


class CampaignServer(CollectorServer):
    """A server with a device, a collector and a client, whose tokens are cached."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, **SETTINGS)
        database, identity = self.node.database, self.node.identity
        user_id = add_user(database)
        device_token = identity.device_tokens.mint(user_id, add_device(database, user_id))
        client_token = database.write_now(inbox_fixture.add_client).token
        self.live_server.wait_for(identity.device_tokens.verify(device_token))
        self.live_server.wait_for(identity.client_tokens.verify(client_token, None))
        self.device_token, self.client_token = device_token.encode(), client_token.encode()

    def originals(self) -> list[bytes]:
        device, client, collector = (
            b"Host: x\r\nAuthorization: Bearer " + token for token in (self.device_token, self.client_token, self.token)
        )
        return [
            b"GET %b HTTP/1.1\r\n%b\r\n\r\n" % (PATH, device),
            b"GET %b?limit=5 HTTP/1.1\r\n%b\r\nAccept: */*\r\nIf-None-Match: 0-0\r\n\r\n" % (PATH, device),
            b"GET %bpoll?limit=5 HTTP/1.1\r\n%b\r\nUser-Agent: a\r\n\r\n" % (BASE, collector),
            post(b"%bunknown/ack" % BASE, collector, b'{"status":"succeeded"}'),
            post(b"/events", client, b'{"returnImmediately":true}'),
            post(b"/open-banking/v3.1/events", client + b"\r\nx-fapi-interaction-id: 93bac548", b'{"maxEvents":0}'),
            post(b"/auth/refresh", b"Host: x", b'{"refresh_token":"a"}'),
            b"GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nT: v\r\n\r\n",
        ]


def post(path: bytes, headers: bytes, body: bytes) -> bytes:
    head = b"POST %b HTTP/1.1\r\n%b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % (path, headers, len(body)) + body


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CampaignServer]:
    server = CampaignServer(tmp_path_factory.mktemp("campaign"))
    yield server
    server.live_server.close()


def mutated(originals: list[bytes], numbers: random.Random) -> bytes:
    while True:
        data = numbers.choice(originals)
        for _ in range(numbers.choice((1, 1, 2, 3))):
            data = mutated_once(data, originals, numbers)
        # `ENDING` must be enough to finish it.
        if not any(int(length) > BODY_BYTES_MAX for length in _LENGTH.findall(data)) and not _CHUNK.search(data):
            return data


def mutated_once(data: bytes, originals: list[bytes], numbers: random.Random) -> bytes:
    start = numbers.randint(0, len(data))
    end = min(len(data), start + numbers.randint(1, 20))
    lines = data.split(b"\r\n")
    match numbers.randrange(11):
        case 0:
            return data[:start] + numbers.choice(INSERTED) + data[start:]
        case 1:
            return data[:start] + data[end:]
        case 2:
            return data[:end] + data[start:]
        case 3:
            return data[:start] + data[start:end].swapcase() + data[end:]
        case 4:
            return data[:start] + bytes([numbers.randrange(256)]) + data[start + 1 :]
        case 5:
            numbers.shuffle(lines)
            return b"\r\n".join(lines)
        case 7 | 8:  # headers in another order
            head, _, body = data.partition(b"\r\n\r\n")
            line, *headers = head.split(b"\r\n")
            numbers.shuffle(headers)
            return b"\r\n".join([line, *headers, b"", body])
        case 9:
            line, end_of_line, rest = data.partition(b"\r\n")
            return line + end_of_line + numbers.choice(HEADERS) + end_of_line + rest
        case 6:
            lines.insert(numbers.randrange(len(lines)), numbers.choice(lines))
            return b"\r\n".join(lines)
        case _:
            other = numbers.choice(originals)
            return data[:start] + other[numbers.randint(0, len(other)) :]


def responses(server: CampaignServer, port: int, requests: list[bytes]) -> list[bytes]:
    """All bytes that come back for each request until the server closes its connection."""
    with ExitStack() as opened:
        wires = [opened.enter_context(RawConnection(port)) for _ in requests]
        send_all(server, wires, requests)
        send_all(server, wires, [ENDING] * len(requests))
        # Whether the server sends 100 Continue depends on when the body arrives.
        return [_VARYING.sub(b"*", read_until_closed(wire)).replace(CONTINUE, b"") for wire in wires]


def send_all(server: CampaignServer, wires: list[RawConnection], parts: list[bytes]) -> None:
    for wire, part in zip(wires, parts, strict=True):
        with suppress(ConnectionError):
            wire.send(part)
    # The event loop reads each part alone: the fast lane recognizes only requests without bytes after them.
    for _ in range(LOOP_ITERATIONS):
        server.live_server.call(int)


def read_until_closed(wire: RawConnection) -> bytes:
    received = b""
    with suppress(ConnectionError):
        while data := wire.socket.recv(65536):
            received += data
    return received


def are_alike(fast: bytes, plain: bytes) -> bool:
    if fast == plain:
        return True
    before_fast, before_plain = without_refusal(fast), without_refusal(plain)
    if before_fast is None or before_plain is None:
        return False
    # The refusal of later bytes may close the connection before the response to an earlier request is written.
    return before_fast.startswith(before_plain) or before_plain.startswith(before_fast)


def without_refusal(received: bytes) -> bytes | None:
    """What came before the refusal that closed the connection; None if it was not closed by one."""
    before, status, last = received.rpartition(b"HTTP/1.1 ")
    return before if not received or _REFUSAL.match(status + last) else None


def test_fast_lane_and_uvicorn_respond_alike_to_mutated_requests(server: CampaignServer) -> None:
    numbers = random.Random(SEED)
    originals = server.originals()
    before = server.fast_requests
    for _ in range(0, REQUESTS, BATCH):
        requests = [mutated(originals, numbers) for _ in range(BATCH)]
        fast, plain = (
            responses(server, port, requests) for port in (server.live_server.fast_port, server.live_server.plain_port)
        )
        for request, of_fast, of_plain in zip(requests, fast, plain, strict=True):
            assert not _SERVER_ERROR.search(of_fast + of_plain), request
            assert are_alike(of_fast, of_plain), (request, of_fast, of_plain)
    # Mutations that leave a request plain are needed, too.
    assert server.fast_requests - before > REQUESTS // 20
