"""Which ACKs the fast lane leaves to the application. Its responses are tested with those of the application."""

import pytest

from restante.commands.acks.fast_ack import FastAck
from restante.web.response import ApiResponse
from tests.commands.edge_fixture import Collector, CommandsHarness


class Connection:
    def __init__(self) -> None:
        self.responses: list[ApiResponse] = []

    def send(self, response: ApiResponse) -> None:
        self.responses.append(response)

    def wait(self, owner: object, parked: object, seconds: float) -> None: ...

    thumbprint = None


@pytest.fixture
async def collector(harness: CommandsHarness) -> Collector:
    collector = harness.add_collector(harness.add_site())
    await harness.tokens.verify(collector.token)
    return collector


@pytest.mark.parametrize(
    ("name", "body", "scheme"),
    [
        (b"cmd%31", b'{"status":"failed"}', b"Bearer "),
        (b"", b'{"status":"failed"}', b"Bearer "),
        (b"c" * 129, b'{"status":"failed"}', b"Bearer "),
        (b"cmd_1", b'{"status":"done"}', b"Bearer "),
        (b"cmd_1", b"{", b"Bearer "),
        (b"cmd_1", b'{"status":"failed"}', b"bearer "),
        (b"cmd_1", b'{"status":"failed"}', b"Bearer x"),
    ],
)
async def test_request_that_is_not_plain_is_left_to_the_application(
    harness: CommandsHarness, collector: Collector, name: bytes, body: bytes, scheme: bytes
) -> None:
    connection = Connection()
    fast = FastAck(harness.component.acks, harness.component.poll, harness.tokens)
    headers = {b"authorization": scheme + collector.token.encode()}
    assert not fast(name, body, headers, connection)
    assert not fast(name, body, {}, connection)
    assert connection.responses == []
