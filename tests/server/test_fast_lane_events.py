"""Polls for events that are hardly ever sent so: the fast lane and uvicorn's own protocol say and do the same.

The odd ACKs once more, as polls of the same length; then what is odd about polls alone, the interaction id.
"""

import re
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.events import bank
from tests.server.edge_lane import BASE
from tests.server.odd_posts import BODY, JSON, ODD_POSTS
from tests.server.serving import Served, WireAnswer

LAST = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
# As long as the ACKs' body is.
POLL = b'{"maxEvents":0}       '
AT_ONCE = b'{"returnImmediately":true}'
ID = b"x-fapi-interaction-id: 93bac548d2de4546b106880a5018460d"
_DRAWN = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def with_lines(*lines: bytes, body: bytes = AT_ONCE, path: bytes = b"/events") -> bytes:
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


class Bank:
    def __init__(self, served: Served) -> None:
        self.served = served
        client = served.node.database.write_now(bank.add_client)
        self.token = client.token.encode()
        served.wait_for(served.node.client_tokens.verify(client.token, None))

    def exchange(self, port: int, raw: bytes) -> list[WireAnswer]:
        """Everything the server says to this and to a last request that ends the connection."""
        answers = []
        with self.served.connect(port) as wire, suppress(BrokenPipeError, ConnectionResetError, EOFError):
            wire.send(raw.replace(b"{token}", self.token))
            answers.append(wire.answer())
            wire.send(LAST)
            answers += wire.answers_to_the_end()
        return [comparable(answer) for answer in answers]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    folder = tmp_path_factory.mktemp("events")
    # An empty body is a poll that waits: not here.
    served = Served(folder, is_still=True, events_poll_burst=1_000_000, events_wait_seconds=0)
    yield Bank(served)
    served.close()


def comparable(answer: WireAnswer) -> WireAnswer:
    headers = [(name, _DRAWN.sub(b"*", value)) for name, value in answer.without_date().headers]
    return answer._replace(headers=headers, body=_DRAWN.sub(b"*", answer.body))


def is_refusal(answers: list[WireAnswer]) -> bool:
    return not answers or (answers[-1].status == 400 and answers[-1].header(b"connection") == b"close")


@pytest.mark.parametrize("name", ODD_POLLS)
def test_both_protocols_say_the_same(server: Bank, name: str) -> None:
    raw = ODD_POLLS[name]
    # Twice by the lane: the second time it may know the form, or even the whole request.
    first, again, plain = (
        server.exchange(port, raw)
        for port in (server.served.fast_port, server.served.fast_port, server.served.plain_port)
    )
    for fast in (first, again):
        if is_refusal(fast) and is_refusal(plain):
            assert fast[:-1] == plain[:-1]
        else:
            assert fast == plain


def test_a_poll_that_comes_again_is_answered_at_once(server: Bank) -> None:
    """The control: without it, the two ways above could be one."""
    raw = with_lines(ID).replace(b"{token}", server.token)
    lane = server.served.node.lane
    with server.served.connect() as wire:
        for n in range(4):
            changed = raw.replace(b"93bac548", b"%08x" % n)
            before = lane.hot_requests
            answer = wire.ask(changed)
            assert answer.body == b'{"sets":{},"moreAvailable":false}'
            assert answer.header(b"x-fapi-interaction-id") == b"%08xd2de4546b106880a5018460d" % n
            assert lane.hot_requests == before + 1
        date_line = server.served.call(lane.current_date_line)
        assert server.served.call(lane.posts.at_once, raw, date_line, wire) is not None


def test_a_poll_may_arrive_in_any_two_pieces(server: Bank) -> None:
    raw = with_lines(ID).replace(b"{token}", server.token)
    with server.served.connect() as wire:
        whole = wire.ask(raw).without_date()
        for cut in range(1, len(raw), 7):
            wire.send(raw[:cut])
            server.served.call(int)  # the loop has turned: the first piece was read by itself
            assert wire.ask(raw[cut:]).without_date() == whole, cut
