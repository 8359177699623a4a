"""Several nodes in one process on one real PostgreSQL: a commit of one node reaches the polls and caches of others."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from restante.commands.dispatch.claims import ClaimRequest
from restante.commands.dispatch.poll_response import CommandPollResponse
from restante.commands.polling import wake_coordinator
from restante.commands.polling.poll import PollResult
from restante.commands.rules import rules
from restante.commands.rules.rules import RuleRequest
from restante.commands.sites import collectors
from restante.core.errors import RestanteError
from restante.database.bus import node_bus
from restante.database.commit_events import AnythingChanged, ForeignCommit
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.queries import Query
from restante.delivery.log.signals import Signal
from restante.identity import signing_keys
from restante.identity.callers import ClientCaller, CollectorCaller, DeviceCaller, DeviceRevoked
from restante.identity.clients.client_tokens import ClientTokens
from restante.server.cluster.cluster_messages import encoded, new_node_name, publish_commits
from restante.server.cluster.roles import EVERY_ROLE, RoleNames
from restante.updates.polling import poll as updates_poll
from restante.updates.polling import poll_boost
from restante.updates.polling.routes import poll_response
from restante.web.response import ApiResponse
from tests.commands.edge_fixture import Collector, CommandsHarness
from tests.defaults import new_postgres_engine
from tests.server.live_server import LiveServer
from tests.server.two_nodes import Nodes
from tests.services.postgres import PostgresServer
from tests.updates.updates_fixture import DeviceFleet

FAR_FUTURE = 2e10


@pytest.fixture
def nodes(tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    monkeypatch.setattr(node_bus, "SCAN_SECONDS", 0.2)
    nodes = Nodes(tmp_path, postgres_url)
    yield nodes
    nodes.close()


class ParkedDevicePoll:
    """A poll of a device that is parked at a node, and the responses to it."""

    def __init__(self, server: LiveServer, device_id: int, cursor: bytes = b"0-0") -> None:
        self.server = server
        self.responses: list[ApiResponse] = []
        parked_before = server.node.updates.poll.parked_count
        server.call(server.node.updates.poll.start, device_id, cursor, 10, True, self._reply)
        server.wait_until(lambda: server.node.updates.poll.parked_count == parked_before + 1)

    def _reply(self, result: updates_poll.PollResult | RestanteError) -> None:
        self.responses.append(poll_response(result))

    def signals(self) -> list[str]:
        self.server.wait_until(lambda: bool(self.responses))
        assert len(self.responses) == 1
        return [signal["type"] for signal in json.loads(self.responses[0].body)["data"]["signals"]]


def publish(server: LiveServer, device_id: int, *types: str) -> None:
    def work(conn: Connection) -> None:
        server.node.outbox.append(conn, device_id, [Signal(type_, conn.now_ms, {}) for type_ in types])

    server.node.database.write_now(work)


def count_log_reads(server: LiveServer) -> Callable[[], int]:
    """A function that returns how many polls of the node have read the log since this call."""
    reader = server.node.updates.poll._reader
    reads = 0
    read = reader.read

    def counted_read(*args: Any) -> None:
        nonlocal reads
        reads += 1
        read(*args)

    server.call(setattr, reader, "read", counted_read)
    return lambda: reads


def test_commit_of_another_node_wakes_only_the_poll_of_its_device(nodes: Nodes) -> None:
    first, second = nodes.start(), nodes.start()
    woken, untouched = ParkedDevicePoll(second, 1), ParkedDevicePoll(second, 2)
    reads = count_log_reads(second)
    publish(first, 1, "one", "two")
    assert woken.signals() == ["one", "two"]
    assert reads() == 1
    assert second.call(second.node.updates.poll.waiters.known.get, 2) == b"0-0"
    assert untouched.responses == []
    # Changes for devices that never polled this node: it reads nothing and caches nothing.
    for device_id in range(100, 120):
        publish(first, device_id, "other")
    publish(first, 2, "three")
    assert untouched.signals() == ["three"]
    assert reads() == 2
    assert set(second.call(dict, second.node.updates.poll.waiters.known)) == {1, 2}


def test_commit_of_another_node_advances_the_cached_tail_of_a_device(nodes: Nodes) -> None:
    first, second = nodes.start(), nodes.start()
    ParkedDevicePoll(second, 1)
    publish(first, 1, "one")
    second.wait_until(lambda: second.node.updates.poll.waiters.known.get(1, b"").endswith(b"-1"))
    publish(first, 1, "two")
    second.wait_until(lambda: second.node.updates.poll.waiters.known.get(1, b"").endswith(b"-2"))


def test_message_that_was_not_sent_is_found_by_scan(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = nodes.start(), nodes.start()
    assert first.node.cluster is not None
    assert second.node.cluster is not None
    monkeypatch.setattr(first.node.cluster, "publish", lambda _events: None)
    woken = ParkedDevicePoll(second, 1)
    publish(first, 1, "one")
    assert woken.signals() == ["one"]
    assert second.node.cluster.found_by_scan_count == 1


def test_revoked_tokens_are_dropped_on_every_node(nodes: Nodes) -> None:
    first, second = nodes.start(), nodes.start()
    node = second.node
    second.call(node.identity.device_tokens.remember, b"device 7", DeviceCaller(7, 1, FAR_FUTURE), FAR_FUTURE)
    second.call(node.identity.device_tokens.remember, b"device 8", DeviceCaller(8, 1, FAR_FUTURE), FAR_FUTURE)
    first.node.database.write_now(lambda conn: conn.add_commit_event(DeviceRevoked(7)))
    second.wait_until(lambda: node.identity.device_tokens.cached(b"device 7", 0.0) is None)
    assert second.call(node.identity.device_tokens.cached, b"device 8", 0.0) is not None

    harness = CommandsHarness(first.node.database)
    collector = harness.add_collector(harness.add_site())
    assert (
        second.wait_for(node.identity.collector_tokens.verify(collector.token)).device_id == collector.caller.device_id
    )
    revoke(first, collector)
    second.wait_until(lambda: node.identity.collector_tokens.cached(collector.token.encode(), 0.0) is None)


def revoke(server: LiveServer, collector: Collector) -> None:
    server.node.database.write_now(collectors.revoke, server.node.commands.trail, collector.caller.device_id, "tests")


def test_new_poll_boost_and_new_signing_key_reach_every_node(nodes: Nodes) -> None:
    first, second = nodes.start(), nodes.start()
    started = first.node.database.write_now(poll_boost.start, 3600, 7)
    second.wait_until(lambda: second.node.updates.poll.boost == started)
    first.node.database.write_now(signing_keys.rotate, signing_keys.make(first.node.master_key), 3600)
    for server in (first, second):
        server.wait_until(lambda server=server: len(server.node.identity.signing_keys._keys) == 2)  # type: ignore[misc]
    assert first.node.identity.signing_keys.signing[0] == second.node.identity.signing_keys.signing[0]


def test_node_with_dispatcher_role_delivers_signals_of_other_nodes(nodes: Nodes) -> None:
    api_node = nodes.start()
    dispatcher_node = nodes.start(RoleNames(["dispatcher"]))
    device_id = DeviceFleet(api_node.node.database).add_device().id
    parked = ParkedDevicePoll(api_node, device_id)
    api_node.node.database.write_now(api_node.node.outbox.emit, device_id, Signal("one", 1, {}))
    assert parked.signals() == ["one"]
    assert dispatcher_node.node.outbox.dispatcher.counters.delivered == 1


class Site:
    """A site, and collectors whose polls are parked at several nodes."""

    def __init__(self, server: LiveServer) -> None:
        self.harness = CommandsHarness(server.node.database)
        self.id = self.harness.add_site()
        self.responses: list[CommandPollResponse] = []

    def park_polls(self, server: LiveServer, count: int) -> None:
        for _ in range(count):
            caller = self.harness.add_collector(self.id).caller
            parked_before = server.node.commands.poll.parked_count
            server.call(self._start, server, caller)
            server.wait_until(lambda count=parked_before + 1: server.node.commands.poll.parked_count == count)  # type: ignore[misc]

    def _start(self, server: LiveServer, caller: CollectorCaller) -> None:
        def reply(result: PollResult) -> None:
            assert isinstance(result, CommandPollResponse)
            self.responses.append(result)

        server.node.commands.poll.start(ClaimRequest(caller, None, 10), True, reply)

    def add_command(self) -> None:
        self.harness.add_command(self.id, self.harness.add_miner(self.id))

    def dispatched_ids(self) -> list[str]:
        return [command.command_id for response in self.responses for command in response.commands]


def knows_waiting_nodes(server: LiveServer, site_id: int) -> int:
    return len(server.node.commands.wake_coordinator._others.get(site_id, ()))


def test_new_command_wakes_one_collector_among_all_nodes(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    # A node that has waited this long for another one claims itself, and on a slow machine that is a second claim.
    monkeypatch.setattr(wake_coordinator, "SERVED_WITHIN_SECONDS", 600.0)
    first = nodes.start()
    others = [nodes.start() for _ in range(3)]
    site = Site(first)
    for server in others:
        site.park_polls(server, 3)
    for server, known in [(first, 3), *((other, 2) for other in others)]:
        server.wait_until(lambda server=server, known=known: knows_waiting_nodes(server, site.id) == known)  # type: ignore[misc]
    claims_before = sum(server.node.commands.poll.claim_count for server in others)
    for count in range(1, 5):
        site.add_command()
        first.wait_until(lambda count=count: len(site.responses) == count)  # type: ignore[misc]
    # Until no node expects another one to claim.
    for server in others:
        server.wait_until(lambda server=server: not server.node.commands.wake_coordinator._expected)  # type: ignore[misc]
    assert len(set(site.dispatched_ids())) == 4
    assert sum(server.node.commands.poll.claim_count for server in others) - claims_before == 4


def test_expired_lease_is_reoffered_to_one_collector_among_all_nodes(nodes: Nodes) -> None:
    first, second = (nodes.start(command_lease_duration_sec=1) for _ in range(2))
    site = Site(first)
    for server in (first, second):
        site.park_polls(server, 2)
    first.wait_until(lambda: site.id in first.node.commands.wake_coordinator._others)
    second.wait_until(lambda: site.id in second.node.commands.wake_coordinator._others)
    site.harness.creation_options = replace(site.harness.creation_options, retry_backoff_sec=1)
    site.add_command()
    first.wait_until(lambda: len(site.responses) >= 3)
    attempts = [command for response in site.responses for command in response.commands]
    assert len({command.command_id for command in attempts}) == 1
    assert [command.attempt for command in attempts[:3]] == [1, 2, 3]


def test_command_whose_message_was_not_sent_reaches_one_parked_collector(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = nodes.start(), nodes.start()
    assert first.node.cluster is not None
    monkeypatch.setattr(first.node.cluster, "publish", lambda _events: None)
    site = Site(first)
    site.park_polls(second, 2)
    site.add_command()
    second.wait_until(lambda: bool(site.responses))
    assert len(site.dispatched_ids()) == 1


def test_rule_duration_continues_across_nodes_and_fires_once(nodes: Nodes) -> None:
    first, second = nodes.start(), nodes.start()
    harness = CommandsHarness(first.node.database)
    site_id = harness.add_site()
    miner_id, token = harness.add_miner(site_id), harness.add_collector(site_id).token
    rule = RuleRequest("too hot", site_id, "threshold", "restart", None, "temp_max", ">", 80.0, 600)
    first.node.database.write_now(rules.create, harness.trail, harness.component.box, rule, "tests")
    now = datetime.now(UTC)

    def report(server: LiveServer, seconds_ago: int) -> None:
        ts = (now - timedelta(seconds=seconds_ago)).isoformat()
        record = {"miner_id": miner_id, "ts": ts, "temp_max": 90}
        url = f"http://127.0.0.1:{server.fast_port}/api/edge/v1/telemetry/batch"
        response = httpx.post(url, json=[record], headers={"authorization": f"Bearer {token}"}, timeout=60)
        assert response.status_code == 200, response.text

    # A node that knew only its own records would see gaps that are too long, and restart the duration.
    for server, seconds_ago in ((first, 660), (second, 440), (first, 220), (second, 20)):
        report(server, seconds_ago)
    commands = Query("commands", "SELECT rule_id FROM miner_commands")
    assert len(first.node.database.read_now(lambda conn: conn.all(commands))) == 1
    report(first, 10)
    assert len(first.node.database.read_now(lambda conn: conn.all(commands))) == 1


def test_node_that_loses_its_connection_drops_caches_and_receives_later_commits(
    nodes: Nodes, postgres: PostgresServer, postgres_url: str
) -> None:
    server = nodes.start()
    assert server.node.cluster is not None
    parked = ParkedDevicePoll(server, 1)
    server.call(server.node.identity.device_tokens.remember, b"device", DeviceCaller(7, 1, FAR_FUTURE), FAR_FUTURE)
    stream_waiters = server.node.shared_signals.poll.waiters
    server.call(lambda: stream_waiters.learn_empty(1, stream_waiters.last_notified(1)))
    postgres.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE 'test_%' AND pid <> pg_backend_pid()"
    )
    server.wait_until(lambda: server.node.identity.device_tokens.cached(b"device", 0.0) is None)
    server.wait_until(lambda: 1 not in stream_waiters.empty)
    # A process that is new to the cluster commits: the node must not miss its message.
    engine = new_postgres_engine(postgres_url, writers=1)
    other_process = Database(engine)
    publish_commits(other_process, engine)
    other_process.write_now(lambda conn: server.node.outbox.append(conn, 1, [Signal("one", conn.now_ms, {})]))
    other_process.close()
    assert parked.signals() == ["one"]


def test_node_drops_its_caches_as_soon_as_it_is_disconnected(nodes: Nodes) -> None:
    """Not only when it is connected again: until then it would answer polls from what it knew before."""
    server = nodes.start()
    cluster = server.node.cluster
    assert cluster is not None
    server.wait_until(lambda: cluster.is_connected)
    server.call(server.node.identity.device_tokens.remember, b"device", DeviceCaller(7, 1, FAR_FUTURE), FAR_FUTURE)
    waiters = server.node.updates.poll.waiters
    server.call(waiters.learn, 7, b"1-1", server.call(waiters.last_notified, 7))
    server.call(cluster.on_disconnected)
    server.wait_until(lambda: not cluster.is_connected)
    assert server.call(server.node.identity.device_tokens.cached, b"device", 0.0) is None
    assert 7 not in waiters.known


def test_commit_of_a_cli_command_reaches_every_node(nodes: Nodes, postgres_url: str) -> None:
    first, second = nodes.start(), nodes.start()
    engine = new_postgres_engine(postgres_url, writers=1)
    other_process = Database(engine)
    publish_commits(other_process, engine)
    started = other_process.write_now(poll_boost.start, 3600, 7)
    for server in (first, second):
        server.wait_until(lambda server=server: server.node.updates.poll.boost == started)  # type: ignore[misc]
        assert server.node.cluster is not None
        assert server.node.cluster.found_by_scan_count == 0
    other_process.close()


def test_unknown_message_makes_another_node_drop_its_caches(nodes: Nodes) -> None:
    first, second = nodes.start(), nodes.start()
    assert first.node.cluster is not None
    for message in ('[["unknown"]]', encoded([AnythingChanged()])):
        assert second.call(remember_and_read, second.node.identity.client_tokens) is not None
        first.node.cluster._bus.publish(message)
        second.wait_until(lambda: second.node.identity.client_tokens.cached(b"token", 0.0) is None)


def remember_and_read(tokens: ClientTokens) -> ClientCaller | None:
    """Both in one step of the event loop: a node that has just started may drop its caches at any time."""
    caller = ClientCaller(1, "client", frozenset(), None, FAR_FUTURE)
    tokens.remember(b"token", caller, FAR_FUTURE)
    return tokens.cached(b"token", 0.0)


def test_node_names_are_unique_and_have_no_space() -> None:
    names = {new_node_name() for _ in range(10)}
    assert len(names) == 10
    assert not any(" " in name for name in names)


def test_node_uses_the_clock_of_the_database(nodes: Nodes) -> None:
    server = nodes.start(EVERY_ROLE)
    server.wait_until(lambda: server.node.clock._offset_seconds is not None)
    now = server.node.database.read_now(lambda conn: conn.now_ms) / 1000
    assert abs(server.node.clock() - now) < 5


def test_node_on_sqlite_has_no_cluster(tmp_path: Path) -> None:
    server = LiveServer(tmp_path)
    try:
        assert server.node.cluster is None
        server.call(server.node.components.handle_commit_events, [ForeignCommit()])
    finally:
        server.close()
