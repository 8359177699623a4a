import threading
from collections.abc import Hashable, Iterator
from contextlib import closing
from itertools import count
from typing import Any

import pytest

from restante.database.connection import Connection
from restante.database.engine import Engine
from restante.database.postgres.engine import PostgresEngine
from restante.database.writer.batching import BatchCall, BatchOperation
from restante.database.writer.writer import Writer
from restante.database.writer.writer_affinity import GATHERING_SECONDS, WriterAffinity
from tests.database.notes_table import add, everything

TIMEOUT_SECONDS = 60


def call_with_key(key: Hashable) -> BatchCall[Hashable, None]:
    operation: BatchOperation[Hashable, None] = BatchOperation(
        lambda _conn, requests: [None for _ in requests], lock_key=lambda request: request
    )
    return BatchCall(operation, key, lambda _outcome: None, None)


def test_call_without_key_is_served_by_the_writer_that_got_it() -> None:
    affinity = WriterAffinity(2)
    plain: BatchCall[str, None] = BatchCall(
        BatchOperation(lambda _conn, _requests: []), "a", lambda _outcome: None, None
    )
    assert affinity.begin(1, [plain]) == [plain]
    assert affinity.begin(2, [plain]) == [plain]
    assert affinity.end(1) == []


def test_single_writer_serves_all_calls() -> None:
    affinity = WriterAffinity(1)
    calls = [call_with_key(7), call_with_key(7), call_with_key(8)]
    assert affinity.begin(0, calls) == calls
    assert affinity.end(0) == []


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def affinity(clock: Clock) -> WriterAffinity:
    return WriterAffinity(2, clock)


def test_new_keys_are_deferred_to_a_writer_that_has_just_begun(affinity: WriterAffinity, clock: Clock) -> None:
    first, second, third = call_with_key(7), call_with_key(8), call_with_key(9)
    assert affinity.begin(1, [first]) == [first]
    assert affinity.begin(2, [second]) == []
    clock.now += 2 * GATHERING_SECONDS
    assert affinity.begin(2, [third]) == [third]
    assert affinity.end(1) == [second]
    # Now the second writer has only just begun.
    assert affinity.begin(1, [second]) == []
    assert affinity.end(2) == [second]


def test_calls_with_a_served_key_are_deferred_to_its_writer(affinity: WriterAffinity, clock: Clock) -> None:
    first, second, third, other = call_with_key(7), call_with_key(7), call_with_key(7), call_with_key(8)
    assert affinity.begin(1, [first]) == [first]
    clock.now += 2 * GATHERING_SECONDS
    assert affinity.begin(2, [second, other, third]) == [other]
    assert affinity.end(2) == []
    assert affinity.end(1) == [second, third]


def test_key_is_free_for_any_writer_when_its_writer_has_finished() -> None:
    affinity = WriterAffinity(2)
    affinity.begin(1, [call_with_key(7), call_with_key(8)])
    affinity.end(1)
    later = call_with_key(7)
    assert affinity.begin(2, [later]) == [later]


def test_writer_serves_several_calls_with_one_key() -> None:
    affinity = WriterAffinity(2)
    calls = [call_with_key(7), call_with_key(7)]
    assert affinity.begin(1, calls) == calls


class BlockedWriter:
    """A writer with two threads and a batched operation that blocks in its first batch; records all batches."""

    def __init__(self, engine: Engine) -> None:
        self.batches: list[list[str]] = []
        self.is_running, self.may_continue, self.all_done = threading.Event(), threading.Event(), threading.Event()
        self.operation: BatchOperation[str, None] = BatchOperation(self._add, lock_key=lambda text: text[0])
        self.writer = Writer([engine.connect(writable=True) for _ in range(2)], [])
        # Every reading of this clock is a second later: no writer has only just begun.
        self.writer._affinity = WriterAffinity(2, count(step=1.0).__next__)
        self._outcomes: list[Any] = []
        self._submitted = 0

    def submit(self, *texts: str) -> None:
        self._submitted += len(texts)
        for text in texts:
            self.writer.submit_batched(BatchCall(self.operation, text, self._done, None))

    def _add(self, conn: Connection, texts: list[str]) -> list[None]:
        self.batches.append(texts)
        if texts == ["a1"]:
            self.is_running.set()
            assert self.may_continue.wait(TIMEOUT_SECONDS)
        for text in texts:
            add(conn, text)
        return [None for _ in texts]

    def _done(self, outcome: object) -> None:
        self._outcomes.append(outcome)
        if len(self._outcomes) == self._submitted:
            self.all_done.set()


def notes_in(engine: Engine) -> list[str]:
    with closing(engine.connect(writable=False)) as conn:
        conn.begin()
        return sorted(everything(conn))


@pytest.fixture
def blocked(postgres_engine: PostgresEngine) -> Iterator[BlockedWriter]:
    blocked = BlockedWriter(postgres_engine)
    yield blocked
    blocked.may_continue.set()
    blocked.writer.close()


def test_calls_with_a_served_key_become_one_batch(blocked: BlockedWriter, postgres_engine: PostgresEngine) -> None:
    blocked.submit("a1")
    assert blocked.is_running.wait(TIMEOUT_SECONDS)
    blocked.submit("a2", "a3")
    # The other thread is not blocked: its call is resolved while the first still runs.
    done = threading.Event()
    blocked.writer.submit_batched(BatchCall(blocked.operation, "b1", lambda _outcome: done.set(), None))
    assert done.wait(TIMEOUT_SECONDS)
    assert [set(texts) for texts in blocked.batches] == [{"a1"}, {"b1"}]
    blocked.may_continue.set()
    assert blocked.all_done.wait(TIMEOUT_SECONDS)
    assert blocked.batches == [["a1"], ["b1"], ["a2", "a3"]]
    assert notes_in(postgres_engine) == ["a1", "a2", "a3", "b1"]


def test_deferred_calls_are_served_before_the_writer_stops(
    blocked: BlockedWriter, postgres_engine: PostgresEngine
) -> None:
    blocked.submit("a1")
    assert blocked.is_running.wait(TIMEOUT_SECONDS)
    blocked.submit("a2")
    closing = threading.Thread(target=blocked.writer.close)
    closing.start()
    blocked.may_continue.set()
    closing.join(TIMEOUT_SECONDS)
    assert notes_in(postgres_engine) == ["a1", "a2"]
