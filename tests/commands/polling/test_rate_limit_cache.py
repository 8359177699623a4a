"""The check before claims, with two nodes on one PostgreSQL and one real Redis: one finds a site rate-limited.

Each poll is started on a node's poll object. Its cost is counted in claims, each of which is a write transaction.
"""

import contextlib
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from restante.commands.dispatch.claims import ClaimRequest
from restante.commands.dispatch.rate_limits import RateLimit, RateRules
from restante.commands.polling import poll as command_poll
from restante.commands.polling import rate_limit_cache
from restante.commands.polling.poll import PollResult
from restante.commands.response_format import RESPONSE_FORMAT
from restante.database.bus import node_bus
from restante.delivery.redis.rate_limit_mirror import RateLimitMirrorCounters, SiteQueue
from restante.delivery.redis.redis_address import parse_redis_url
from restante.identity.callers import CollectorCaller
from restante.server.cluster.roles import RoleNames
from restante.web.errors.error_responses import result_response
from tests.commands.edge_fixture import Collector, CommandsHarness
from tests.defaults import new_postgres_engine
from tests.server.live_server import TIMEOUT_SECONDS, LiveServer
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

    def start(self, rates: RateRules = RATES) -> LiveServer:
        served = LiveServer(
            self._folder,
            engine=new_postgres_engine(self._postgres_url, writers=2),
            roles=RoleNames(["api"]),
            redis_url=parse_redis_url(self._redis_url),
            command_rate_limits=rates,
        )
        self._closing.callback(served.close)
        served.wait_until(lambda: served.node.commands.queue_versions.are_known and not served.node.redis.unavailable())
        return served

    def close(self) -> None:
        self._closing.close()


@pytest.fixture
def nodes(
    tmp_path: Path, postgres_url: str, empty_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Nodes]:
    monkeypatch.setattr(node_bus, "SCAN_SECONDS", 0.2)
    check_always(monkeypatch)
    nodes = Nodes(tmp_path, postgres_url, empty_redis.url)
    yield nodes
    nodes.close()


