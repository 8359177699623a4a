"""ACKs through the fast lane against uvicorn's own protocol with the same application behind it: whatever is sent, both
say the same, or both refuse. And ACKs in pieces, one behind another, and from clients that hang up."""

import asyncio
import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Any

import pytest
from structlog.testing import capture_logs

from restante.server.post_forms import BODY_BYTES_MAX
from tests.server.edge_lane import EdgeLane, said
from tests.server.odd_posts import ACK, BODY, ODD_POSTS, OTHER
from tests.server.serving import Wire, WireAnswer

LAST = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
TURNS = 20
MOMENT_SECONDS = 0.3
LATE_SECONDS = 3.0
# What is drawn at random, and what the clock says.
_DRAWN = re.compile(rb'[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|cmd_[0-9a-f]{24}|"\d{4}-\d\d-\d\dT[0-9:]+Z"')


@pytest.fixture(scope="module")
def lane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EdgeLane]:
    lane = EdgeLane(tmp_path_factory.mktemp("lane"))
    yield lane
    lane.served.close()


@pytest.fixture
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EdgeLane]:
    """One that cuts slow bodies soon, and connections that are idle."""
    seconds = {"body_deadline_seconds": MOMENT_SECONDS, "keep_alive_seconds": MOMENT_SECONDS}
    lane = EdgeLane(tmp_path_factory.mktemp("impatient"), **seconds)
    yield lane
    lane.served.close()


def fill(raw: bytes, lane: EdgeLane, command_id: bytes) -> bytes:
    return raw.replace(b"{token}", lane.token).replace(b"{id}", command_id)


def exchange(lane: EdgeLane, port: int, raw: bytes) -> tuple[list[WireAnswer], str]:
    """Everything the server says to this and to a last request that ends the connection; and the command's state."""
    command_id = lane.lease()
    answers = []
    with lane.served.connect(port) as wire, suppress(BrokenPipeError, ConnectionResetError):
        wire.send(fill(raw, lane, command_id))
        answers.append(wire.answer())
        wire.send(LAST)
        answers += wire.answers_to_the_end()
    return [comparable(answer) for answer in answers], lane.state(command_id)


def comparable(answer: WireAnswer) -> WireAnswer:
    return answer.without_date()._replace(body=_DRAWN.sub(b"*", answer.body))


def is_refusal(answers: list[WireAnswer]) -> bool:
    return not answers or (answers[-1].status == 400 and answers[-1].header(b"connection") == b"close")


@pytest.mark.parametrize("name", ODD_POSTS)
def test_both_protocols_say_and_do_the_same(lane: EdgeLane, name: str) -> None:
    raw = ODD_POSTS[name]
    (fast, fast_state), (plain, plain_state) = (
        exchange(lane, port, raw) for port in (lane.served.fast_port, lane.served.plain_port)
    )
    if is_refusal(fast) and is_refusal(plain):
        fast, plain = fast[:-1], plain[:-1]
    assert fast == plain
    assert fast_state == plain_state


def test_an_ack_is_answered_by_the_lane(lane: EdgeLane) -> None:
    """The control: without it, the two ways above could be one."""
    with lane.served.connect() as wire:
        assert said(lane.ask_hot(wire, lane.ack(lane.lease())))["command_status"] == "succeeded"


def test_an_ack_may_arrive_in_any_two_pieces(lane: EdgeLane) -> None:
    command_id = lane.lease()
    raw = lane.ack(command_id)
    with lane.served.connect() as wire:
        wire.ask(raw)
        replayed = wire.ask(raw).without_date()
        assert said(replayed)["replayed"] is True
        for cut in range(1, len(raw)):
            wire.send(raw[:cut])
            lane.served.call(int)  # the loop has turned: the first piece was read by itself
            assert wire.ask(raw[cut:]).without_date() == replayed, cut
    assert lane.times_succeeded(command_id) == 1


def test_every_cut_counts_as_a_first_time_too(lane: EdgeLane) -> None:
    """Around the end of the headers, where the lane begins to wait for the body: commands of their own."""
    raw = ACK.replace(b"{token}", lane.token)
    end = raw.index(b"\r\n\r\n") + len(lane.lease()) - len(b"{id}")
    for cut in range(end - 2, end + 8):
        command_id = lane.lease()
        data = fill(raw, lane, command_id)
        with lane.served.connect() as wire:
            wire.send(data[:cut])
            lane.served.call(int)
            assert said(wire.ask(data[cut:])) == {
                "status": "ok",
                "command_id": command_id.decode(),
                "command_status": "succeeded",
                "replayed": False,
            }


