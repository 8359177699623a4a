"""200 polls at once are granted exactly the limit, whatever becomes of Redis meanwhile; and nobody is shut out by it.

Every poll of them looks anew: what nodes remember is dropped before each, so that all ask Redis, or the database.
"""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from restante.commands import poll as command_poll
from restante.commands.claims import Claim
from restante.commands.rate_windows import RateLimit, RateRules
from restante.database import exchange
from restante.database.postgres import PostgresEngine
from restante.delivery.redis_address import parse_redis_url
from restante.web.answer import Answer
from tests.commands.field import Field
from tests.server.serving import PATIENCE_SECONDS, Served
from tests.services.redis import RedisServer

LIMIT = 7
POLLS = 200
RATES = RateRules({"MINER_RESTART": RateLimit(LIMIT, 3600)}, RateLimit(1000, 60))
Fault = Callable[[RedisServer], Any]


class Polled:
    """Polls started at nodes, and their answers as they come."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._answers: list[Answer] = []

    def start(self, served: Served, wanted: Claim, count: int) -> None:
        poll = served.node.commands.poll
        for _ in range(count):
            poll.bell.forget_all()
            poll.start(wanted, False, self._answered)

    def _answered(self, answer: Answer) -> None:
        with self._changed:
            self._answers.append(answer)
            self._changed.notify_all()

    def wait_for(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._answers) >= count, PATIENCE_SECONDS)

    def handed_out(self) -> list[str]:
        return [each["command_id"] for answer in self._answers for each in json.loads(answer.body)["commands"]]


@pytest.fixture(params=["one node, sqlite", "one node, postgres", "two nodes, postgres"])
def served(
    request: pytest.FixtureRequest, tmp_path: Path, redis_alone: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[Served]]:
    monkeypatch.setattr(exchange, "LOOK_SECONDS", 0.2)
    monkeypatch.setattr(command_poll, "NEWS_SECONDS", 0.0)
    address = parse_redis_url(redis_alone.url)
    with contextlib.ExitStack() as closing:
        nodes = []
        for _ in range(2 if request.param.startswith("two") else 1):
            engine = None
            if "postgres" in request.param:
                engine = PostgresEngine(request.getfixturevalue("postgres_url"), writers=2)
            node = Served(tmp_path, engine=engine, redis_url=address, command_rate_limits=RATES)
            closing.callback(node.close)
            nodes.append(node)
        yield nodes


def start_again_empty(server: RedisServer) -> None:
    server.kill()
    server.lose_everything()
    server.start()


FAULTS: dict[str, Fault] = {
    "none": lambda _server: None,
    "flushed": lambda server: server.ask("FLUSHALL"),
    "started again, empty": start_again_empty,
    "killed": lambda server: server.kill(),
}


def test_exactly_the_limit_is_granted(served: list[Served], redis_alone: RedisServer) -> None:
    field = Field(served[0].node.database)
    for name, fault in FAULTS.items():
        for node in served:
            node.until(lambda node=node: not node.node.redis.away())  # type: ignore[misc]
        site = field.add_site()
        miner, wanted = field.add_miner(site), Claim(field.hire(site).caller, None, 3)
        for _ in range(LIMIT * 3):
            field.send(site, miner, "MINER_RESTART")
        polled = Polled()
        for node in served:
            node.loop.call_soon_threadsafe(polled.start, node, wanted, POLLS // len(served))
        polled.wait_for(1)
        fault(redis_alone)
        polled.wait_for(POLLS)
        assert len(set(polled.handed_out())) == len(polled.handed_out()) == LIMIT, name
        # What has no full window in its way is handed out at every node that has heard of it.
        for node in served:
            more, ring = Polled(), partial(node.node.commands.poll.bell.last_ring, site)
            before = node.call(ring)
            other = field.send(site, miner, "HASHING_ENABLE").command_id
            node.until(lambda ring=ring, before=before: ring() != before)  # type: ignore[misc]
            node.call(more.start, node, wanted, 1)
            more.wait_for(1)
            assert more.handed_out() == [other], name
