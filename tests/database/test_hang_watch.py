"""Callers of a database that does not answer; tests/attacks/test_database_hangs.py stops a real one."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pytest

from restante.database.connection import Connection
from restante.database.database import Database
from restante.database.engine import Engine
from restante.database.errors import DatabaseUnavailable
from restante.database.writer.batching import BatchOperation
from tests.database.notes_table import add, everything

T = TypeVar("T")

TIMEOUT_SECONDS = 30.0
DEADLINE_SECONDS = 0.1


class Hang:
    """Transactions that hang until `end` is called."""

    def __init__(self) -> None:
        self._is_over = threading.Event()

    def end(self) -> None:
        self._is_over.set()

    def write(self, conn: Connection, text: str) -> None:
        add(conn, text)
        assert self._is_over.wait(TIMEOUT_SECONDS)

    def read(self, _conn: Connection) -> None:
        assert self._is_over.wait(TIMEOUT_SECONDS)

    def write_all(self, conn: Connection, texts: list[str]) -> list[str]:
        for text in texts:
            self.write(conn, text)
        return texts


@pytest.fixture
def hang() -> Iterator[Hang]:
    hang = Hang()
    yield hang
    hang.end()


@pytest.fixture
def database(sqlite_engine: Engine, hang: Hang) -> Iterator[Database]:
    database = Database(sqlite_engine)
    database.set_deadline(DEADLINE_SECONDS)
    yield database
    hang.end()
    assert database.close()


def add_all(conn: Connection, texts: list[str]) -> list[str]:
    return [add(conn, text) for text in texts]


async def answered(call: Callable[[], Awaitable[T]]) -> T:
    """The result of the first call that succeeds: with this deadline, one on a busy machine may fail."""
    while True:
        try:
            return await call()
        except DatabaseUnavailable:
            await asyncio.sleep(0.01)


async def test_hung_write_fails_at_the_deadline_with_all_that_wait(database: Database, hang: Hang) -> None:
    operation = BatchOperation(add_all)
    waiting = [
        asyncio.ensure_future(database.write(hang.write, "hung")),
        asyncio.ensure_future(database.write(add, "queued")),
        asyncio.ensure_future(database.run_batched(operation, "batched")),
    ]
    outcomes = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), TIMEOUT_SECONDS)
    assert [type(outcome) for outcome in outcomes] == [DatabaseUnavailable] * 3
    # Refused at once: the only writer is occupied.
    for _ in range(3):
        with pytest.raises(DatabaseUnavailable):
            await database.write(add, "refused")
        with pytest.raises(DatabaseUnavailable):
            await database.run_batched(operation, "refused")
    assert database.is_hanging
    hang.end()
    await answered(lambda: database.write(lambda _conn: None))
    texts = await answered(lambda: database.read(everything))
    # Whether a failed write took place is unknown to its caller; a refused one did not.
    assert "hung" in texts
    assert "refused" not in texts


async def test_hung_batched_call_fails_once(database: Database, hang: Hang) -> None:
    outcomes: list[object] = []
    failed = asyncio.Event()

    def record(outcome: object) -> None:
        outcomes.append(outcome)
        failed.set()

    database.submit_batched(BatchOperation(hang.write_all), "hung", record)
    await asyncio.wait_for(failed.wait(), TIMEOUT_SECONDS)
    hang.end()
    await answered(lambda: database.write(lambda _conn: None))
    assert len(outcomes) == 1
    assert await answered(lambda: database.read(everything)) == ["hung"]


async def test_hung_reads_fail_and_others_are_refused_until_one_ends(database: Database, hang: Hang) -> None:
    hung = [asyncio.ensure_future(database.read(hang.read)) for _ in range(database.readers)]
    queued = asyncio.ensure_future(database.read(everything))
    outcomes = await asyncio.wait_for(asyncio.gather(*hung, queued, return_exceptions=True), TIMEOUT_SECONDS)
    assert {type(outcome) for outcome in outcomes} == {DatabaseUnavailable}
    with pytest.raises(DatabaseUnavailable):
        await database.read(everything)
    hang.end()
    assert await answered(lambda: database.read(everything)) == []


async def test_one_hung_read_leaves_the_other_readers(database: Database, hang: Hang) -> None:
    with pytest.raises(DatabaseUnavailable):
        await database.read(hang.read)
    assert await answered(lambda: database.read(everything)) == []


def test_closing_a_hung_database_abandons_its_threads(sqlite_engine: Engine, hang: Hang) -> None:
    database = Database(sqlite_engine)
    database.set_deadline(DEADLINE_SECONDS)
    with pytest.raises(DatabaseUnavailable):
        database.write_now(hang.write, "hung")
    assert not database.close(0.01)
    hang.end()
    assert database.close()


def test_without_a_deadline_a_slow_write_is_waited_for(sqlite_engine: Engine, hang: Hang) -> None:
    """Commands of the command line: migrations, copies and exports may take long."""
    database = Database(sqlite_engine)
    written = database.submit(hang.write, "slow")
    hang.end()
    assert written.result(TIMEOUT_SECONDS) is None
    assert database.close()


def test_stop_shortens_the_deadline(sqlite_engine: Engine, hang: Hang, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("restante.database.hang_watch.LAST_SECONDS", 0.05)
    database = Database(sqlite_engine)
    database.set_deadline(3600.0)
    written = database.submit(hang.write, "hung")
    database.end_at(0.0)
    assert isinstance(written.exception(TIMEOUT_SECONDS), DatabaseUnavailable)
    hang.end()
    assert database.close()