def test_an_ack_may_arrive_byte_by_byte(lane: EdgeLane) -> None:
    command_id = lane.lease()
    with lane.served.connect() as wire:
        for byte in lane.ack(command_id):
            wire.send(bytes([byte]))
        assert said(wire.answer())["replayed"] is False
    assert lane.times_succeeded(command_id) == 1


def test_a_body_behind_its_headers_is_waited_for_in_the_lane(lane: EdgeLane) -> None:
    raw = lane.ack(lane.lease())
    with lane.served.connect() as wire:
        before = lane.hot_requests
        wire.send(raw[: -len(BODY)])
        lane.served.call(int)
        assert lane.hot_requests == before
        assert said(lane.ask_hot(wire, raw[-len(BODY) :]))["command_status"] == "succeeded"


@pytest.mark.parametrize("size", [BODY_BYTES_MAX, BODY_BYTES_MAX + 1])
def test_large_bodies_in_pieces(lane: EdgeLane, size: int) -> None:
    body = b'{"status":"succeeded","more":"%b"}' % (b"a" * (size - 32))
    assert len(body) == size
    raw = lane.ack(lane.lease(), body)
    before = lane.hot_requests
    with lane.served.connect() as wire:
        for start in range(0, len(raw), 10_000):
            wire.send(raw[start : start + 10_000])
            lane.served.call(int)
        assert said(wire.answer())["command_status"] == "succeeded"
    assert lane.hot_requests - before == (size <= BODY_BYTES_MAX)


@pytest.mark.parametrize("port", ["fast_port", "plain_port"])
def test_expect_100_continue(lane: EdgeLane, port: str) -> None:
    command_id = lane.lease()
    raw = lane.ack(command_id, BODY, b"Expect: 100-continue")
    with lane.served.connect(getattr(lane.served, port)) as wire:
        assert wire.ask(raw[: -len(BODY)]).status == 100
        assert said(wire.ask(BODY))["command_status"] == "succeeded"


def test_a_poll_and_the_ack_of_what_it_found_on_one_connection(lane: EdgeLane) -> None:
    with lane.served.connect() as wire:
        for _ in range(5):
            command_id = lane.create()
            polled = said(lane.ask_hot(wire, lane.poll()))
            assert [command["command_id"] for command in polled["commands"]] == [command_id]
            body = b'{"status":"succeeded","nonce":"%b"}' % polled["commands"][0]["nonce"].encode()
            assert said(lane.ask_hot(wire, lane.ack(command_id.encode(), body)))["replayed"] is False
            assert said(lane.ask_hot(wire, lane.poll()))["commands"] == []


def test_both_ways_on_one_connection(lane: EdgeLane) -> None:
    first, second = lane.lease(), lane.lease()
    with lane.served.connect() as wire:
        assert wire.ask(OTHER).status == 200
        assert lane.ask_hot(wire, lane.ack(first)).status == 200
        assert wire.ask(OTHER).status == 200
        assert said(wire.ask(lane.ack(second, BODY, b"X-Else: 1")))["command_status"] == "succeeded"
        assert said(lane.ask_hot(wire, lane.ack(second)))["replayed"] is True


def test_what_is_pipelined_is_answered_in_order(lane: EdgeLane) -> None:
    """A poll that finds something, its neighbour's ACK, something else, and another poll, in one piece."""
    held, waiting = lane.lease(), lane.create()
    with lane.served.connect() as wire:
        wire.send(lane.poll() + lane.ack(held) + OTHER + lane.poll())
        polled, acked, other, empty = (wire.answer() for _ in range(4))
    assert [command["command_id"] for command in said(polled)["commands"]] == [waiting]
    assert said(acked)["command_id"] == held.decode()
    assert other.status == 200
    assert said(empty)["commands"] == []


def test_an_ack_behind_a_parked_poll_is_answered_after_it(lane: EdgeLane) -> None:
    held = lane.lease()
    with lane.served.connect() as wire:
        wire.send(lane.poll(b"?wait=30"))
        lane.served.until(lambda: lane.node.commands.poll.bell.waiting_count == 1)
        wire.send(lane.ack(held))
        lane.served.call(int)
        assert lane.state(held) == "dispatched"
        created = lane.create()
        polled, acked = wire.answer(), wire.answer()
    assert [command["command_id"] for command in said(polled)["commands"]] == [created]
    assert said(acked)["command_status"] == "succeeded"


