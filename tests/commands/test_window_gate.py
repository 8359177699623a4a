"""The gate before claims: two nodes on one PostgreSQL and one real Redis; one finds a site full, the other asks.

Each poll is asked of a node's poll itself; what it costs is counted in claims, each of them a write transaction.
"""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from restante.commands import poll as command_poll
from restante.commands import window_gate
from restante.commands.claims import Claim
from restante.commands.rate_windows import RateLimit, RateRules
from restante.database import exchange
from restante.database.postgres import PostgresEngine
from restante.delivery.redis_address import parse_redis_url
from restante.delivery.window_copies import Queue, WindowTotals
from restante.identity.callers import CollectorCaller
from restante.server.roles import RoleNames
from restante.web.answer import Answer
from tests.commands.field import Field, Hired
from tests.server.serving import PATIENCE_SECONDS, Served
from tests.services.redis import RedisServer, running_cluster

KIND = "MINER_RESTART"
RATES = RateRules({KIND: RateLimit(5, 300)}, RateLimit(20, 60))
TRIES = 50


class Nodes:
    def __init__(self, folder: Path, postgres_url: str, redis_url: str) -> None:
        self._folder = folder
        self._postgres_url = postgres_url
        self._redis_url = redis_url
        self._closing = contextlib.ExitStack()

    def start(self, rates: RateRules = RATES) -> Served:
        served = Served(
            self._folder,
            engine=PostgresEngine(self._postgres_url, writers=2),
            roles=RoleNames(["api"]),
            redis_url=parse_redis_url(self._redis_url),
            command_rate_limits=rates,
        )
        self._closing.callback(served.close)
        served.until(lambda: served.node.commands.changes.are_known and not served.node.redis.away())
        return served

    def close(self) -> None:
        self._closing.close()


@pytest.fixture
def nodes(
    tmp_path: Path, postgres_url: str, empty_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Nodes]:
    monkeypatch.setattr(exchange, "LOOK_SECONDS", 0.2)
    ask_always(monkeypatch)
    nodes = Nodes(tmp_path, postgres_url, empty_redis.url)
    yield nodes
    nodes.close()


def ask_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """News is no reason not to ask, nor is a machine that is busy a reason not to wait for the answer."""
    monkeypatch.setattr(command_poll, "NEWS_SECONDS", 0.0)
    monkeypatch.setattr(window_gate, "PATIENCE_SECONDS", 30.0)


class Site:
    """A site with a miner, its collector, and commands that wait for it."""

    def __init__(self, served: Served, commands: int = 8) -> None:
        self.field = Field(served.node.database)
        self.id = self.field.add_site()
        self.miner = self.field.add_miner(self.id)
        self.hired: Hired = self.field.hire(self.id)
        for _ in range(commands):
            self.send()

    def send(self, kind: str = KIND, **wish: Any) -> str:
        return self.field.send(self.id, self.miner, kind, **wish).command_id

    def poll(self, served: Served, zone_id: int | None = None, caller: CollectorCaller | None = None) -> dict[str, Any]:
        answered: Future[Answer] = Future()
        wanted = Claim(caller or self.hired.caller, zone_id, 50)
        served.call(served.node.commands.poll.start, wanted, False, answered.set_result)
        answer = answered.result(PATIENCE_SECONDS)
        said: dict[str, Any] = {"status": answer.status, **json.loads(answer.body)}
        return said


def forget(served: Served) -> None:
    """As if the node had never looked anywhere."""
    served.call(served.node.commands.poll.bell.forget_all)


def claims_of(served: Served) -> Callable[[], int]:
    """How many claims a node makes from now on."""
    poll, made = served.node.commands.poll, 0
    submit = poll._submit

    def counted(*args: Any) -> None:
        nonlocal made
        made += 1
        submit(*args)

    served.call(setattr, poll, "_submit", counted)
    return lambda: made


def totals(served: Served) -> WindowTotals:
    assert served.node.redis.windows is not None
    return served.node.redis.windows.totals


