"""Many requests at the same moment over real sockets: what must be exact is exact."""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from restante.commands.rate_windows import RateRules
from restante.database.queries import Query
from restante.identity import api_keys
from restante.identity.callers import Role
from tests.server.edge_lane import EdgeLane, said
from tests.server.serving import WireAnswer

RESTARTS_MAX = 5
_COUNT = Query("count", "SELECT count(*) AS count FROM miner_commands")


@pytest.fixture
def lane(tmp_path: Path) -> Iterator[EdgeLane]:
    lane = EdgeLane(tmp_path, command_rate_limits=RateRules())
    yield lane
    lane.served.close()


def ask_at_once(lane: EdgeLane, requests: list[bytes], port: int | None = None) -> list[WireAnswer]:
    """Each on a connection of its own: all are sent before any answer is read."""
    with ExitStack() as connected:
        wires = [connected.enter_context(lane.served.connect(port)) for _ in requests]
        for wire, request in zip(wires, requests, strict=True):
            wire.send(request)
        return [wire.answer() for wire in wires]


def commands_in(answers: list[WireAnswer]) -> list[dict[str, Any]]:
    return [command for answer in answers for command in said(answer)["commands"]]


def ids_of(commands: list[dict[str, Any]]) -> list[str]:
    return [command["command_id"] for command in commands]


@pytest.mark.parametrize("query", [b"?limit=1", b"?limit=50", b"?limit=1&unknown=1"])
def test_200_polls_are_granted_exactly_the_limit(lane: EdgeLane, query: bytes) -> None:
    made = [lane.create("MINER_RESTART") for _ in range(RESTARTS_MAX * 3)]
    answers = ask_at_once(lane, [lane.poll(query)] * 200)
    assert {answer.status for answer in answers} == {200}
    handed_out = commands_in(answers)
    assert sorted(ids_of(handed_out)) == sorted(made[:RESTARTS_MAX])
    assert {command["attempt"] for command in handed_out} == {1}
    assert said(answers[-1])["rate_limited_count"] == len(made) - RESTARTS_MAX


def test_200_polls_hand_out_each_command_once(lane: EdgeLane) -> None:
    made = [lane.create(kind) for kind in ("HASHING_ENABLE",) * 20 + ("HASHING_DISABLE",) * 10]
    handed_out = commands_in(ask_at_once(lane, [lane.poll(b"?limit=1")] * 200))
    assert sorted(ids_of(handed_out)) == sorted(made)
    assert len({command["nonce"] for command in handed_out}) == len(made)


def test_waiting_polls_are_handed_what_there_is(lane: EdgeLane) -> None:
    """50 wait; 10 commands come; 10 are answered with one each, and the others wait on."""
    bell = lane.node.commands.poll.bell
    with ExitStack() as connected:
        wires = [connected.enter_context(lane.served.connect()) for _ in range(50)]
        for wire in wires:
            wire.send(lane.poll(b"?limit=1&wait=30"))
        lane.served.until(lambda: bell.waiting_count == 50)
        made = [lane.create() for _ in range(10)]
        lane.served.until(lambda: bell.waiting_count == 40)
        lane.served.call(lane.node.commands.close)
        answers = [wire.answer() for wire in wires]
    assert sorted(ids_of(commands_in(answers))) == sorted(made)


def create_request(lane: EdgeLane, key: str, *lines: bytes, **changed: Any) -> bytes:
    wish = {"site_id": lane.site_id, "miner_id": lane.miner_id, "command_type": "start", **changed}
    body = msgspec.json.encode(wish)
    head = [
        b"POST /api/edge/v1/admin/commands HTTP/1.1",
        b"Host: x",
        b"Authorization: Bearer " + key.encode(),
        b"Content-Type: application/json",
        b"Content-Length: %d" % len(body),
    ]
    return b"\r\n".join([*head, *lines, b"", body])


@pytest.fixture
def key(lane: EdgeLane) -> str:
    return lane.node.database.write_now(api_keys.create, "operator", Role.operator)[1]


