"""Two nodes' ends on a real PostgreSQL: what one commits the other hears, told or not."""

import queue
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from restante.database import exchange, notices
from restante.database.channel import PAYLOAD_BYTES_MAX
from restante.database.database import Database
from restante.database.engine import Engine
from restante.database.errors import DatabaseError
from restante.database.exchange import Exchange, Told, told_by
from restante.database.notices import Notice
from restante.database.postgres import PostgresEngine
from restante.database.sqlite import SqliteEngine
from tests.services.postgres import PostgresServer

PATIENCE_SECONDS = 30.0


class Listener:
    """What a node was told, in order; its `back` and `lost` among it."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.events: queue.Queue[Notice | str] = queue.Queue()
        self.times: list[int] = []
        self.numbers: list[int] = []
        self.exchange = Exchange(engine, name, self)
        self.exchange.start()
        assert self.next() == "back"

    def heard(self, notice: Notice) -> None:
        self.events.put(notice)

    def lost(self) -> None:
        self.events.put("lost")

    def back(self) -> None:
        self.events.put("back")

    def looked(self, now_ms: int, next_id: int) -> None:
        self.times.append(now_ms)
        self.numbers.append(next_id)

    def next(self) -> Notice | str:
        return self.events.get(timeout=PATIENCE_SECONDS)


@pytest.fixture(autouse=True)
def look_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "LOOK_SECONDS", 0.1)


@pytest.fixture
def engine(postgres_url: str) -> PostgresEngine:
    return PostgresEngine(postgres_url, writers=2)


@pytest.fixture
def database(engine: PostgresEngine) -> Iterator[Database]:
    database = Database(engine)
    yield database
    database.close()


@pytest.fixture
def nodes(engine: PostgresEngine) -> Iterator[tuple[Listener, Listener]]:
    pair = Listener(engine, "one"), Listener(engine, "two")
    yield pair
    for node in pair:
        node.exchange.close()


def test_what_is_told_is_heard_by_the_others_once_and_not_by_oneself(
    nodes: tuple[Listener, Listener], database: Database
) -> None:
    one, two = nodes
    kept = database.write_now(notices.keep, "one", "committed")
    one.exchange.tell("committed", kept.commit_id)
    one.exchange.tell("without a commit")
    two.exchange.tell("from two")
    assert two.next() == Notice(kept.commit_id, "one", "committed")
    assert two.next() == Notice(0, "one", "without a commit")
    assert one.next() == Notice(0, "two", "from two")
    wait_for_looks(two, 3)
    assert two.events.empty()
    assert (two.exchange.heard_count, two.exchange.late_count) == (2, 0)


def test_what_was_committed_and_never_told_is_found_by_looking(
    nodes: tuple[Listener, Listener], database: Database
) -> None:
    one, two = nodes
    kept = database.write_now(notices.keep, "one", "the last word of a node that died")
    assert two.next() == Notice(kept.commit_id, "one", "the last word of a node that died")
    wait_for_looks(two, 3)
    assert two.events.empty()
    assert one.events.empty()
    assert two.exchange.late_count == 1


def test_a_transaction_that_ends_after_later_ones_is_not_missed(
    nodes: tuple[Listener, Listener], database: Database, engine: PostgresEngine
) -> None:
    _, two = nodes
    slow = engine.connect(writable=True)
    slow.begin()
    early = notices.keep(slow, "one", "begun first, committed last")
    later = database.write_now(notices.keep, "one", "in between")
    assert later.commit_id > early.commit_id
    assert two.next() == later
    wait_for_looks(two, 3)
    slow.commit()
    slow.close()
    assert two.next() == early


def test_what_is_too_long_to_be_told_is_read(nodes: tuple[Listener, Listener], database: Database) -> None:
    one, two = nodes
    message = "x" * PAYLOAD_BYTES_MAX
    kept = database.write_now(notices.keep, "one", message)
    one.exchange.tell(message, kept.commit_id)
    assert two.next() == Notice(kept.commit_id, "one", message)


def test_what_is_told_too_late_to_be_read_counts_as_lost(nodes: tuple[Listener, Listener]) -> None:
    one, two = nodes
    one.exchange.tell("x" * PAYLOAD_BYTES_MAX, 12_345_678)
    assert [two.next(), two.next()] == ["lost", "back"]


def test_a_lost_connection_is_told_of_and_made_again(
    nodes: tuple[Listener, Listener], database: Database, postgres: PostgresServer, postgres_url: str
) -> None:
    one, two = nodes
    terminate_all(postgres)
    for node in nodes:
        events = [node.next()]
        while events[-1] != "back":
            events.append(node.next())
        assert events[0] == "lost"
    kept = database.write_now(notices.keep, "one", "afterwards")
    one.exchange.tell("afterwards", kept.commit_id)
    assert two.next() == kept


def test_the_databases_time_is_told_with_every_look(nodes: tuple[Listener, Listener]) -> None:
    before_ms = time.time_ns() // 1_000_000
    wait_for_looks(nodes[0], 2)
    assert nodes[0].times == sorted(nodes[0].times)
    assert before_ms - 60_000 < nodes[0].times[-1] < before_ms + 60_000


def test_what_was_committed_before_a_look_has_a_lower_number(
    database: Database, nodes: tuple[Listener, Listener]
) -> None:
    number = nodes[0].numbers[0]
    kept = database.write_now(notices.keep, "one", "said")
    assert kept.commit_id >= number
    wait_for_looks(nodes[0], 2)
    assert nodes[0].numbers[-1] > kept.commit_id
    assert nodes[0].numbers == sorted(nodes[0].numbers)


def test_closing_does_not_wait_for_the_next_look(engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "LOOK_SECONDS", 3600.0)
    listener = Listener(engine, "one")
    listener.exchange.close()


def test_payloads_are_read_as_they_were_written() -> None:
    told = Told("host:1:ab", 7, '[["log", 1, 2, 3]]')
    assert told_by(told.payload()) == told
    assert told_by(Told("host:1:ab", 7, "x" * PAYLOAD_BYTES_MAX).payload()) == Told("host:1:ab", 7, "")


def test_there_is_no_exchange_where_there_is_one_node(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="nodes cannot share sqlite"):
        Listener(SqliteEngine(tmp_path / "x.db"), "one")


def wait_for_looks(node: Listener, count: int) -> None:
    """So many looks, begun and ended from now on."""
    enough = len(node.times) + count
    end = time.monotonic() + PATIENCE_SECONDS
    while len(node.times) < enough:
        assert time.monotonic() < end, "it does not look"
        time.sleep(0.01)


def terminate_all(postgres: PostgresServer) -> None:
    postgres.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname LIKE 'made_%' AND pid <> pg_backend_pid()"
    )
