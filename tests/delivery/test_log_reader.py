import asyncio

import pytest

from restante.core.cursor import START, Position
from restante.core.errors import CursorExpired
from restante.database.connection import Connection
from restante.database.database import Database
from restante.delivery import log, log_reader
from restante.delivery.log import Reading
from restante.delivery.log_reader import LogReader, ReadResult
from tests.delivery.holding import hold_readers
from tests.delivery.rows import signal

SOON = 10.0


class Asking:
    """Reads, with a future for each answer."""

    def __init__(self, database: Database) -> None:
        self.reader = LogReader(database)

    def read(self, device_id: int, cursor: Position | None = START, limit: int = 20) -> "asyncio.Future[ReadResult]":
        answer: asyncio.Future[ReadResult] = asyncio.get_running_loop().create_future()
        self.reader.read(device_id, cursor, limit, answer.set_result)
        return answer


async def all_of(*answers: "asyncio.Future[ReadResult]") -> list[ReadResult]:
    return await asyncio.wait_for(asyncio.gather(*answers), SOON)


async def test_each_gets_its_own_answer(database: Database, device: int, neighbour: int) -> None:
    database.write_now(log.append, device, [signal(1), signal(2)])
    asking = Asking(database)
    first, limited, none, expired = await all_of(
        asking.read(device),
        asking.read(device, None, 1),
        asking.read(neighbour),
        asking.read(device, Position(1, 1_000)),
    )
    assert isinstance(first, Reading)
    assert [entry.position.n for entry in first.entries] == [1, 2]
    assert isinstance(limited, Reading)
    assert [entry.position.n for entry in limited.entries] == [2]
    assert isinstance(none, Reading)
    assert none.entries == []
    assert isinstance(expired, Reading)
    (beyond,) = await all_of(asking.read(neighbour, Position(1, 1)))
    assert isinstance(beyond, CursorExpired)


async def test_what_arrives_while_a_batch_is_read_is_read_together(
    database: Database, device: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches: list[int] = []
    read_batch = log_reader.read_batch

    def counted(conn: Connection, batch: list[log_reader.LogRead]) -> list[ReadResult]:
        batches.append(len(batch))
        return read_batch(conn, batch)

    monkeypatch.setattr(log_reader, "read_batch", counted)
    monkeypatch.setattr(log_reader, "BATCH_MAX", 8)
    asking = Asking(database)
    go_on = hold_readers(database)
    first = asking.read(device)
    await asyncio.sleep(0)
    rest = [asking.read(device) for _ in range(20)]
    go_on()
    await all_of(first, *rest)
    assert batches == [1, 8, 8, 4]


async def test_a_read_asked_for_by_an_answer_is_read_too(database: Database, device: int) -> None:
    reader = LogReader(database)
    again: asyncio.Future[ReadResult] = asyncio.get_running_loop().create_future()
    reader.read(device, START, 20, lambda _first: reader.read(device, START, 20, again.set_result))
    assert isinstance(await asyncio.wait_for(again, SOON), Reading)


async def test_one_that_cannot_be_told_costs_neither_its_neighbours_nor_later_ones_their_answer(
    database: Database, device: int
) -> None:
    def hung_up(_result: ReadResult) -> None:
        raise RuntimeError("the transport is closed")

    asking = Asking(database)
    go_on = hold_readers(database)
    before = asking.read(device)
    asking.reader.read(device, START, 20, hung_up)
    after = asking.read(device)
    go_on()
    await all_of(before, after)
    await all_of(asking.read(device))


async def test_a_database_that_fails_is_told_to_everyone_and_the_next_is_read(
    database: Database, device: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = Asking(database)

    def broken(_conn: Connection, _batch: list[log_reader.LogRead]) -> list[ReadResult]:
        raise OSError("gone")

    with monkeypatch.context() as patch:
        patch.setattr(log_reader, "read_batch", broken)
        answers = await all_of(asking.read(device), asking.read(device))
    assert [type(answer) for answer in answers] == [OSError, OSError]
    (answer,) = await all_of(asking.read(device))
    assert isinstance(answer, Reading)


async def test_a_closed_database_is_told(database: Database, device: int) -> None:
    database.close()
    (answer,) = await all_of(Asking(database).read(device))
    assert isinstance(answer, Exception)