class BusyWriter:
    """Keeps the writer busy until it is released, so that what is written meanwhile waits."""

    def __init__(self, lane: EdgeLane) -> None:
        self._release = threading.Event()
        started = threading.Event()

        def work(_conn: Any) -> None:
            started.set()
            self._release.wait(10)

        asyncio.run_coroutine_threadsafe(lane.node.database.write(work), lane.served.loop)
        assert started.wait(10)

    def __enter__(self) -> "BusyWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._release.set()


def test_who_hangs_up_while_the_write_is_under_way_harms_nobody(lane: EdgeLane) -> None:
    """The ACK counts, as one whose answer was lost; the answers to others come."""
    held = [lane.lease() for _ in range(5)]
    with ExitStack() as connected, capture_logs() as logged:
        wires: list[Wire] = [connected.enter_context(lane.served.connect()) for _ in held]
        with BusyWriter(lane):
            for wire, command_id in zip(wires, held, strict=True):
                before = lane.hot_requests
                wire.send(lane.ack(command_id))
                lane.served.until(lambda before=before: lane.hot_requests == before + 1)  # type: ignore[misc]
            connections = lane.node.lane.connections
            for wire in wires[:3]:
                wire.socket.close()
            lane.served.until(lambda: lane.node.lane.connections == connections - 3)
        assert [said(wire.answer())["replayed"] for wire in wires[3:]] == [False, False]
        assert [line for line in logged if line["log_level"] == "error"] == []
        # Who comes back and says it again is told that it was heard.
        assert [said(wires[4].ask(lane.ack(command_id)))["replayed"] for command_id in held] == [True] * 5


def test_a_poll_whose_client_hung_up_before_the_claim_claims_nothing(lane: EdgeLane) -> None:
    command_id = lane.create()
    connections = lane.node.lane.connections
    with BusyWriter(lane):
        with lane.served.connect() as wire:
            before = lane.hot_requests
            wire.send(lane.poll())
            lane.served.until(lambda: lane.hot_requests == before + 1)
        lane.served.until(lambda: lane.node.lane.connections == connections)
    with lane.served.connect() as wire:
        found = said(wire.ask(lane.poll()))["commands"]
    assert [(command["command_id"], command["attempt"]) for command in found] == [(command_id, 1)]


def test_who_hangs_up_within_the_body_has_said_nothing(lane: EdgeLane) -> None:
    command_id = lane.lease()
    connections = lane.node.lane.connections
    with lane.served.connect() as wire:
        wire.send(lane.ack(command_id)[:-1])
        lane.served.until(lambda: lane.node.lane.connections == connections + 1)
    lane.served.until(lambda: lane.node.lane.connections == connections)
    assert lane.state(command_id) == "dispatched"


def test_a_body_that_does_not_come_is_cut(impatient: EdgeLane) -> None:
    command_id = impatient.lease()
    with impatient.served.connect() as wire:
        wire.send(impatient.ack(command_id)[:-1])
        cut = wire.answer()
        assert wire.is_closed_by_server()
    assert cut.status == 408
    assert impatient.node.lane.slow_senders_cut == 1
    assert impatient.state(command_id) == "dispatched"


def test_a_body_that_trickles_is_cut(impatient: EdgeLane) -> None:
    """Every byte in time does not make the body in time."""
    raw = impatient.ack(impatient.lease(), b'{"status":"succeeded","more":"%b"}' % (b"a" * 1000))
    with impatient.served.connect() as wire:
        wire.socket.settimeout(MOMENT_SECONDS / 10)
        start = raw.index(b"\r\n\r\n") + 4
        wire.send(raw[:start])
        end = time.monotonic() + MOMENT_SECONDS + LATE_SECONDS
        for byte in raw[start:]:
            assert time.monotonic() < end
            try:
                answer = wire.answer()
                break
            except TimeoutError:
                wire.send(bytes([byte]))
    assert answer.status == 408


def test_a_body_in_time_is_not_cut_by_the_end_of_keep_alive(impatient: EdgeLane) -> None:
    """A connection that has been uvicorn's, which counts the time between requests itself."""
    impatient.node.lane.body_seconds = 10.0
    raw = impatient.ack(impatient.lease())
    with impatient.served.connect() as wire:
        assert wire.ask(OTHER).status == 200
        wire.send(raw[:-1])
        over = time.monotonic() + 4 * MOMENT_SECONDS
        impatient.served.until(lambda: impatient.node.lane.deadlines.now > over)
        assert said(wire.ask(raw[-1:]))["command_status"] == "succeeded"