def settle(served: Served) -> None:
    assert served.node.redis.windows is not None
    served.wait_for(served.node.redis.windows.settled())


def fill(site: Site, here: Served, there: Served) -> dict[str, Any]:
    """Have `here` hand out all that may be, until what it tells of it lies beyond every transaction that was open."""
    neighbour = there.node.commands.changes
    site.poll(here)
    for _ in range(TRIES):
        forget(here)
        said = site.poll(here)
        settle(here)
        assert here.node.redis.windows is not None
        (held,) = here.wait_for(here.node.redis.windows.held_at([Queue(site.id, None)]))
        if held is not None and there.call(neighbour.were_seen, site.id, held.horizon):
            return said
    raise AssertionError("what one node finds never counts for the other")


def test_a_full_site_costs_the_other_nodes_no_transaction(nodes: Nodes) -> None:
    here, there = nodes.start(), nodes.start()
    site = Site(here)
    said = fill(site, here, there)
    claims, refused = claims_of(there), totals(there).refused
    answered = site.poll(there)
    assert claims() == 0
    assert totals(there).refused == refused + 1
    # Word for word what the claim said, but for the time.
    assert {**answered, "server_time": ""} == {**said, "server_time": ""}
    assert answered["rate_limited_count"] == 3
    # It is remembered like what a claim has found, until the window frees: the next poll asks nobody.
    assert there.call(there.node.commands.poll.bell.quiet, site.id, None) is not None
    site.poll(there)
    assert totals(there).refused == refused + 1
    quiet_there = there.call(there.node.commands.poll.bell.quiet, site.id, None)
    quiet_here = here.call(here.node.commands.poll.bell.quiet, site.id, None)
    assert quiet_there is not None
    assert quiet_here is not None
    assert abs(quiet_there.until - quiet_here.until) < 5.0


def test_a_change_that_was_heard_sends_the_next_claim_to_the_database(nodes: Nodes) -> None:
    here, there = nodes.start(), nodes.start()
    site = Site(here)
    fill(site, here, there)
    ring = there.node.commands.poll.bell.last_ring
    before = there.call(ring, site.id)
    sent = site.send("HASHING_ENABLE")
    there.until(lambda: ring(site.id) != before)
    assert [each["command_id"] for each in site.poll(there)["commands"]] == [sent]


def test_a_node_that_heard_nothing_for_a_while_asks_the_database(nodes: Nodes) -> None:
    here, there = nodes.start(), nodes.start()
    site = Site(here)
    fill(site, here, there)
    claims = claims_of(there)
    there.call(there.node.commands.changes.lost_touch)
    assert site.poll(there)["rate_limited_count"] == 3
    assert claims() == 1


def test_whatever_redis_lacks_the_database_knows(nodes: Nodes, empty_redis: RedisServer) -> None:
    here, there = nodes.start(), nodes.start()
    claims = claims_of(there)
    for lost in ("DEL window", "DEL held", "ZPOPMIN window", "FLUSHALL"):
        site = Site(here)
        said = fill(site, here, there)
        key = {"window": f"ratelimit:{site.id}:{KIND}", "held": f"ratelimit:{site.id}:held:"}
        command, *about = lost.split()
        empty_redis.ask(command, *(key[each] for each in about))
        before = claims()
        answered = site.poll(there)
        assert claims() == before + 1
        assert {**answered, "server_time": ""} == {**said, "server_time": ""}


def test_each_node_goes_by_its_own_limits(nodes: Nodes) -> None:
    here = nodes.start()
    there = nodes.start(RateRules({KIND: RateLimit(7, 300)}, RateLimit(20, 60)))
    site = Site(here)
    fill(site, here, there)
    assert len(site.poll(there)["commands"]) == 2
    settle(there)
    forget(here)
    assert site.poll(here)["rate_limited_count"] == 1


