"""Several nodes in one process, on one real PostgreSQL: what one commits, whom it concerns on the others hears."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from restante.commands import rules
from restante.commands.claims import Claim
from restante.commands.rules import RuleWish
from restante.database import exchange
from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.postgres import PostgresEngine
from restante.database.queries import Query
from restante.database.writer import ForeignCommit
from restante.delivery.signals import Signal
from restante.identity import signing_keys
from restante.identity.callers import ClientCaller, CollectorCaller, DeviceCaller, DeviceRevoked
from restante.identity.client_tokens import ClientTokens
from restante.server.announcements import Anything, encoded, node_name, tell_others
from restante.server.roles import EVERY_ROLE, RoleNames
from restante.updates import rollout
from restante.web.answer import Answer
from tests.commands.field import Field, Hired
from tests.server.nodes import Nodes
from tests.server.serving import Served
from tests.services.postgres import PostgresServer

FAR_FUTURE = 2e10


@pytest.fixture
def nodes(tmp_path: Path, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    monkeypatch.setattr(exchange, "LOOK_SECONDS", 0.2)
    nodes = Nodes(tmp_path, postgres_url)
    yield nodes
    nodes.close()


class Device:
    """A poll parked for a device at a node, and what it was answered."""

    def __init__(self, served: Served, device_id: int, cursor: bytes = b"0-0") -> None:
        self.served = served
        self.answers: list[Answer] = []
        before = served.node.poll.bell.waiting_count
        served.call(served.node.poll.start, device_id, cursor, 10, True, self.answers.append)
        served.until(lambda: served.node.poll.bell.waiting_count == before + 1)

    def signals(self) -> list[str]:
        self.served.until(lambda: bool(self.answers))
        assert len(self.answers) == 1
        return [signal["type"] for signal in json.loads(self.answers[0].body)["data"]["signals"]]


def publish(served: Served, device_id: int, *types: str) -> None:
    def work(conn: Connection) -> None:
        served.node.append(conn, device_id, [Signal(each, conn.now_ms, {}) for each in types])

    served.node.database.write_now(work)


def counted_reads(served: Served) -> Callable[[], int]:
    """How many polls of a node have read the log from now on."""
    reader = served.node.poll._reader
    reads = 0
    read = reader.read

    def counted(*args: Any) -> None:
        nonlocal reads
        reads += 1
        read(*args)

    served.call(setattr, reader, "read", counted)
    return lambda: reads


def test_a_poll_is_woken_by_another_nodes_commit_and_no_other_looks_again(nodes: Nodes) -> None:
    here, there = nodes.start(), nodes.start()
    woken, untouched = Device(there, 1), Device(there, 2)
    reads = counted_reads(there)
    publish(here, 1, "one", "two")
    assert woken.signals() == ["one", "two"]
    assert reads() == 1
    assert there.call(there.node.poll.bell.known.get, 2) == b"0-0"
    assert untouched.answers == []
    # Many changes for devices that never called here: nothing is read, and nothing remembered.
    for device_id in range(100, 120):
        publish(here, device_id, "other")
    publish(here, 2, "at last")
    assert untouched.signals() == ["at last"]
    assert reads() == 2
    assert set(there.call(dict, there.node.poll.bell.known)) == {1, 2}


def test_an_idle_device_is_answered_from_the_tail_that_another_node_told(nodes: Nodes) -> None:
    here, there = nodes.start(), nodes.start()
    Device(there, 1)
    publish(here, 1, "one")
    there.until(lambda: there.node.poll.bell.known.get(1, b"").endswith(b"-1"))
    publish(here, 1, "two")
    there.until(lambda: there.node.poll.bell.known.get(1, b"").endswith(b"-2"))


def test_what_is_never_told_is_heard_nevertheless(nodes: Nodes, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = nodes.start(), nodes.start()
    assert here.node.neighbours is not None
    assert there.node.neighbours is not None
    monkeypatch.setattr(here.node.neighbours, "tell", lambda _announced: None)
    woken = Device(there, 1)
    publish(here, 1, "one")
    assert woken.signals() == ["one"]
    assert there.node.neighbours.late_count == 1


def test_access_that_is_taken_away_is_forgotten_everywhere(nodes: Nodes) -> None:
    here, there = nodes.start(), nodes.start()
    node = there.node
    there.call(node.tokens.remember, b"device 7", DeviceCaller(7, 1, FAR_FUTURE))
    there.call(node.tokens.remember, b"device 8", DeviceCaller(8, 1, FAR_FUTURE))
    here.node.database.write_now(lambda conn: conn.announce(DeviceRevoked(7)))
    there.until(lambda: node.tokens.cached(b"device 7", 0.0) is None)
    assert there.call(node.tokens.cached, b"device 8", 0.0) is not None

    field = Field(here.node.database)
    hired = field.hire(field.add_site())
    assert there.wait_for(node.collector_tokens.verify(hired.token)).device_id == hired.caller.device_id
    revoke(here, hired)
    there.until(lambda: node.collector_tokens.cached(hired.token.encode(), 0.0) is None)


def revoke(served: Served, hired: Hired) -> None:
    from restante.commands import collectors

    served.node.database.write_now(collectors.revoke, served.node.commands.trail, hired.caller.device_id, "tests")


def test_rollouts_and_signing_keys_are_everybodys(nodes: Nodes) -> None:
    here, there = nodes.start(), nodes.start()
    started = here.node.database.write_now(rollout.start, 3600, 7)
    there.until(lambda: there.node.poll.rollout == started)
    here.node.database.write_now(signing_keys.rotate, signing_keys.make(here.node.master_key), 3600)
    for served in (here, there):
        served.until(lambda served=served: len(served.node.signing_keys._keys) == 2)  # type: ignore[misc]
    assert here.node.signing_keys.signing[0] == there.node.signing_keys.signing[0]


def test_work_is_done_by_the_node_whose_role_it_is(nodes: Nodes) -> None:
    here = nodes.start()
    dispatching = nodes.start(RoleNames(["dispatcher"]))
    field = OwnedDevices(here)
    device_id = field.add()
    waiting = Device(here, device_id)
    here.node.database.write_now(here.node.emit, device_id, Signal("one", 1, {}))
    assert waiting.signals() == ["one"]
    assert dispatching.node.dispatcher.totals.delivered == 1


class OwnedDevices:
    def __init__(self, served: Served) -> None:
        from tests.updates.world import World

        self.world = World(served.node.database)

    def add(self) -> int:
        return self.world.add_device().id


class Site:
    """A site with a miner, and collectors that wait for its commands at several nodes."""

    def __init__(self, served: Served) -> None:
        self.field = Field(served.node.database)
        self.id = self.field.add_site()
        self.miner = self.field.add_miner(self.id)
        self.answers: list[tuple[Served, Answer]] = []

    def wait_at(self, served: Served, count: int) -> None:
        for _ in range(count):
            caller = self.field.hire(self.id).caller
            before = served.node.commands.poll.bell.waiting_count
            served.call(self._start, served, caller)
            served.until(lambda before=before: served.node.commands.poll.bell.waiting_count == before + 1)  # type: ignore[misc]

    def _start(self, served: Served, caller: CollectorCaller) -> None:
        def reply(answer: Answer) -> None:
            self.answers.append((served, answer))

        served.node.commands.poll.start(Claim(caller, None, 10), True, reply)

    def send(self) -> None:
        self.field.send(self.id, self.miner)

    def handed_out(self) -> list[str]:
        return [each["command_id"] for _, answer in self.answers for each in json.loads(answer.body)["commands"]]


def test_one_command_wakes_one_collector_of_all_that_wait_at_all_nodes(nodes: Nodes) -> None:
    here = nodes.start()
    others = [nodes.start() for _ in range(3)]
    site = Site(here)
    for served in others:
        site.wait_at(served, 3)
    here.until(lambda: len(here.node.commands.neighbours._others.get(site.id, ())) == 3)
    looks_before = sum(served.node.database.writes for served in others)
    for count in range(1, 5):
        site.send()
        here.until(lambda count=count: len(site.answers) == count)  # type: ignore[misc]
    # Long enough for whoever thinks that a command was not served.
    for served in others:
        served.until(lambda served=served: not served.node.commands.neighbours._owed)  # type: ignore[misc]
    assert len(set(site.handed_out())) == 4
    assert sum(served.node.database.writes for served in others) - looks_before == 4


def test_a_command_whose_lease_runs_out_is_handed_to_one_of_all_that_wait(nodes: Nodes) -> None:
    here, there = (nodes.start(command_lease_duration_sec=1) for _ in range(2))
    site = Site(here)
    for served in (here, there):
        site.wait_at(served, 2)
    here.until(lambda: site.id in here.node.commands.neighbours._others)
    there.until(lambda: site.id in there.node.commands.neighbours._others)
    site.field.options = replace(site.field.options, retry_backoff_seconds=1)
    site.send()
    here.until(lambda: len(site.answers) >= 3)
    attempts = [each for _, answer in site.answers for each in json.loads(answer.body)["commands"]]
    assert len({each["command_id"] for each in attempts}) == 1
    assert [each["attempt"] for each in attempts[:3]] == [1, 2, 3]


def test_a_command_that_nobody_was_told_of_reaches_a_waiting_collector(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = nodes.start(), nodes.start()
    assert here.node.neighbours is not None
    monkeypatch.setattr(here.node.neighbours, "tell", lambda _announced: None)
    site = Site(here)
    site.wait_at(there, 2)
    site.send()
    there.until(lambda: bool(site.answers))
    assert len(site.handed_out()) == 1


def test_a_rules_duration_goes_on_over_nodes_and_fires_once(nodes: Nodes) -> None:
    here, there = nodes.start(), nodes.start()
    field = Field(here.node.database)
    site_id = field.add_site()
    miner_id, token = field.add_miner(site_id), field.hire(site_id).token
    wish = RuleWish("too hot", site_id, "threshold", "restart", None, "temp_max", ">", 80.0, 600)
    here.node.database.write_now(rules.create, field.trail, wish, "tests")
    now = datetime.now(UTC)

    def report(served: Served, seconds_ago: int) -> None:
        ts = (now - timedelta(seconds=seconds_ago)).isoformat()
        record = {"miner_id": miner_id, "ts": ts, "temp_max": 90}
        url = f"http://127.0.0.1:{served.fast_port}/api/edge/v1/telemetry/batch"
        answer = httpx.post(url, json=[record], headers={"authorization": f"Bearer {token}"}, timeout=60)
        assert answer.status_code == 200, answer.text

    # A node that hears every other record only would take what lies between for a gap.
    for served, seconds_ago in ((here, 660), (there, 440), (here, 220), (there, 20)):
        report(served, seconds_ago)
    commands = Query("commands", "SELECT rule_id FROM miner_commands")
    assert len(here.node.database.read_now(lambda conn: conn.all(commands))) == 1
    report(here, 10)
    assert len(here.node.database.read_now(lambda conn: conn.all(commands))) == 1


def test_everything_is_read_again_when_others_could_not_be_heard(
    nodes: Nodes, postgres: PostgresServer, postgres_url: str
) -> None:
    there = nodes.start()
    assert there.node.neighbours is not None
    waiting = Device(there, 1)
    there.call(there.node.tokens.remember, b"device", DeviceCaller(7, 1, FAR_FUTURE))
    postgres.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE 'made_%' AND pid <> pg_backend_pid()"
    )
    there.until(lambda: there.node.tokens.cached(b"device", 0.0) is None)
    # By somebody who was not there before: nothing of theirs is lost.
    engine = PostgresEngine(postgres_url, writers=1)
    beside = Database(engine)
    tell_others(beside, engine)
    beside.write_now(lambda conn: there.node.append(conn, 1, [Signal("one", conn.now_ms, {})]))
    beside.close()
    assert waiting.signals() == ["one"]


def test_what_a_command_beside_the_nodes_does_is_told_too(nodes: Nodes, postgres_url: str) -> None:
    here, there = nodes.start(), nodes.start()
    engine = PostgresEngine(postgres_url, writers=1)
    beside = Database(engine)
    tell_others(beside, engine)
    started = beside.write_now(rollout.start, 3600, 7)
    for served in (here, there):
        served.until(lambda served=served: served.node.poll.rollout == started)  # type: ignore[misc]
        assert served.node.neighbours is not None
        assert served.node.neighbours.late_count == 0
    beside.close()


def test_what_a_node_of_another_version_says_makes_everybody_look(nodes: Nodes) -> None:
    here, there = nodes.start(), nodes.start()
    assert here.node.neighbours is not None
    for said in ('[["unheard of"]]', encoded([Anything()])):
        assert there.call(remember, there.node.client_tokens) is not None
        here.node.neighbours._exchange.tell(said)
        there.until(lambda: there.node.client_tokens.cached(b"token", 0.0) is None)


def remember(tokens: ClientTokens) -> ClientCaller | None:
    """Both at once, in the event loop: at the start of a node everything may be forgotten at any moment."""
    caller = ClientCaller(1, "client", frozenset(), None, FAR_FUTURE)
    tokens._remembered.keep(b"token", caller, FAR_FUTURE, tokens._remembered.generation)
    return tokens.cached(b"token", 0.0)


def test_names_are_never_the_same_and_have_no_space() -> None:
    names = {node_name() for _ in range(10)}
    assert len(names) == 10
    assert not any(" " in name for name in names)


def test_the_nodes_go_by_the_databases_clock(nodes: Nodes) -> None:
    here = nodes.start(EVERY_ROLE)
    here.until(lambda: here.node.clock._ahead_seconds is not None)
    now = here.node.database.read_now(lambda conn: conn.now_ms) / 1000
    assert abs(here.node.clock() - now) < 5


def test_there_is_no_such_thing_where_there_is_one_node(tmp_path: Path) -> None:
    served = Served(tmp_path)
    try:
        assert served.node.neighbours is None
        served.call(served.node.commands.hear, ForeignCommit())
    finally:
        served.close()
