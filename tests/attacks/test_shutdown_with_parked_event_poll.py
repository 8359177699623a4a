"""Parked polls for events are answered when the server stops, also those of Shared Signals."""

import json
from pathlib import Path

import pytest

from restante.events.ssf import streams
from restante.events.ssf.streams import StreamRequest
from tests.events import inbox_fixture
from tests.events.default_options import stream_rules
from tests.server.event_resources import EVERY_SCOPE
from tests.server.live_server import LiveServer, RawResponse


def park_and_stop(server: LiveServer, path: str, token: str) -> RawResponse:
    """Park a poll for events, stop the server, and return the response of the poll."""
    body = b'{"returnImmediately":false}'
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
    with server.connect(server.plain_port) as connection:
        connection.send(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        server.wait_until(lambda: server.node.components.parked_count == 1)
        server.close()
        return connection.response()


@pytest.mark.parametrize("protocol", ["open-banking", "shared-signals"])
def test_parked_poll_is_answered_when_the_server_stops(tmp_path: Path, protocol: str) -> None:
    server = LiveServer(tmp_path)
    database = server.node.database
    client = database.write_now(inbox_fixture.add_client, "receiver", EVERY_SCOPE)
    path = "/events"
    if protocol == "shared-signals":
        stream = database.write_now(streams.create, stream_rules(), client.id, StreamRequest())
        path = f"/ssf/streams/{stream.public_id}/poll"
    response = park_and_stop(server, path, client.token)
    assert response.status == 200, response
    assert json.loads(response.body)["sets"] == {}
    assert server.node.components.parked_count == 0