def test_a_node_whose_clock_is_wrong_hands_out_no_more(nodes: Nodes) -> None:
    here, there = nodes.start(), nodes.start()
    site = Site(here)
    fill(site, here, there)
    gate = there.node.commands.poll._gate
    assert gate is not None
    claims = claims_of(there)
    for wrong_seconds in (-3600.0, 3600.0):
        # Its windows seem to be empty, or what was found to be over: the database decides, by its own clock.
        there.call(setattr, gate, "_clock", lambda wrong=wrong_seconds: time.time() + wrong)
        forget(there)
        before = claims()
        answered = site.poll(there)
        assert (answered["commands"], answered["rate_limited_count"]) == ([], 3)
        assert claims() == before + 1


def test_zones_are_told_apart(nodes: Nodes) -> None:
    here, there = nodes.start(), nodes.start()
    site = Site(here)
    zone = site.field.add_zone(site.id)
    fill(site, here, there)
    of_zone = site.field.hire(site.id, zone).caller
    # What was found for the whole site says nothing about a zone of it, nor lets anybody ask for another's.
    claims = claims_of(there)
    assert site.poll(there, zone)["rate_limited_count"] == 0
    assert site.poll(there, site.field.add_zone(site.id), of_zone)["status"] == 403
    assert claims() == 2


def test_a_redis_that_does_not_answer_is_not_waited_for(
    tmp_path: Path, postgres_url: str, redis_alone: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "LOOK_SECONDS", 0.2)
    ask_always(monkeypatch)
    with contextlib.closing(Nodes(tmp_path, postgres_url, redis_alone.url)) as nodes:
        here, there = nodes.start(), nodes.start()
        site = Site(here)
        fill(site, here, there)
        monkeypatch.setattr(window_gate, "PATIENCE_SECONDS", 0.05)
        redis_alone.freeze()
        claims = claims_of(there)
        assert site.poll(there)["rate_limited_count"] == 3
        # Whatever is asked next does not wait behind it, either.
        forget(there)
        assert site.poll(there)["rate_limited_count"] == 3
        assert (claims(), totals(there).refused) == (2, 0)


def test_who_hangs_up_meanwhile_is_left_out(nodes: Nodes) -> None:
    here, there = nodes.start(), nodes.start()
    site = Site(here, 0)
    answers: list[Answer] = []
    poll = there.node.commands.poll

    def come_and_go() -> None:
        parked = poll.start(Claim(site.hired.caller, None, 10), True, answers.append)
        assert parked.claiming is command_poll.AT_THE_GATE
        poll.abandon(parked)

    claims, passed = claims_of(there), totals(there).passed
    there.call(come_and_go)
    there.until(lambda: totals(there).passed == passed + 1)
    there.until(lambda: not poll._claiming)
    assert (answers, claims()) == ([], 0)


def test_in_a_cluster_it_is_the_same(tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "LOOK_SECONDS", 0.2)
    ask_always(monkeypatch)
    with running_cluster() as servers:
        nodes = Nodes(tmp_path, postgres_url, f"redis+cluster://127.0.0.1:{servers[0].port}")
        with contextlib.closing(nodes):
            here, there = nodes.start(), nodes.start()
            sites = [Site(here) for _ in range(3)]
            for site in sites:
                fill(site, here, there)
            claims = claims_of(there)
            assert [site.poll(there)["rate_limited_count"] for site in sites] == [3, 3, 3]
            assert claims() == 0


def test_with_one_node_alone_nobody_is_asked(tmp_path: Path, empty_redis: RedisServer) -> None:
    served = Served(tmp_path, redis_url=parse_redis_url(empty_redis.url), command_rate_limits=RATES)
    try:
        served.until(lambda: not served.node.redis.away())
        site = Site(served)
        assert len(site.poll(served)["commands"]) == 5
        settle(served)
        assert empty_redis.ask("ZCARD", f"ratelimit:{site.id}:{KIND}") == 5
        forget(served)
        claims = claims_of(served)
        assert site.poll(served)["rate_limited_count"] == 3
        assert claims() == 1
        assert totals(served) == WindowTotals()
    finally:
        served.close()
