"""The buses of two nodes on a real PostgreSQL: what one node commits the other receives, published or not."""

import queue
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from restante.database.bus import node_bus, node_messages
from restante.database.bus.node_bus import BusPayload, NodeBus
from restante.database.bus.node_messages import NodeMessage
from restante.database.database import Database
from restante.database.engine import PAYLOAD_BYTES_MAX, Engine
from restante.database.errors import DatabaseError
from restante.database.postgres.engine import PostgresEngine
from restante.database.sqlite import SqliteEngine
from tests.defaults import new_postgres_engine
from tests.services.postgres import PostgresServer

TIMEOUT_SECONDS = 30.0


class RecordingNode:
    """Records everything its bus reports, in order: messages, "connected" and "disconnected"."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.reports: queue.Queue[NodeMessage | str] = queue.Queue()
        self.scan_times: list[int] = []
        self.scan_next_ids: list[int] = []
        self.bus = NodeBus(engine, name, self)
        self.bus.start()
        assert self.next() == "connected"

    def on_message(self, message: NodeMessage) -> None:
        self.reports.put(message)

    def on_disconnected(self) -> None:
        self.reports.put("disconnected")

    def on_connected(self) -> None:
        self.reports.put("connected")

    def on_scan(self, now_ms: int, next_id: int) -> None:
        self.scan_times.append(now_ms)
        self.scan_next_ids.append(next_id)

    def next(self) -> NodeMessage | str:
        return self.reports.get(timeout=TIMEOUT_SECONDS)


@pytest.fixture(autouse=True)
def scan_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_bus, "SCAN_SECONDS", 0.1)


@pytest.fixture
def engine(postgres_url: str) -> PostgresEngine:
    return new_postgres_engine(postgres_url, writers=2)


@pytest.fixture
def database(engine: PostgresEngine) -> Iterator[Database]:
    database = Database(engine)
    yield database
    database.close()


@pytest.fixture
def nodes(engine: PostgresEngine) -> Iterator[tuple[RecordingNode, RecordingNode]]:
    pair = RecordingNode(engine, "one"), RecordingNode(engine, "two")
    yield pair
    for node in pair:
        node.bus.close(TIMEOUT_SECONDS)


def test_published_message_is_received_once_by_other_nodes_only(
    nodes: tuple[RecordingNode, RecordingNode], database: Database
) -> None:
    one, two = nodes
    stored = database.write_now(node_messages.store, "one", "committed")
    one.bus.publish("committed", stored.commit_id)
    one.bus.publish("without a commit")
    two.bus.publish("from two")
    assert two.next() == NodeMessage(stored.commit_id, "one", "committed")
    assert two.next() == NodeMessage(0, "one", "without a commit")
    assert one.next() == NodeMessage(0, "two", "from two")
    wait_for_scans(two, 3)
    assert two.reports.empty()
    assert (two.bus.received_count, two.bus.found_by_scan_count) == (2, 0)


def test_committed_message_that_was_never_published_is_found_by_scan(
    nodes: tuple[RecordingNode, RecordingNode], database: Database
) -> None:
    one, two = nodes
    stored = database.write_now(node_messages.store, "one", "the last message of a node that died")
    assert two.next() == NodeMessage(stored.commit_id, "one", "the last message of a node that died")
    wait_for_scans(two, 3)
    assert two.reports.empty()
    assert one.reports.empty()
    assert two.bus.found_by_scan_count == 1


def test_transaction_that_commits_after_later_ones_is_not_missed(
    nodes: tuple[RecordingNode, RecordingNode], database: Database, engine: PostgresEngine
) -> None:
    _, two = nodes
    slow = engine.connect(writable=True)
    slow.begin()
    early = node_messages.store(slow, "one", "begun first, committed last")
    later = database.write_now(node_messages.store, "one", "in between")
    assert later.commit_id > early.commit_id
    assert two.next() == later
    wait_for_scans(two, 3)
    slow.commit()
    slow.close()
    assert two.next() == early


def test_message_too_long_for_the_channel_is_read_from_the_table(
    nodes: tuple[RecordingNode, RecordingNode], database: Database
) -> None:
    one, two = nodes
    message = "x" * PAYLOAD_BYTES_MAX
    stored = database.write_now(node_messages.store, "one", message)
    one.bus.publish(message, stored.commit_id)
    assert two.next() == NodeMessage(stored.commit_id, "one", message)


def test_long_message_that_is_no_longer_stored_counts_as_disconnection(
    nodes: tuple[RecordingNode, RecordingNode],
) -> None:
    one, two = nodes
    one.bus.publish("x" * PAYLOAD_BYTES_MAX, 12_345_678)
    assert [two.next(), two.next()] == ["disconnected", "connected"]


def test_lost_connection_is_reported_and_made_again(
    nodes: tuple[RecordingNode, RecordingNode], database: Database, postgres: PostgresServer, postgres_url: str
) -> None:
    one, two = nodes
    terminate_all(postgres)
    for node in nodes:
        reports = [node.next()]
        while reports[-1] != "connected":
            reports.append(node.next())
        assert reports[0] == "disconnected"
    stored = database.write_now(node_messages.store, "one", "afterwards")
    one.bus.publish("afterwards", stored.commit_id)
    assert two.next() == stored


def test_every_scan_reports_the_time_of_the_database(nodes: tuple[RecordingNode, RecordingNode]) -> None:
    before_ms = time.time_ns() // 1_000_000
    wait_for_scans(nodes[0], 2)
    assert nodes[0].scan_times == sorted(nodes[0].scan_times)
    assert before_ms - 60_000 < nodes[0].scan_times[-1] < before_ms + 60_000


def test_commits_before_a_scan_have_ids_below_its_next_id(
    database: Database, nodes: tuple[RecordingNode, RecordingNode]
) -> None:
    next_id = nodes[0].scan_next_ids[0]
    stored = database.write_now(node_messages.store, "one", "anything")
    assert stored.commit_id >= next_id
    wait_for_scans(nodes[0], 2)
    assert nodes[0].scan_next_ids[-1] > stored.commit_id
    assert nodes[0].scan_next_ids == sorted(nodes[0].scan_next_ids)


def test_closing_does_not_wait_for_the_next_scan(engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_bus, "SCAN_SECONDS", 3600.0)
    node = RecordingNode(engine, "one")
    node.bus.close(TIMEOUT_SECONDS)


def test_payload_is_decoded_as_it_was_encoded() -> None:
    payload = BusPayload("host:1:ab", 7, '[["log", 1, 2, 3]]')
    assert BusPayload.decode(payload.encode()) == payload
    too_long = BusPayload("host:1:ab", 7, "x" * PAYLOAD_BYTES_MAX)
    assert BusPayload.decode(too_long.encode()) == BusPayload("host:1:ab", 7, "")


def test_bus_is_refused_on_an_engine_that_nodes_cannot_share(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="nodes cannot share sqlite"):
        RecordingNode(SqliteEngine(tmp_path / "x.db"), "one")


def wait_for_scans(node: RecordingNode, count: int) -> None:
    """Wait until the node has begun and ended this many scans."""
    target = len(node.scan_times) + count
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while len(node.scan_times) < target:
        assert time.monotonic() < deadline, "the node does not scan"
        time.sleep(0.01)


def terminate_all(postgres: PostgresServer) -> None:
    postgres.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE 'test_%' AND pid <> pg_backend_pid()"
    )
