"""200 concurrent polls get exactly as many commands as the rate limit allows, also while Redis fails; other command
types are still dispatched.

Cached knowledge is dropped before each poll, so that every poll reads Redis or the database.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from restante.commands.dispatch.claims import ClaimRequest
from restante.commands.dispatch.poll_response import CommandPollResponse
from restante.commands.dispatch.rate_limits import RateLimit, RateRules
from restante.commands.polling import poll as command_poll
from restante.commands.polling.poll import PollResult
from restante.database.bus import node_bus
from restante.delivery.redis.redis_address import parse_redis_url
from tests.commands.edge_fixture import CommandsHarness
from tests.defaults import new_postgres_engine
from tests.server.live_server import TIMEOUT_SECONDS, LiveServer
from tests.services.redis import RedisServer

LIMIT = 7
POLLS = 200
RATES = RateRules({"MINER_RESTART": RateLimit(LIMIT, 3600)}, RateLimit(1000, 60))
Fault = Callable[[RedisServer], Any]


class Polls:
    """Polls started at nodes, and their responses."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._responses: list[CommandPollResponse] = []

    def start(self, served: LiveServer, request: ClaimRequest, count: int) -> None:
        poll = served.node.commands.poll
        for _ in range(count):
            poll.waiters.forget_all()
            poll.start(request, False, self._add)

    def _add(self, response: PollResult) -> None:
        assert isinstance(response, CommandPollResponse)
        with self._changed:
            self._responses.append(response)
            self._changed.notify_all()

    def wait_for(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._responses) >= count, TIMEOUT_SECONDS)

    def command_ids(self) -> list[str]:
        return [each.command_id for response in self._responses for each in response.commands]


@pytest.fixture(params=["one node, sqlite", "one node, postgres", "two nodes, postgres"])
def served(
    request: pytest.FixtureRequest, tmp_path: Path, own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[LiveServer]]:
    monkeypatch.setattr(node_bus, "SCAN_SECONDS", 0.2)
    monkeypatch.setattr(command_poll, "RECENT_SECONDS", 0.0)
    address = parse_redis_url(own_redis.url)
    with contextlib.ExitStack() as closing:
        nodes = []
        for _ in range(2 if request.param.startswith("two") else 1):
            engine = None
            if "postgres" in request.param:
                engine = new_postgres_engine(request.getfixturevalue("postgres_url"), writers=2)
            node = LiveServer(tmp_path, engine=engine, redis_url=address, command_rate_limits=RATES)
            closing.callback(node.close)
            nodes.append(node)
        yield nodes


def restart_empty(server: RedisServer) -> None:
    server.kill()
    server.delete_data()
    server.start()


FAULTS: dict[str, Fault] = {
    "none": lambda _server: None,
    "flushed": lambda server: server.execute("FLUSHALL"),
    "restarted empty": restart_empty,
    "killed": lambda server: server.kill(),
}


def test_polls_get_exactly_the_rate_limit_during_redis_faults(served: list[LiveServer], own_redis: RedisServer) -> None:
    harness = CommandsHarness(served[0].node.database)
    for name, fault in FAULTS.items():
        for node in served:
            node.wait_until(lambda node=node: not node.node.redis.unavailable())  # type: ignore[misc]
        site = harness.add_site()
        claim = ClaimRequest(harness.add_collector(site).caller, None, 3)
        for _ in range(LIMIT * 3):
            harness.add_command(site, harness.add_miner(site), "MINER_RESTART")
        polls = Polls()
        for node in served:
            node.loop.call_soon_threadsafe(polls.start, node, claim, POLLS // len(served))
        polls.wait_for(1)
        fault(own_redis)
        polls.wait_for(POLLS)
        assert len(set(polls.command_ids())) == len(polls.command_ids()) == LIMIT, name
        # A command of another type is dispatched at every node that was notified of it.
        for node in served:
            more, ring = Polls(), partial(node.node.commands.poll.waiters.last_notified, site)
            before = node.call(ring)
            other = harness.add_command(site, harness.add_miner(site), "HASHING_ENABLE").command_id
            node.wait_until(lambda ring=ring, before=before: ring() != before)  # type: ignore[misc]
            node.call(more.start, node, claim, 1)
            more.wait_for(1)
            assert more.command_ids() == [other], name
