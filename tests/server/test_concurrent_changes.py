"""Many concurrent requests over real sockets: limits, dedupe and idempotency keys, and ACKs stay exact."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from restante.commands.dispatch.rate_limits import RateRules
from restante.database.queries import Query
from restante.identity import api_keys
from restante.identity.callers import Role
from tests.server.fast_lane_collector import CollectorServer, decode_body
from tests.server.live_server import RawResponse

RESTARTS_MAX = 5
POLLS = 50
_COUNT = Query("count", "SELECT count(*) AS count FROM miner_commands")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[CollectorServer]:
    server = CollectorServer(tmp_path, command_rate_limits=RateRules(), collector_parked_polls_max=POLLS)
    yield server
    server.live_server.close()


def send_all(server: CollectorServer, requests: list[bytes], port: int | None = None) -> list[RawResponse]:
    """Send each request on its own connection, all before reading any response."""
    with ExitStack() as connected:
        wires = [connected.enter_context(server.live_server.connect(port)) for _ in requests]
        for wire, request in zip(wires, requests, strict=True):
            wire.send(request)
        return [wire.response() for wire in wires]


def commands_in(responses: list[RawResponse]) -> list[dict[str, Any]]:
    return [command for response in responses for command in decode_body(response)["commands"]]


def ids_of(commands: list[dict[str, Any]]) -> list[str]:
    return [command["command_id"] for command in commands]


@pytest.mark.parametrize("query", [b"?limit=1", b"?limit=50", b"?limit=1&unknown=1"])
def test_200_polls_get_exactly_the_rate_limit(server: CollectorServer, query: bytes) -> None:
    created = [server.create("MINER_RESTART") for _ in range(RESTARTS_MAX * 3)]
    responses = send_all(server, [server.poll(query)] * 200)
    assert {response.status for response in responses} == {200}
    dispatched = commands_in(responses)
    assert sorted(ids_of(dispatched)) == sorted(created[:RESTARTS_MAX])
    assert {command["attempt"] for command in dispatched} == {1}
    assert decode_body(responses[-1])["rate_limited_count"] == len(created) - RESTARTS_MAX


def test_200_polls_dispatch_each_command_once(server: CollectorServer) -> None:
    created = [server.create(kind) for kind in ("HASHING_ENABLE",) * 20 + ("HASHING_DISABLE",) * 10]
    dispatched = commands_in(send_all(server, [server.poll(b"?limit=1")] * 200))
    assert sorted(ids_of(dispatched)) == sorted(created)
    assert len({command["nonce"] for command in dispatched}) == len(created)


def test_waiting_polls_get_one_command_each(server: CollectorServer) -> None:
    """50 polls wait; 10 commands are created; 10 polls get one each, and the others keep waiting."""
    waiters = server.node.commands.poll.waiters
    with ExitStack() as connected:
        wires = [connected.enter_context(server.live_server.connect()) for _ in range(POLLS)]
        for wire in wires:
            wire.send(server.poll(b"?limit=1&wait=30"))
        server.live_server.wait_until(lambda: waiters.parked_count == POLLS)
        created = [server.create() for _ in range(10)]
        server.live_server.wait_until(lambda: waiters.parked_count == POLLS - 10)
        server.live_server.call(server.node.commands.close)
        responses = [wire.response() for wire in wires]
    assert sorted(ids_of(commands_in(responses))) == sorted(created)


def create_request(server: CollectorServer, key: str, *lines: bytes, **changed: Any) -> bytes:
    command = {"site_id": server.site_id, "miner_id": server.miner_id, "command_type": "start", **changed}
    body = msgspec.json.encode(command)
    head = [
        b"POST /api/edge/v1/admin/commands HTTP/1.1",
        b"Host: x",
        b"Authorization: Bearer " + key.encode(),
        b"Content-Type: application/json",
        b"Content-Length: %d" % len(body),
    ]
    return b"\r\n".join([*head, *lines, b"", body])


@pytest.fixture
def key(server: CollectorServer) -> str:
    return server.node.database.write_now(api_keys.create, "operator", Role.operator)[1]


def command_count(server: CollectorServer) -> int:
    row = server.node.database.read_now(lambda conn: conn.one(_COUNT))
    return 0 if row is None else int(row["count"])


def test_50_requests_with_one_dedupe_key_create_one_command(server: CollectorServer, key: str) -> None:
    request = create_request(server, key, dedupe_key="the same")
    responses = send_all(server, [request] * 50)
    assert Counter(response.status for response in responses) == {201: 1, 409: 49}
    created = {decode_body(response)["command_id"] for response in responses}
    assert len(created) == 1
    assert {decode_body(response)["error"] for response in responses if response.status == 409} == {"DUPLICATE_ACTIVE"}
    assert command_count(server) == 1


def test_50_requests_with_one_idempotency_key_create_one_command(server: CollectorServer, key: str) -> None:
    request = create_request(server, key, b"Idempotency-Key: the same")
    responses = send_all(server, [request] * 50)
    assert {response.status for response in responses} == {201}
    assert len({response.body for response in responses}) == 1
    assert sum(response.header(b"idempotency-replayed") is None for response in responses) == 1
    assert command_count(server) == 1


@pytest.mark.parametrize("lines", [(), (b"X-Else: 1",)], ids=["fast lane", "application"])
def test_20_equal_acks_are_applied_once(server: CollectorServer, lines: tuple[bytes, ...]) -> None:
    command_id = server.lease()
    responses = send_all(server, [server.ack(command_id, b'{"status":"succeeded"}', *lines)] * 20)
    assert {response.status for response in responses} == {200}
    assert Counter(decode_body(response)["replayed"] for response in responses) == {False: 1, True: 19}
    assert server.success_count(command_id) == 1


def test_different_concurrent_acks_end_command_once(server: CollectorServer) -> None:
    command_id = server.lease()
    bodies = [b'{"status":"%b","message":"%d"}' % (b"succeeded", n) for n in range(20)]
    responses = send_all(server, [server.ack(command_id, body) for body in bodies])
    assert Counter(response.status for response in responses) == {200: 1, 409: 19}
    assert {decode_body(response)["error"] for response in responses if response.status == 409} == {"COMMAND_FINISHED"}
    assert server.success_count(command_id) == 1


def test_response_from_memory_equals_response_from_database(server: CollectorServer) -> None:
    """The first poll reads the database; later ones are answered from memory with the same bytes."""
    with server.live_server.connect() as wire:
        first = server.request_fast(wire, server.poll(b"?limit=7"))
        again = [server.request_fast(wire, server.poll(b"?limit=7")) for _ in range(3)]
        request = server.poll(b"?limit=7")
        from_memory = server.live_server.call(server.node.lane.templates.respond_from_memory, request, b"date: now\r\n")
        assert from_memory is not None
        assert from_memory[0].startswith(b"HTTP/1.1 200 OK\r\ndate: now\r\ncontent-type: application/json\r\n")
        # Another query is another template, and a waiting poll is never answered from memory.
        assert (
            server.live_server.call(server.node.lane.templates.respond_from_memory, server.poll(b"?wait=1"), b"")
            is None
        )
    names = [name for name, _ in first.headers]
    for response in again:
        assert [name for name, _ in response.headers] == names
        assert {**decode_body(response), "server_time": ""} == {**decode_body(first), "server_time": ""}
    created = server.create()
    with server.live_server.connect() as wire:
        assert ids_of(decode_body(server.request_fast(wire, server.poll(b"?limit=7")))["commands"]) == [created]


def test_parked_polls_for_commands_are_counted(server: CollectorServer) -> None:
    with server.live_server.connect() as wire:
        wire.send(server.poll(b"?wait=30"))
        server.live_server.wait_until(lambda: server.node.commands.poll.parked_count == 1)
        with server.live_server.connect() as other:
            metrics = other.request(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"\nrestante_parked_polls 1.0\n" in metrics.body
