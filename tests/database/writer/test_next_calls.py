import asyncio
import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.sqlite import SqliteEngine
from restante.database.writer import next_calls
from restante.database.writer.batching import BatchCall, BatchOperation
from restante.database.writer.next_calls import loop_of_answered

TIMEOUT_SECONDS = 60


class Batches:
    """An operation that records the sizes of its batches. The first batch begins when `begin` is set."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.is_running = threading.Event()
        self.begin = threading.Event()
        self.operation: BatchOperation[str, None] = BatchOperation(self._run)

    def _run(self, _conn: Connection, requests: list[str]) -> list[None]:
        self.sizes.append(len(requests))
        self.is_running.set()
        assert self.begin.wait(TIMEOUT_SECONDS)
        return [None for _ in requests]


@pytest.fixture
def database(sqlite_engine: SqliteEngine) -> Iterator[Database]:
    with closing(Database(sqlite_engine)) as database:
        yield database


@pytest.fixture
def batches() -> Iterator[Batches]:
    batches = Batches()
    yield batches
    batches.begin.set()


async def occupy_writer(database: Database) -> threading.Event:
    """Keep the writer busy until the event is set: what is submitted until then becomes one batch."""
    is_busy, go_on = threading.Event(), threading.Event()

    def work(_conn: Connection) -> None:
        is_busy.set()
        assert go_on.wait(TIMEOUT_SECONDS)

    database.submit(work)
    await asyncio.to_thread(is_busy.wait, TIMEOUT_SECONDS)
    return go_on


async def test_next_calls_of_answered_callers_join_the_calls_that_were_queued(
    database: Database, batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(next_calls, "WAIT_SECONDS", TIMEOUT_SECONDS)
    go_on = await occupy_writer(database)

    async def call_twice() -> None:
        await database.run_batched(batches.operation, "first")
        await database.run_batched(batches.operation, "next")

    callers = [asyncio.create_task(call_twice()) for _ in range(4)]
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.to_thread(batches.is_running.wait, TIMEOUT_SECONDS)
    queued = [asyncio.create_task(database.run_batched(batches.operation, "queued")) for _ in range(3)]
    await asyncio.sleep(0)
    batches.begin.set()
    await asyncio.gather(*callers, *queued)
    assert batches.sizes == [4, 7]


async def test_call_runs_although_answered_callers_make_no_other(
    database: Database, batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(next_calls, "WAIT_SECONDS", TIMEOUT_SECONDS)
    batches.begin.set()
    go_on = await occupy_writer(database)
    callers = [asyncio.create_task(database.run_batched(batches.operation, "a")) for _ in range(2)]
    await asyncio.sleep(0)
    go_on.set()
    await asyncio.gather(*callers)
    await database.run_batched(batches.operation, "b")
    assert batches.sizes == [2, 1]


async def test_calls_run_while_the_event_loop_of_answered_callers_is_blocked(
    database: Database, batches: Batches
) -> None:
    """The callback of the first call waits for a write that is queued behind the wait."""
    batches.begin.set()
    go_on = await occupy_writer(database)
    has_run = asyncio.Event()

    def block(_outcome: object) -> None:
        database.write_now(lambda _conn: None)
        has_run.set()

    for _ in range(2):
        database.submit_batched(batches.operation, "a", block)
    go_on.set()
    await has_run.wait()


def test_calls_run_after_the_event_loop_of_answered_callers_was_closed(database: Database, batches: Batches) -> None:
    async def submit_only() -> None:
        for _ in range(2):
            database.submit_batched(batches.operation, "a", lambda _outcome: None)
        await asyncio.to_thread(batches.is_running.wait, TIMEOUT_SECONDS)

    asyncio.run(submit_only())
    batches.begin.set()
    assert database.write_now(lambda _conn: "written") == "written"


def test_writer_waits_for_several_callers_of_one_loop_only() -> None:
    operation: BatchOperation[str, None] = BatchOperation(lambda _conn, requests: [None for _ in requests])
    loops = [asyncio.new_event_loop() for _ in range(2)]

    def calls_of(*chosen: asyncio.AbstractEventLoop | None) -> list[BatchCall[str, None]]:
        return [BatchCall(operation, "a", lambda _outcome: None, loop) for loop in chosen]

    assert loop_of_answered(calls_of(loops[0], loops[0])) is loops[0]
    assert loop_of_answered(calls_of(loops[0])) is None
    assert loop_of_answered(calls_of(*loops)) is None
    assert loop_of_answered(calls_of(None, None)) is None
    assert loop_of_answered([]) is None
    for loop in loops:
        loop.close()
