"""Unusual polls for events: the fast lane and uvicorn's own protocol respond alike.

The unusual ACKs again, as polls of the same length; then unusual interaction ids, which only polls have.
"""

import re
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.events import inbox_fixture
from tests.server.fast_lane_collector import BASE
from tests.server.live_server import LiveServer, RawResponse, is_refused
from tests.server.odd_posts import BODY, JSON, ODD_POSTS

CLOSING_REQUEST = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
# As long as the body of the ACKs.
POLL = b'{"maxEvents":0}       '
RETURN_IMMEDIATELY = b'{"returnImmediately":true}'
ID = b"x-fapi-interaction-id: 93bac548d2de4546b106880a5018460d"
_RANDOM = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def with_lines(*lines: bytes, body: bytes = RETURN_IMMEDIATELY, path: bytes = b"/events") -> bytes:
    length = b"Content-Length: %d" % len(body)
    head = [b"POST %b HTTP/1.1" % path, b"Host: x", b"Authorization: Bearer {token}", JSON, length, *lines, b"", b""]
    return b"\r\n".join(head) + body


def as_poll(ack: bytes) -> bytes:
    return ack.replace(BASE + b"{id}/ack", b"/events").replace(BODY, POLL)


assert len(POLL) == len(BODY)
ODD_POLLS = {
    **{name: as_poll(raw) for name, raw in ODD_POSTS.items() if BASE + b"{id}/ack" in raw},
    "no interaction id": with_lines(),
    "an interaction id": with_lines(ID),
    "one as libraries spell it": with_lines(ID.replace(b"x-fapi-interaction-id", b"X-Fapi-Interaction-Id")),
    "one in capitals": with_lines(ID.replace(b"x-fapi-interaction-id", b"X-FAPI-INTERACTION-ID")),
    "no space behind the colon": with_lines(ID.replace(b": ", b":")),
    "spaces behind it": with_lines(ID + b"  "),
    "an empty one": with_lines(b"x-fapi-interaction-id: "),
    "one with a blank": with_lines(b"x-fapi-interaction-id: a b"),
    "one with high bytes": with_lines(b"x-fapi-interaction-id: \xff"),
    "one that is too long": with_lines(b"x-fapi-interaction-id: " + b"a" * 129),
    "one as long as can be": with_lines(b"x-fapi-interaction-id: " + b"a" * 128),
    "two, in two spellings": with_lines(ID, b"X-Fapi-Interaction-Id: other"),
    "two, the same": with_lines(ID, ID),
    "one before the token": with_lines(ID)
    .replace(b"Host: x", b"Host: x\r\n" + ID, 1)
    .replace(ID + b"\r\n\r\n", b"\r\n"),
    "its name within another's value": with_lines(b"User-Agent: x-fapi-interaction-id: a"),
    "accepting JSON": with_lines(ID, b"Accept: application/json"),
    "accepting nothing we have": with_lines(ID, b"Accept: text/html"),
    "accepting twice": with_lines(ID, b"Accept: text/html", b"Accept: */*"),
    "under the base": with_lines(ID, path=b"/open-banking/v4.0/events"),
    "under another base": with_lines(ID, path=b"/open-banking/v3.1/events"),
    "a body with lines": with_lines(ID, body=b'{\r\n"returnImmediately":\r\ntrue}'),
}


class EventServer:
    def __init__(self, live_server: LiveServer) -> None:
        self.live_server = live_server
        client = live_server.node.database.write_now(inbox_fixture.add_client)
        self.token = client.token.encode()
        live_server.wait_for(live_server.node.identity.client_tokens.verify(client.token, None))

    def exchange(self, port: int, raw: bytes) -> list[RawResponse]:
        """All responses to this request, and to a last request that closes the connection."""
        responses = []
        with self.live_server.connect(port) as wire, suppress(BrokenPipeError, ConnectionResetError, EOFError):
            wire.send(raw.replace(b"{token}", self.token))
            responses.append(wire.response())
            wire.send(CLOSING_REQUEST)
            responses += wire.responses_until_close()
        return [comparable(response) for response in responses]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EventServer]:
    folder = tmp_path_factory.mktemp("events")
    # Without a wait, because an empty body is a poll that waits.
    live_server = LiveServer(folder, has_services=False, events_poll_burst=1_000_000, events_wait_seconds=0)
    yield EventServer(live_server)
    live_server.close()


def comparable(response: RawResponse) -> RawResponse:
    headers = [(name, _RANDOM.sub(b"*", value)) for name, value in response.without_date().headers]
    return response._replace(headers=headers, body=_RANDOM.sub(b"*", response.body))


@pytest.mark.parametrize("name", ODD_POLLS)
def test_both_protocols_respond_alike(server: EventServer, name: str) -> None:
    raw = ODD_POLLS[name]
    # Twice through the fast lane: the second time it may know the template, or even the whole request.
    first, again, plain = (
        server.exchange(port, raw)
        for port in (server.live_server.fast_port, server.live_server.fast_port, server.live_server.plain_port)
    )
    for fast in (first, again):
        if is_refused(fast) and is_refused(plain):
            assert fast[:-1] == plain[:-1]
        else:
            assert fast == plain


def test_repeated_poll_gets_response_from_memory(server: EventServer) -> None:
    """The control: it proves that the fast lane was used above."""
    raw = with_lines(ID).replace(b"{token}", server.token)
    lane = server.live_server.node.lane
    with server.live_server.connect() as wire:
        for n in range(4):
            changed = raw.replace(b"93bac548", b"%08x" % n)
            before = lane.fast_requests
            response = wire.request(changed)
            assert response.body == b'{"sets":{},"moreAvailable":false}'
            assert response.header(b"x-fapi-interaction-id") == b"%08xd2de4546b106880a5018460d" % n
            assert lane.fast_requests == before + 1
        date_line = server.live_server.call(lane.current_date_line)
        assert server.live_server.call(lane.post_templates.respond_from_memory, raw, date_line, wire) is not None


def test_poll_may_arrive_in_two_parts(server: EventServer) -> None:
    raw = with_lines(ID).replace(b"{token}", server.token)
    with server.live_server.connect() as wire:
        whole = wire.request(raw).without_date()
        for cut in range(1, len(raw), 7):
            wire.send(raw[:cut])
            server.live_server.call(int)  # one iteration of the event loop: it has read the first part alone
            assert wire.request(raw[cut:]).without_date() == whole, cut