def commands_there(lane: EdgeLane) -> int:
    row = lane.node.database.read_now(lambda conn: conn.one(_COUNT))
    return 0 if row is None else int(row["count"])


def test_50_creates_with_one_dedupe_key_make_one_command(lane: EdgeLane, key: str) -> None:
    request = create_request(lane, key, dedupe_key="the same")
    answers = ask_at_once(lane, [request] * 50)
    assert Counter(answer.status for answer in answers) == {201: 1, 409: 49}
    made = {said(answer)["command_id"] for answer in answers}
    assert len(made) == 1
    assert {said(answer)["error"] for answer in answers if answer.status == 409} == {"DUPLICATE_ACTIVE"}
    assert commands_there(lane) == 1


def test_50_creates_with_one_idempotency_key_make_one_command(lane: EdgeLane, key: str) -> None:
    request = create_request(lane, key, b"Idempotency-Key: the same")
    answers = ask_at_once(lane, [request] * 50)
    assert {answer.status for answer in answers} == {201}
    assert len({answer.body for answer in answers}) == 1
    assert sum(answer.header(b"idempotency-replayed") is None for answer in answers) == 1
    assert commands_there(lane) == 1


@pytest.mark.parametrize("lines", [(), (b"X-Else: 1",)], ids=["hot", "by the application"])
def test_20_equal_acks_are_applied_once(lane: EdgeLane, lines: tuple[bytes, ...]) -> None:
    command_id = lane.lease()
    answers = ask_at_once(lane, [lane.ack(command_id, b'{"status":"succeeded"}', *lines)] * 20)
    assert {answer.status for answer in answers} == {200}
    assert Counter(said(answer)["replayed"] for answer in answers) == {False: 1, True: 19}
    assert lane.times_succeeded(command_id) == 1


def test_different_acks_at_once_end_a_command_once(lane: EdgeLane) -> None:
    command_id = lane.lease()
    bodies = [b'{"status":"%b","message":"%d"}' % (b"succeeded", n) for n in range(20)]
    answers = ask_at_once(lane, [lane.ack(command_id, body) for body in bodies])
    assert Counter(answer.status for answer in answers) == {200: 1, 409: 19}
    assert {said(answer)["error"] for answer in answers if answer.status == 409} == {"COMMAND_FINISHED"}
    assert lane.times_succeeded(command_id) == 1


def test_an_idle_poll_is_answered_at_once_and_as_in_full(lane: EdgeLane) -> None:
    """The first look asks the database; from the second on memory knows, and says the same to the last byte."""
    with lane.served.connect() as wire:
        in_full = lane.ask_hot(wire, lane.poll(b"?limit=7"))
        again = [lane.ask_hot(wire, lane.poll(b"?limit=7")) for _ in range(3)]
        form = lane.poll(b"?limit=7")
        at_once = lane.served.call(lane.node.lane.forms.at_once, form, b"date: now\r\n")
        assert at_once is not None
        assert at_once.startswith(b"HTTP/1.1 200 OK\r\ndate: now\r\ncontent-type: application/json\r\n")
        # With other headers it is another form, which is read in full first; what waits is never answered at once.
        assert lane.served.call(lane.node.lane.forms.at_once, lane.poll(b"?wait=1"), b"") is None
    names = [name for name, _ in in_full.headers]
    for answer in again:
        assert [name for name, _ in answer.headers] == names
        assert {**said(answer), "server_time": ""} == {**said(in_full), "server_time": ""}
    made = lane.create()
    with lane.served.connect() as wire:
        assert ids_of(said(lane.ask_hot(wire, lane.poll(b"?limit=7")))["commands"]) == [made]


def test_parked_polls_for_commands_are_counted(lane: EdgeLane) -> None:
    with lane.served.connect() as wire:
        wire.send(lane.poll(b"?wait=30"))
        lane.served.until(lambda: lane.node.commands.poll.bell.waiting_count == 1)
        with lane.served.connect() as other:
            metrics = other.ask(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"\nrestante_parked_polls 1.0\n" in metrics.body