def check_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check also after recent notifications, and wait for Redis even if the machine is busy."""
    monkeypatch.setattr(command_poll, "RECENT_SECONDS", 0.0)
    monkeypatch.setattr(rate_limit_cache, "TIMEOUT_SECONDS", 30.0)


class Site:
    """A site, its collector, and commands that wait for it, each for a miner of its own."""

    def __init__(self, served: LiveServer, commands: int = 8) -> None:
        self.harness = CommandsHarness(served.node.database)
        self.id = self.harness.add_site()
        self.collector: Collector = self.harness.add_collector(self.id)
        for _ in range(commands):
            self.send()

    def send(self, kind: str = KIND, **options: Any) -> str:
        return self.harness.add_command(self.id, self.harness.add_miner(self.id), kind, **options).command_id

    def poll(
        self, served: LiveServer, zone_id: int | None = None, caller: CollectorCaller | None = None
    ) -> dict[str, Any]:
        response: Future[PollResult] = Future()
        wanted = ClaimRequest(caller or self.collector.caller, zone_id, 50)
        served.call(served.node.commands.poll.start, wanted, False, response.set_result)
        answer = result_response(RESPONSE_FORMAT, response.result(TIMEOUT_SECONDS))
        expected: dict[str, Any] = {"status": answer.status, **json.loads(answer.body)}
        return expected


def forget(served: LiveServer) -> None:
    """Make the node forget all results of claims."""
    served.call(served.node.commands.poll.waiters.forget_all)


def claims_of(served: LiveServer) -> Callable[[], int]:
    """A function that returns how many claims the node has run since now."""
    poll, made = served.node.commands.poll, 0
    submit = poll._submit

    def counted(*args: Any) -> None:
        nonlocal made
        made += 1
        submit(*args)

    served.call(setattr, poll, "_submit", counted)
    return lambda: made


def counters(served: LiveServer) -> RateLimitMirrorCounters:
    assert served.node.redis.rate_limits is not None
    return served.node.redis.rate_limits.counters


def wait_until_written(served: LiveServer) -> None:
    assert served.node.redis.rate_limits is not None
    served.wait_for(served.node.redis.rate_limits.wait_until_idle())


def exhaust(site: Site, here: LiveServer, there: LiveServer) -> dict[str, Any]:
    """Dispatch on `here` until the rate limit is reached and the recorded horizon is above every open transaction."""
    versions_there = there.node.commands.queue_versions
    site.poll(here)
    for _ in range(TRIES):
        forget(here)
        expected = site.poll(here)
        wait_until_written(here)
        assert here.node.redis.rate_limits is not None
        (held,) = here.wait_for(here.node.redis.rate_limits.read_snapshots([SiteQueue(site.id, None)]))
        if held is not None and there.call(versions_there.were_seen, site.id, held.horizon):
            return expected
    raise AssertionError("the result of one node never counts for the other")


def test_rate_limited_site_costs_the_other_nodes_no_transaction(nodes: Nodes) -> None:
    here, there = nodes.start(), nodes.start()
    site = Site(here)
    expected = exhaust(site, here, there)
    claims, refused = claims_of(there), counters(there).refused
    response = site.poll(there)
    assert claims() == 0
    assert counters(there).refused == refused + 1
    # The same as the result of the claim, except for the time.
    assert {**response, "server_time": ""} == {**expected, "server_time": ""}
    assert response["rate_limited_count"] == 3
    # It is remembered like the result of a claim, until the rate limit frees a place: the next poll needs no check.
    assert there.call(there.node.commands.poll.waiters.empty_until, site.id, None) is not None
    site.poll(there)
    assert counters(there).refused == refused + 1
    empty_there = there.call(there.node.commands.poll.waiters.empty_until, site.id, None)
    empty_here = here.call(here.node.commands.poll.waiters.empty_until, site.id, None)
    assert empty_there is not None
    assert empty_here is not None
    assert abs(empty_there.until - empty_here.until) < 5.0


def test_received_change_makes_the_next_poll_claim(nodes: Nodes) -> None:
    here, there = nodes.start(), nodes.start()
    site = Site(here)
    exhaust(site, here, there)
    last_notified = there.node.commands.poll.waiters.last_notified
    before = there.call(last_notified, site.id)
    sent = site.send("HASHING_ENABLE")
    there.wait_until(lambda: last_notified(site.id) != before)
    assert [each["command_id"] for each in site.poll(there)["commands"]] == [sent]


def test_node_that_was_disconnected_claims(nodes: Nodes) -> None:
    here, there = nodes.start(), nodes.start()
    site = Site(here)
    exhaust(site, here, there)
    claims = claims_of(there)
    there.call(there.node.commands.queue_versions.forget_all)
    assert site.poll(there)["rate_limited_count"] == 3
    assert claims() == 1


def test_missing_data_in_redis_makes_the_poll_claim(nodes: Nodes, empty_redis: RedisServer) -> None:
    here, there = nodes.start(), nodes.start()
    claims = claims_of(there)
    for lost in ("DEL window", "DEL held", "ZPOPMIN window", "FLUSHALL"):
        site = Site(here)
        expected = exhaust(site, here, there)
        key = {"window": f"ratelimit:{site.id}:{KIND}", "held": f"ratelimit:{site.id}:held:"}
        command, *about = lost.split()
        empty_redis.execute(command, *(key[each] for each in about))
        before = claims()
        response = site.poll(there)
        assert claims() == before + 1
        assert {**response, "server_time": ""} == {**expected, "server_time": ""}


def test_each_node_applies_its_own_limits(nodes: Nodes) -> None:
    here = nodes.start()
    there = nodes.start(RateRules({KIND: RateLimit(7, 300)}, RateLimit(20, 60)))
    site = Site(here)
    exhaust(site, here, there)
    assert len(site.poll(there)["commands"]) == 2
    wait_until_written(there)
    forget(here)
    assert site.poll(here)["rate_limited_count"] == 1


def test_node_with_a_wrong_clock_dispatches_no_more(nodes: Nodes) -> None:
    here, there = nodes.start(), nodes.start()
    site = Site(here)
    exhaust(site, here, there)
    rate_limits = there.node.commands.poll._rate_limits
    assert rate_limits is not None
    claims = claims_of(there)
    for wrong_seconds in (-3600.0, 3600.0):
        # By this clock the limits seem free, or the result seems outdated: the database decides by its own clock.
        there.call(setattr, rate_limits, "_clock", lambda wrong=wrong_seconds: time.time() + wrong)
        forget(there)
        before = claims()
        response = site.poll(there)
        assert (response["commands"], response["rate_limited_count"]) == ([], 3)
        assert claims() == before + 1


def test_zones_have_their_own_results(nodes: Nodes) -> None:
    here, there = nodes.start(), nodes.start()
    site = Site(here)
    zone = site.harness.add_zone(site.id)
    exhaust(site, here, there)
    zone_collector = site.harness.add_collector(site.id, zone).caller
    # The result for the whole site does not count for a zone, and does not open another zone to a collector.
    claims = claims_of(there)
    assert site.poll(there, zone)["rate_limited_count"] == 0
    assert site.poll(there, site.harness.add_zone(site.id), zone_collector)["status"] == 403
    assert claims() == 2


def test_unresponsive_redis_is_not_waited_for(
    tmp_path: Path, postgres_url: str, own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_bus, "SCAN_SECONDS", 0.2)
    check_always(monkeypatch)
    with contextlib.closing(Nodes(tmp_path, postgres_url, own_redis.url)) as nodes:
        here, there = nodes.start(), nodes.start()
        site = Site(here)
        exhaust(site, here, there)
        monkeypatch.setattr(rate_limit_cache, "TIMEOUT_SECONDS", 0.05)
        own_redis.freeze()
        claims = claims_of(there)
        assert site.poll(there)["rate_limited_count"] == 3
        # The next poll does not wait for it, either.
        forget(there)
        assert site.poll(there)["rate_limited_count"] == 3
        assert (claims(), counters(there).refused) == (2, 0)


def test_no_claim_is_run_for_a_client_that_disconnected_during_the_check(nodes: Nodes) -> None:
    here, there = nodes.start(), nodes.start()
    site = Site(here, 0)
    answers: list[PollResult] = []
    poll = there.node.commands.poll

    def poll_and_disconnect() -> None:
        parked = poll.start(ClaimRequest(site.collector.caller, None, 10), True, answers.append)
        assert parked.is_reading
        assert parked.call is None
        poll.disconnect(parked)

    claims, passed = claims_of(there), counters(there).passed
    there.call(poll_and_disconnect)
    there.wait_until(lambda: counters(there).passed == passed + 1)
    there.wait_until(lambda: not poll._claiming)
    assert (answers, claims()) == ([], 0)


def test_redis_cluster_saves_claims_too(tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_bus, "SCAN_SECONDS", 0.2)
    check_always(monkeypatch)
    with running_cluster() as servers:
        nodes = Nodes(tmp_path, postgres_url, f"redis+cluster://127.0.0.1:{servers[0].port}")
        with contextlib.closing(nodes):
            here, there = nodes.start(), nodes.start()
            sites = [Site(here) for _ in range(3)]
            for site in sites:
                exhaust(site, here, there)
            claims = claims_of(there)
            assert [site.poll(there)["rate_limited_count"] for site in sites] == [3, 3, 3]
            assert claims() == 0


def test_single_node_does_not_read_the_mirror(tmp_path: Path, empty_redis: RedisServer) -> None:
    served = LiveServer(tmp_path, redis_url=parse_redis_url(empty_redis.url), command_rate_limits=RATES)
    try:
        served.wait_until(lambda: not served.node.redis.unavailable())
        site = Site(served)
        assert len(site.poll(served)["commands"]) == 5
        wait_until_written(served)
        assert empty_redis.execute("ZCARD", f"ratelimit:{site.id}:{KIND}") == 5
        forget(served)
        claims = claims_of(served)
        assert site.poll(served)["rate_limited_count"] == 3
        assert claims() == 1
        assert counters(served) == RateLimitMirrorCounters()
    finally:
        served.close()
